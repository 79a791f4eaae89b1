"""One object as the world knows it: its JSON, which version that is, and its typed form, decoded once."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import ValidationError

from aim_shared.api import Resource
from aim_shared.bus.part import GroupId, Key, Part
from aim_shared.errors import AimError, Category
from aim_shared.json import JsonObject

T = TypeVar("T", bound=Resource)


@dataclass(frozen=True, slots=True)
class Version:
    """Which version of an object this is.

    Attributes:
        uid: identity of the object; another UID under the same name is another object.
        resource_version: compares only within the same UID and epoch, or era (FW-408); empty for facts.
        sequence: position in AIM_STATE; ``None`` for what came from the API server directly.
        epoch: sequences compare only within one.
        era: first epoch whose resource versions compare with this one's; empty = unknown, they compare within the
            own epoch only.
    """

    uid: str
    resource_version: str
    sequence: int | None = None
    epoch: str = ""
    era: str = field(default="", compare=False)

    @property
    def local(self) -> bool:
        """Whether this never went over the bus: an own write, or fed by the API server directly."""
        return self.sequence is None

    def is_older_than(self, other: "Version") -> bool:
        """Whether both are comparable versions of one object and this is the older one.

        Equal resource versions are ordered by sequence: a publisher may publish one version again.
        """
        if self.uid != other.uid or not self.compares_with(other):
            return False
        if self.resource_version != other.resource_version and self._counted and other._counted:
            return int(self.resource_version) < int(other.resource_version)
        return self.precedes(other)

    def compares_with(self, other: "Version") -> bool:
        """Whether the resource versions of both come from one uninterrupted life of the cluster's store."""
        return self.epoch == other.epoch or (self.era != "" and self.era == other.era)

    def is_after(self, other: "Version") -> bool:
        """Whether the cluster's store came to this later, of whatever object the two are versions."""
        counted = self._counted and other._counted and self.compares_with(other)
        return counted and int(self.resource_version) > int(other.resource_version)

    def precedes(self, other: "Version") -> bool:
        """Whether both went over the bus in one epoch, whatever their UIDs, and this came before."""
        if self.epoch != other.epoch or self.sequence is None or other.sequence is None:
            return False
        return self.sequence < other.sequence

    def is_newer_than(self, other: "Version") -> bool:
        """Whether this surely replaces the other version of the same UID: one that does not compare always does.

        Of one version known twice, the one that went over the bus is the newer, because its sequence is known.
        What has no resource version (a fact) and no sequence was made here, just now.
        """
        if not self.compares_with(other) or other.is_older_than(self):
            return True
        if self.is_older_than(other) or self.resource_version != other.resource_version:
            return False
        if self.epoch != other.epoch and not self.local:
            return True
        return (other.local and not self.local) or (self.local and not self.resource_version)

    @property
    def _counted(self) -> bool:
        return self.resource_version.isdecimal()


@dataclass(slots=True)
class Entry(Generic[T]):
    """An object in the world.

    Attributes:
        raw: the published JSON; shared, never to be modified.
        traceparent: W3C trace context of the change that brought this version.
    """

    part: Part[T]
    key: Key
    raw: JsonObject
    version: Version
    traceparent: str | None = None
    _decoded: T | AimError | None = field(default=None, repr=False)

    def decode(self) -> T | AimError:
        """The typed object, or why it can not be read (one bad object never stops the others, CC-014)."""
        if self._decoded is None:
            try:
                self._decoded = self.part.model.model_validate(self.raw)
            except ValidationError as error:
                first = error.errors()[0]
                path = ".".join(str(step) for step in first["loc"])
                self._decoded = AimError(
                    Category.INVALID_SPEC,
                    "Undecodable",
                    f"{self.part.kind.kind} {self.key} can not be read: {path}: {first['msg']}",
                )
        return self._decoded

    def same_content(self, other: "Entry[T]") -> bool:
        """Whether nobody could tell the two apart but by the resource version.

        What a trimmed part drops (a node's heartbeat) still counts the resource version up.
        """
        if self.raw == other.raw:
            return True
        ours, theirs = self.raw, other.raw
        return {**ours, "metadata": _content(ours)} == {**theirs, "metadata": _content(theirs)}

    def adopt_decoded(self, other: "Entry[T]") -> None:
        """Take over the typed object of an entry with the same JSON instead of decoding again."""
        if self._decoded is None and self.raw == other.raw:
            self._decoded = other._decoded

    @property
    def object(self) -> T | None:
        """The typed object; ``None`` when it can not be decoded."""
        decoded = self.decode()
        return None if isinstance(decoded, AimError) else decoded


def _content(raw: JsonObject) -> JsonObject:
    metadata = raw.get("metadata") or {}
    return {name: value for name, value in metadata.items() if name != "resourceVersion"}


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What happened to one key: created (no ``old``), changed, or deleted (no ``new``).

    Attributes:
        groups: groups of summaries that say something else than before.
    """

    part: Part[T]
    key: Key
    old: Entry[T] | None
    new: Entry[T] | None
    groups: frozenset[GroupId] = frozenset()

    @property
    def before(self) -> T | None:
        """The typed object before the change."""
        return self.old.object if self.old else None

    @property
    def after(self) -> T | None:
        """The typed object after the change."""
        return self.new.object if self.new else None

    @property
    def either(self) -> T | None:
        """The newest state there is: after the change, or what was deleted."""
        return self.after or self.before
