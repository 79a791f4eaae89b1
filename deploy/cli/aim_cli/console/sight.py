"""What one viewer sees of the mirror, as the commands ask for it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.cluster.resources import Resource
from aim_cli.console.access import Rights

T = TypeVar("T")
NOT_PUBLISHED = "the event log does not hold them; aim why asks the cluster itself"
NOT_ALLOWED = "you may not list them"


class Known(Protocol):
    """The present, or a moment of the past, whoever may see it."""

    def holds(self, kind: Resource) -> bool:
        """Whether objects of a kind are published at all."""

    def object(self, ref: Ref) -> JsonObject | None:
        """One object."""

    def objects(self, kind: Resource, namespace: str, owner: str) -> Iterable[JsonObject]:
        """Objects of a kind: of a namespace unless it is empty, of the owner with a UID unless that is."""

    def each(
        self, kind: Resource, namespace: str, make: Callable[[Resource, JsonObject], T]
    ) -> Iterable[tuple[str, T]]:
        """What a function makes of each object of a kind, with the namespace of that."""

    def doubts(self, kind: Resource, /) -> Mapping[Ref, str]:
        """Of which objects of a kind it cannot be told how they are, and why."""


@dataclass(slots=True)
class Sight:
    """A `Cluster` without a cluster.

    Attributes:
        viewer: what they are called, where they logged in.
        unasked: kinds that are not published, or that the viewer may not list.
    """

    known: Known
    rights: Rights
    viewer: str = ""
    unasked: dict[str, str] = field(default_factory=dict)

    def find(self, ref: Ref) -> JsonObject | None:
        """See `Cluster`."""
        if not self.known.holds(ref.kind):
            self.unasked[str(ref)] = NOT_PUBLISHED
        elif not self.rights.admits(ref.kind.resource, ref.namespace):
            self.unasked[str(ref)] = NOT_ALLOWED
        else:
            found = self.known.object(ref)
            if (doubt := self.known.doubts(ref.kind).get(ref)) is not None:
                self.unasked[str(ref)] = doubt
            return found
        return None

    def search(
        self,
        kind: Resource,
        namespace: str = "",
        labels: str = "",  # noqa: ARG002 - this and the next would only save sending
        fields: str = "",  # noqa: ARG002
        owner: str = "",
    ) -> list[JsonObject]:
        """See `Cluster`."""
        if not self._may_look(kind, namespace):
            return []
        found = self.known.objects(kind, namespace, owner)
        shown = [obj for obj in found if self.rights.admits(kind.resource, obj["metadata"].get("namespace") or "")]
        for ref, doubt in self.known.doubts(kind).items():
            if namespace in ("", ref.namespace) and self.rights.admits(kind.resource, ref.namespace):
                self.unasked[str(ref)] = doubt
        return shown

    def each(self, kind: Resource, namespace: str, make: Callable[[Resource, JsonObject], T]) -> list[T]:
        """See `Cluster`."""
        if not self._may_look(kind, namespace):
            return []
        found = self.known.each(kind, namespace, make)
        return [made for own, made in found if self.rights.admits(kind.resource, own)]

    def _may_look(self, kind: Resource, namespace: str) -> bool:
        if not self.known.holds(kind):
            self.unasked[kind.plural] = NOT_PUBLISHED
            return False
        within = any(name == kind.resource for name, _ in self.rights.within)
        if not within and not self.rights.admits(kind.resource, namespace):
            self.unasked[kind.plural] = NOT_ALLOWED
            return False
        return True
