"""One object in memory: its version, its JSON as bytes, its typed form while it is looked at, and its deletion."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar, final

from pydantic import ValidationError

from controller_runtime.api.meta import Resource
from controller_runtime.compact import Packed, Packer, unpacked
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.json import JsonObject, dumps, loads
from controller_runtime.log.wire.messages import unversioned
from controller_runtime.log.wire.part import Depth, GroupId, Key, Part

T = TypeVar("T", bound=Resource)

_IDENTITY: Final = frozenset({"apiVersion", "kind", "metadata"})
KEPT_DECODED: Final = 512 << 10
"""Bytes of JSON whose typed forms are kept; these take about ten times as much."""


@dataclass(frozen=True, slots=True)
class Version:
    """Which version of an object this is.

    Attributes:
        uid: identity of the object; another UID under the same name is another object.
        resource_version: compares only within the same UID and epoch, or store id (FW-408); empty for facts.
        sequence: position in the state stream; ``None`` for what came from the API server directly.
        epoch: sequences compare only within one.
        store_id: first epoch whose resource versions compare with this one's; empty = unknown, they compare within the
            own epoch only.
    """

    uid: str
    resource_version: str
    sequence: int | None = None
    epoch: str = ""
    store_id: str = field(default="", compare=False)

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
        return self.epoch == other.epoch or (self.store_id != "" and self.store_id == other.store_id)

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
    """An object in the cache.

    Attributes:
        traceparent: W3C trace context of the change that brought this version.
        published: when it was put onto the bus, in seconds since 1970; 0 where not asked for, or where it never was.
        derived: what the cache's indexes, summaries and lines make of it; the cache's own.
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
        """``body`` is the JSON as it goes over the bus; ``raw`` the same, just decoded and not shared."""
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
        """The JSON, decoded at each call: about 20 µs."""
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
        """The typed object as if it had nothing further in, made at each call unless it is the whole one.

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
        """Whether the two differ in the resource version alone.

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
        """Make the typed object again at the next read."""
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


class Position(NamedTuple):
    """How far the content of one part goes. A tuple, because every pass makes one of each part.

    Attributes:
        epoch: the one that the part was in.
        sequence: of the state stream, up to which everything was taken; ``None`` while the API server feeds the part,
            which gives no sequences.
        objects: how many the cache held, from any feed; ``None`` = not known.
    """

    epoch: str
    sequence: int | None
    objects: int | None = None


@dataclass(frozen=True, slots=True)
class OwnChange:
    """An own write that has not come back over the bus; ``version`` is ``None`` for a deletion."""

    part: str
    key: Key
    version: Version | None


@dataclass(frozen=True, slots=True)
class CachePosition:
    """One moment of a cache.

    Attributes:
        parts: every part that it holds, by name.
        own: what it holds, or lacks, other than the bus delivered.
        stale: names of the parts that were not fresh.
    """

    parts: Mapping[str, Position]
    own: tuple[OwnChange, ...] = ()
    stale: tuple[str, ...] = ()


K = TypeVar("K")

DELETED_MEMORY_SECONDS: Final = 3600.0
"""How long a deletion is remembered."""

CROWDED_SECONDS: Final = 300.0
"""How long deletions are remembered of which there are more than `MOST_DELETIONS`; what comes late comes sooner."""

MOST_DELETIONS: Final = 500
"""How many deletions of a part are remembered for longer, so that coming and going leaves nothing behind (FW-462)."""

OWN_WRITE_SECONDS: Final = 60.0
"""How long an own write that the feed did not confirm outweighs what the feed says."""


class Evidence(Enum):
    """How a deletion became known, which decides how sure it is."""

    ABSENCE = "absence"
    """A snapshot did not hold the object; a later snapshot may know better."""

    MESSAGE = "message"
    """A deletion was reported; the same UID may come back newer (it left a selection and entered it again)."""

    OUTLIVED = "outlived"
    """An own write met another UID under the name. Nearly sure: answers may arrive late, hence short-lived."""

    REPLACED = "replaced"
    """The bus gave its name to another UID, or deleted another one of that name, which is the position of this version.
    What the bus says of it behind that is later still: then that other one was the mistake."""

    FINAL = "final"
    """This UID is gone for good: the API server deleted it for us."""


_SECONDS: Final[Mapping[Evidence, float]] = {
    Evidence.ABSENCE: DELETED_MEMORY_SECONDS,
    Evidence.MESSAGE: DELETED_MEMORY_SECONDS,
    Evidence.OUTLIVED: OWN_WRITE_SECONDS,
    Evidence.REPLACED: DELETED_MEMORY_SECONDS,
    Evidence.FINAL: DELETED_MEMORY_SECONDS,
}
_FOR_GOOD: Final = frozenset({Evidence.OUTLIVED, Evidence.FINAL})


@dataclass(frozen=True, slots=True)
class _Deletion:
    version: Version
    at: float
    evidence: Evidence

    def holds(self, now: float) -> bool:
        return now - self.at < _SECONDS[self.evidence]


@dataclass(slots=True)
class DeletedMemory:
    """Which UIDs are gone, up to which version; and up to which sequence a name was free."""

    _deletions: dict[tuple[Key, str], _Deletion] = field(default_factory=dict)
    _latest: dict[Key, _Deletion] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._deletions)

    def remember(self, key: Key, version: Version, now: float, evidence: Evidence) -> None:
        """Note a deletion, unless a surer or newer one of that UID is known."""
        deletion = _Deletion(version, now, evidence)
        known = self._deletions.get((key, version.uid))
        if known is None or not _outweighs(known, version):
            self._deletions[key, version.uid] = deletion
        latest = self._latest.get(key)
        if not version.local and (latest is None or not version.precedes(latest.version)):
            self._latest[key] = deletion

    def forget(self, key: Key, uid: str) -> None:
        """The object lives."""
        self._deletions.pop((key, uid), None)

    def forget_old(self, now: float) -> None:
        """Drop what no longer holds, and of a crowd the oldest."""
        _thin_out(self._deletions, now)
        _thin_out(self._latest, now)

    def bars(self, key: Key, version: Version, now: float) -> bool:
        """Whether a single version comes too late: it is not newer than a deletion under its name."""
        latest = self._latest.get(key)
        if latest is not None and latest.holds(now) and version.precedes(latest.version):
            return True
        known = self._known_deletion(key, version, now)
        if known is None:
            return False
        if known.evidence is Evidence.REPLACED:
            return not known.version.lies_before(version)
        return known.evidence in _FOR_GOOD or not version.is_newer_than(known.version)

    def bars_from_snapshot(self, key: Key, version: Version, now: float) -> bool:
        """Whether a snapshot is behind a deletion; what was only missing elsewhere is taken from the snapshot."""
        known = self._known_deletion(key, version, now)
        if known is None or known.evidence is Evidence.ABSENCE:
            return False
        if known.evidence is Evidence.REPLACED:
            return not known.version.lies_before(version)
        return known.evidence in _FOR_GOOD or version.is_older_than(known.version)

    def _known_deletion(self, key: Key, version: Version, now: float) -> _Deletion | None:
        known = self._deletions.get((key, version.uid))
        return known if known is not None and known.version.compares_with(version) and known.holds(now) else None


def _thin_out(deletions: dict[K, _Deletion], now: float) -> None:
    in_order = sorted(deletions.items(), key=lambda item: item[1].at)
    surplus = len(in_order) - MOST_DELETIONS
    for number, (known, deletion) in enumerate(in_order):
        if not deletion.holds(now) or (number < surplus and now - deletion.at >= CROWDED_SECONDS):
            del deletions[known]


def _outweighs(known: _Deletion, version: Version) -> bool:
    if not known.version.compares_with(version):
        return False
    return known.evidence is Evidence.FINAL or version.is_older_than(known.version)
