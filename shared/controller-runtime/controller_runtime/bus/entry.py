"""One object as the world knows it: which version it is, its JSON as bytes, and its typed form while it is looked at.

A decoded object takes ten times the memory of its JSON, and most objects are looked at once in minutes. So the typed
form is made on demand, and only those made last are kept.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Self, TypeVar, final

from pydantic import ValidationError

from controller_runtime.api.meta import Resource
from controller_runtime.bus.envelope import unversioned
from controller_runtime.bus.part import Depth, GroupId, Key, Part
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.json import JsonObject, dumps, loads
from controller_runtime.packed import Packed, Packer, unpacked

T = TypeVar("T", bound=Resource)

_IDENTITY: Final = frozenset({"apiVersion", "kind", "metadata"})
KEPT_DECODED: Final = 512 << 10
"""Bytes of JSON whose typed forms are kept; these take about ten times as much."""


@dataclass(frozen=True, slots=True)
class Version:
    """Which version of an object this is.

    Attributes:
        uid: identity of the object; another UID under the same name is another object.
        resource_version: compares only within the same UID and epoch, or era (FW-408); empty for facts.
        sequence: position in the state stream; ``None`` for what came from the API server directly.
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

    def lies_before(self, other: "Version") -> bool:
        """Whether both went over the bus, and this came before, be it in an earlier epoch."""
        if self.local or other.local:
            return False
        return self.epoch < other.epoch or self.precedes(other)

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


@final
class Entry(Generic[T]):
    """An object in the world.

    Attributes:
        traceparent: W3C trace context of the change that brought this version.
        published: when it was put onto the bus, in seconds since 1970; 0 where nobody asks, or where it never was.
        derived: what the world's indexes, summaries and lines make of it; the world's own.
    """

    __slots__ = ("_decoded", "_held", "_raw", "derived", "key", "part", "published", "traceparent", "version")

    def __init__(
        self,
        part: Part[T],
        key: Key,
        body: Packed | bytes,
        version: Version,
        traceparent: str | None = None,
        *,
        raw: JsonObject | None = None,
        published: float = 0.0,
    ) -> None:
        """``body`` is the JSON as it goes over the bus; ``raw`` the same, just decoded and nobody else's."""
        self.part = part
        self.key = key
        self.version = version
        self.traceparent = traceparent
        self.published = published
        self.derived: tuple[Any, ...] = ()
        self._held = body
        self._decoded: T | ClassifiedError | None = None
        self._raw = raw

    @classmethod
    def of(cls, part: Part[T], key: Key, obj: JsonObject, version: Version, traceparent: str | None = None) -> Self:
        """The entry of an object in published form."""
        return cls(part, key, dumps(obj), version, traceparent)

    def __repr__(self) -> str:
        return f"Entry({self.part} {self.key} {self.version})"

    @property
    def body(self) -> bytes:
        """The JSON as it goes over the bus."""
        return unpacked(self._held)

    @property
    def content(self) -> bytes:
        """The body as it is in every version that says the same."""
        return unversioned(self.body, self.version.resource_version)

    @property
    def raw(self) -> JsonObject:
        """The JSON, decoded anew at each call: about 20 µs."""
        return loads(self.body)

    def pack(self, packer: Packer) -> None:
        """Take less memory from now on."""
        if isinstance(self._held, bytes):
            self._held = packer.pack(self._held)
        self._raw = None

    def decode(self) -> T | ClassifiedError:
        """The typed object, or why it cannot be read (one bad object never stops the others, CC-014)."""
        if self._decoded is None:
            body = self.body
            raw, self._raw = self._raw or loads(body), None
            self._keep(_decoded(self.part, self.key, raw), len(body))
        assert self._decoded is not None
        return self._decoded

    @property
    def object(self) -> T | None:
        """The typed object; ``None`` when it cannot be decoded."""
        decoded = self.decode()
        return None if isinstance(decoded, ClassifiedError) else decoded

    def object_to(self, depth: Depth) -> T | None:
        """The typed object as if it had nothing further in, made anew at each call unless it is the whole one.

        ``None`` when that much of it cannot be decoded.
        """
        if depth is Depth.WHOLE:
            return self.object
        raw = self._raw or loads(self.body)
        if depth is Depth.METADATA:
            some = {name: value for name, value in raw.items() if name in _IDENTITY}
        else:
            some = {name: value for name, value in raw.items() if name != "status"}
        found = _decoded(self.part, self.key, some)
        return None if isinstance(found, ClassifiedError) else found

    def same_content(self, other: "Entry[T]") -> bool:
        """Whether nobody could tell the two apart but by the resource version.

        What a trimmed part drops (a node's heartbeat) still counts the resource version up.
        """
        if self._held is other._held:
            return True
        ours, theirs = self.body, other.body
        if ours == theirs:
            return True
        ours, theirs = self.content, other.content
        if len(ours) != len(theirs):
            return False
        # Members in another order are no other content, and take the same room.
        return ours == theirs or loads(ours) == loads(theirs)

    def adopt(self, other: "Entry[T]") -> None:
        """Take over what was made of the same JSON: its packed form, the typed object, what was derived from it."""
        ours, theirs = self.version, other.version
        if self._held is other._held or (ours.uid, ours.resource_version) != (theirs.uid, theirs.resource_version):
            return
        # Equal versions may have other content, in a store that was restored.
        body = self.body
        if body != other.body:
            return
        self._held, self.derived = other._held, other.derived
        if self._decoded is None and other._decoded is not None:
            self._keep(other._decoded, len(body))

    def forget_decoded(self) -> None:
        """Make the typed object anew when somebody looks."""
        self._decoded = None

    def _keep(self, decoded: T | ClassifiedError, size: int) -> None:
        self._decoded = decoded
        _RECENT.add(self, size)


@final
class _Recent:
    """The entries whose typed form was made last. What every pass reads is made again once in a while: it costs less
    than noting every look."""

    def __init__(self) -> None:
        self.limit = KEPT_DECODED
        self._entries: deque[tuple[Entry[Any], int]] = deque()
        self._bytes = 0

    def add(self, entry: Entry[Any], size: int) -> None:
        """Keep one more, and as many of the others as there is room for."""
        self._entries.append((entry, size))
        self._bytes += size
        while self._bytes > self.limit and len(self._entries) > 1:
            oldest, freed = self._entries.popleft()
            oldest.forget_decoded()
            self._bytes -= freed


_RECENT: Final = _Recent()
"""One for the process: what is bounded is its memory."""


def keep_decoded(limit: int) -> None:
    """Keep the typed forms of so many bytes of JSON from now on, in this process."""
    _RECENT.limit = limit


def _decoded(part: Part[T], key: Key, raw: JsonObject) -> T | ClassifiedError:
    try:
        return part.model.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(step) for step in first["loc"])
        return ClassifiedError(
            Category.INVALID_SPEC, "Undecodable", f"{part.kind.kind} {key} cannot be read: {path}: {first['msg']}"
        )


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What happened to one key: created (no ``old``), changed, or deleted (no ``new``).

    Attributes:
        groups: values of indexes that the object left or joined, and groups of summaries that say something else.
    """

    part: Part[T]
    key: Key
    old: Entry[T] | None
    new: Entry[T] | None
    groups: frozenset[GroupId] = frozenset()

    def __str__(self) -> str:
        what = "appeared" if self.old is None else "is gone" if self.new is None else "changed"
        return f"{self.part.kind.kind} {self.key} {what}"

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
