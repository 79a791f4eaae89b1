"""Objects by kind and name, and how they are asked for. Imports nothing heavy (FW-603)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from aim_cli.cluster.resources import Resource

JsonObject: TypeAlias = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ref:
    """An object by its name; `namespace` is empty in the cluster's scope."""

    kind: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind.kind} {self.name}"

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        named = {"kind": self.kind.kind, "namespace": self.namespace, "name": self.name}
        return {key: value for key, value in named.items() if value}


def ref_of(kind: Resource, obj: JsonObject) -> Ref:
    """The name of an object that was read."""
    return Ref(kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


class Cluster(Protocol):
    """What is asked about objects."""

    @property
    def unasked(self) -> Mapping[str, str]:
        """What could not be read so far, and why."""

    def find(self, ref: Ref) -> JsonObject | None:
        """The object; ``None`` if there is none."""

    def search(
        self, kind: Resource, namespace: str = "", labels: str = "", fields: str = "", owner: str = ""
    ) -> list[JsonObject]:
        """Objects of a kind, in a namespace if one is given; none where nobody knows the kind.

        Labels, fields and the UID of an owner leave out what need not be sent; more may come.
        """

    def each(self, kind: Resource, namespace: str, make: Callable[[Resource, JsonObject], T]) -> list[T]:
        """What a function makes of each object of a kind.

        It is given nothing else, so that what it made of a version may be kept.
        """
