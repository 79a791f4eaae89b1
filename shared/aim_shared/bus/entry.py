"""One object as the world knows it: its JSON, which version that is, and its typed form, decoded once."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import ValidationError

from aim_shared.api import Resource
from aim_shared.bus.part import Key, Part
from aim_shared.errors import AimError, Category
from aim_shared.json import JsonObject

T = TypeVar("T", bound=Resource)


@dataclass(frozen=True, slots=True)
class Version:
    """Which version of an object this is.

    Attributes:
        uid: identity of the object; another UID under the same name is another object.
        resource_version: compares only within the same UID and epoch (FW-408); empty for facts.
        sequence: position in AIM_STATE; ``None`` for what came from the API server directly.
        epoch: sequences and resource versions compare only within one.
    """

    uid: str
    resource_version: str
    sequence: int | None = None
    epoch: str = ""

    def is_older_than(self, other: "Version") -> bool:
        """Whether both are versions of one object in one epoch and this is the older one."""
        if self.uid != other.uid or self.epoch != other.epoch:
            return False
        if self.resource_version and other.resource_version:
            return int(self.resource_version) < int(other.resource_version)
        return self.sequence is not None and other.sequence is not None and self.sequence < other.sequence


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

    @property
    def object(self) -> T | None:
        """The typed object; ``None`` when it can not be decoded."""
        decoded = self.decode()
        return None if isinstance(decoded, AimError) else decoded


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What happened to one key: created (no ``old``), changed, or deleted (no ``new``)."""

    part: Part[T]
    key: Key
    old: Entry[T] | None
    new: Entry[T] | None

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
