"""What one viewer sees of the mirror, as the commands ask for it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from aim_cli.console.access import Rights
from aim_cli.refs import JsonObject, Ref
from aim_cli.resources import Resource

NOT_PUBLISHED = "the event log does not hold them; aim why asks the cluster itself"
NOT_ALLOWED = "you may not list them"


class Known(Protocol):
    """The present, whoever may see it."""

    def holds(self, kind: Resource) -> bool:
        """Whether objects of a kind are published at all."""

    def object(self, ref: Ref) -> JsonObject | None:
        """One object."""

    def objects(self, kind: Resource) -> Iterable[JsonObject]:
        """All objects of a kind."""


@dataclass(slots=True)
class Sight:
    """A `Cluster` without a cluster.

    Attributes:
        unasked: kinds that are not published, or that the viewer may not list.
    """

    known: Known
    rights: Rights
    unasked: dict[str, str] = field(default_factory=dict)

    def find(self, ref: Ref) -> JsonObject | None:
        """See `Cluster`."""
        if not self.known.holds(ref.kind):
            self.unasked[str(ref)] = NOT_PUBLISHED
        elif not self.rights.admits(ref.kind.resource, ref.namespace):
            self.unasked[str(ref)] = NOT_ALLOWED
        else:
            return self.known.object(ref)
        return None

    def search(self, kind: Resource, namespace: str = "", labels: str = "", fields: str = "") -> list[JsonObject]:  # noqa: ARG002
        """See `Cluster`; labels and fields would only save sending."""
        if not self.known.holds(kind):
            self.unasked[kind.plural] = NOT_PUBLISHED
            return []
        if not self.rights.admits(kind.resource, namespace) and not any(
            name == kind.resource for name, _ in self.rights.within
        ):
            self.unasked[kind.plural] = NOT_ALLOWED
            return []
        return [obj for obj in self.known.objects(kind) if self._is_shown(kind, obj, namespace)]

    def _is_shown(self, kind: Resource, obj: JsonObject, namespace: str) -> bool:
        own = obj["metadata"].get("namespace") or ""
        return namespace in ("", own) and self.rights.admits(kind.resource, own)
