"""A cluster of given objects, as the command line asks for them."""

from collections.abc import Callable
from typing import TypeVar

from aim_cli.cluster.refs import JsonObject, Ref
from aim_domain.kind_names import KindName

T = TypeVar("T")


class Objects:
    """Answers from what it was given; selectors are those of an API server, equality alone."""

    def __init__(self, *objects: tuple[KindName, JsonObject]) -> None:
        self.objects = {
            Ref(kind, one["metadata"].get("namespace") or "", one["metadata"]["name"]): one for kind, one in objects
        }
        self.unasked: dict[str, str] = {}

    def find(self, ref: Ref) -> JsonObject | None:
        """See `Cluster`."""
        return self.objects.get(ref)

    def search(
        self, kind: KindName, namespace: str = "", labels: str = "", fields: str = "", owner: str = ""
    ) -> list[JsonObject]:
        """See `Cluster`."""
        return [
            one
            for ref, one in self.objects.items()
            if ref.kind == kind
            and namespace in ("", ref.namespace)
            and (not owner or owner in _owners(one))
            and all(_admits(one["metadata"].get("labels") or {}, wanted) for wanted in labels.split(",") if wanted)
            and all(_shows(one, wanted) for wanted in fields.split(",") if wanted)
        ]

    def each(self, kind: KindName, namespace: str, make: Callable[[KindName, JsonObject], T]) -> list[T]:
        """See `Cluster`."""
        return [make(kind, one) for one in self.search(kind, namespace)]


def _owners(obj: JsonObject) -> set[str]:
    return {one["uid"] for one in obj["metadata"].get("ownerReferences") or ()}


def _admits(labels: JsonObject, wanted: str) -> bool:
    key, equal, value = wanted.partition("=")
    return labels.get(key) == value if equal else key in labels


def _shows(obj: JsonObject, wanted: str) -> bool:
    path, _, value = wanted.partition("=")
    found: object = obj
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found == value
