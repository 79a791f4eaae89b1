"""Decision records: what a reconcile read, in which form it is kept, and how it is published."""

import asyncio
import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import structlog
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.json import JsonObject, dumps, loads
from controller_runtime.log.broker.address import BusApiError, BusUnavailableError
from controller_runtime.log.broker.connection import BusConnection, MessageRefusal, PubAck, PublishOutcome, Unknown
from controller_runtime.log.broker.reading import STREAM_NOT_FOUND, StoredMessage, last_message
from controller_runtime.log.cache.view import IndexRead, ObjectRead, ReadLog
from controller_runtime.log.wire.part import Key
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT, Layout
from controller_runtime.log.wire.version import CachePosition, Position, Version

LISTED: Final = 100
"""Reads of one sort that are kept item by item: objects of a part, or look-ups in an index with what they found."""


class Recorded(BaseModel):
    """Written once and read by other versions: unknown members are kept, missing ones have defaults."""

    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True)


class RecordedObject(Recorded):
    """One object that was read by name; without ``uid`` it was found absent.

    Attributes:
        sequence: in the state stream; ``None`` for what did not come over the bus (an own write, a direct list).
        epoch: that of the sequence.
    """

    part: str
    namespace: str = ""
    name: str
    uid: str | None = None
    resource_version: str = ""
    sequence: int | None = None
    epoch: str = ""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def version(self) -> Version | None:
        """Which version was read; ``None`` when the object was absent."""
        if self.uid is None:
            return None
        return Version(self.uid, self.resource_version, self.sequence, self.epoch)


RecordedKey = Annotated[Key, BeforeValidator(lambda value: Key(*value))]


class RecordedIndex(Recorded):
    """One look-up of many and the keys found; an empty ``index`` stands for all objects of the part."""

    part: str
    index: str = ""
    value: str = ""
    keys: tuple[RecordedKey, ...] = ()


class RecordedSummary(Recorded):
    """One group of a summary, by value: nothing else has to be kept to know it again (FW-455)."""

    part: str
    summary: str
    group: str
    items: tuple[JsonObject, ...] = ()


class RecordedGroup(Recorded):
    """Many reads of one sort, which are not listed.

    Attributes:
        index: the one looked up in; ``None`` = objects of the part, however they were found.
        count: of objects read, or of look-ups.
        asked: digest of the questions: the names, or the values looked up.
        found: digest of the answers: which version each object had, or which keys each value led to.
    """

    part: str
    index: str | None = None
    count: int
    asked: str
    found: str


class RecordedReads(Recorded):
    """Everything a pass read.

    Attributes:
        stale: names of the parts that were not fresh, where finding nothing was an error (FW-019).
        groups: reads of which there were too many to list; a part or index stands either here or in the lists.
    """

    objects: tuple[RecordedObject, ...] = ()
    indexes: tuple[RecordedIndex, ...] = ()
    summaries: tuple[RecordedSummary, ...] = ()
    stale: tuple[str, ...] = ()
    groups: tuple[RecordedGroup, ...] = ()


class RecordedPosition(Recorded):
    """How far the cache was, for questions that were not asked then; see `CachePosition`.

    Attributes:
        sequence: of the state stream, up to which everything was taken.
        epochs: the epoch of every part.
        apart: the sequence of the parts that were not so far; ``None`` = unknown.
        own: objects without ``uid`` were removed by an own write.
        objects: how many the cache held of each part in which a look-up depends on what every object says.
    """

    sequence: int | None = None
    epochs: Mapping[str, str] = {}
    apart: Mapping[str, int | None] = {}
    own: tuple[RecordedObject, ...] = ()
    stale: tuple[str, ...] = ()
    objects: Mapping[str, int] = {}

    def position(self, part: str) -> Position | None:
        """How far a part was; ``None`` when the cache did not hold it."""
        epoch = self.epochs.get(part)
        return None if epoch is None else Position(epoch, self.apart.get(part, self.sequence), self.objects.get(part))


def recorded_reads(log: ReadLog, listed: int = LISTED) -> RecordedReads:
    """The reads of a pass in their recorded form.

    Args:
        listed: how many reads of one sort are kept item by item.
    """
    objects, indexes = _by_part(log), _by_index(log)
    groups = [
        RecordedGroup(part=part, count=len(reads), **_digests_of_objects(reads))
        for part, reads in objects.items()
        if len(reads) > listed
    ]
    groups += [
        RecordedGroup(part=part, index=index, count=len(reads), **_digests_of_look_ups(reads))
        for (part, index), reads in indexes.items()
        if _length(reads) > listed
    ]
    return RecordedReads(
        objects=tuple(
            _object(read.part, read.key, read.version)
            for reads in objects.values()
            if len(reads) <= listed
            for read in reads
        ),
        indexes=tuple(
            RecordedIndex(part=read.part, index=read.index, value=read.value, keys=read.keys)
            for reads in indexes.values()
            if _length(reads) <= listed
            for read in reads
        ),
        summaries=tuple(
            RecordedSummary(
                part=part,
                summary=summary,
                group=group,
                items=tuple(recorded_item(item) for item in items),
            )
            for (part, summary, group), items in log.summaries.items()
        ),
        stale=tuple(sorted(log.stale_parts)),
        groups=tuple(groups),
    )


def recorded_position(position: CachePosition, counted: Iterable[str] = ()) -> RecordedPosition:
    """A moment of a cache in its recorded form.

    Args:
        counted: names of the parts whose number of objects is worth a place in the record.
    """
    sequences = {name: where.sequence for name, where in position.parts.items()}
    furthest = max((one for one in sequences.values() if one is not None), default=None)
    own = Counter(change.part for change in position.own)
    # So many own writes under way are not worth a record of every pass that happens among them.
    crowded = {part for part, count in own.items() if count > LISTED}
    return RecordedPosition(
        sequence=furthest,
        epochs={name: where.epoch for name, where in position.parts.items()},
        apart={
            name: None if name in crowded else one
            for name, one in sequences.items()
            if one != furthest or name in crowded
        },
        own=tuple(_object(one.part, one.key, one.version) for one in position.own if one.part not in crowded),
        stale=position.stale,
        objects={name: position.parts[name].objects or 0 for name in sorted(counted) if name in position.parts},
    )


def recorded_item(item: BaseModel) -> JsonObject:
    """One item of a summary in its recorded form."""
    return item.model_dump(mode="json", exclude_defaults=True)


def digest_of_dependencies(dependencies: Iterable[str]) -> str:
    """Digest of names or values, in whatever order."""
    return _digest(sorted(dependencies))


def digest_of_objects(found: Mapping[Key, Version | None]) -> str:
    """Digest of which version each object had."""
    return _digest(f"{key} {_token(version)}" for key, version in sorted(found.items()))


def digest_of_look_ups(found: Mapping[str, Iterable[Key]]) -> str:
    """Digest of what each value led to."""
    return _digest(f"{value} {' '.join(str(key) for key in sorted(keys))}" for value, keys in sorted(found.items()))


def _by_part(log: ReadLog) -> dict[str, list[ObjectRead]]:
    grouped: defaultdict[str, list[ObjectRead]] = defaultdict(list)
    for read in log.objects.values():
        grouped[read.part].append(read)
    return grouped


def _by_index(log: ReadLog) -> dict[tuple[str, str], list[IndexRead]]:
    grouped: defaultdict[tuple[str, str], list[IndexRead]] = defaultdict(list)
    for read in log.indexes.values():
        grouped[read.part, read.index].append(read)
    return grouped


def _length(reads: list[IndexRead]) -> int:
    return sum(1 + len(read.keys) for read in reads)


def _digests_of_objects(reads: list[ObjectRead]) -> dict[str, str]:
    return {
        "asked": digest_of_dependencies(str(read.key) for read in reads),
        "found": digest_of_objects({read.key: read.version for read in reads}),
    }


def _digests_of_look_ups(reads: list[IndexRead]) -> dict[str, str]:
    return {
        "asked": digest_of_dependencies(read.value for read in reads),
        "found": digest_of_look_ups({read.value: read.keys for read in reads}),
    }


def _object(part: str, key: Key, version: Version | None) -> RecordedObject:
    if version is None:
        return RecordedObject(part=part, namespace=key.namespace, name=key.name)
    return RecordedObject(
        part=part,
        namespace=key.namespace,
        name=key.name,
        uid=version.uid,
        resource_version=version.resource_version,
        sequence=version.sequence,
        epoch="" if version.local else version.epoch,
    )


def _token(version: Version | None) -> str:
    if version is None:
        return "-"
    where = version.resource_version if version.sequence is None else f"#{version.sequence}"
    return f"{version.uid} {where}"


def _digest(lines: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=12).hexdigest()


class RecordedFailure(Recorded):
    """The failed write of the previous plan that this pass was given (FW-010)."""

    category: Category
    reason: str = ""
    message: str = ""

    @property
    def error(self) -> ClassifiedError:
        """As an error value."""
        return ClassifiedError(self.category, self.reason, self.message)


class RecordedWrite(Recorded):
    """One request of the executor to the API server, and its result."""

    verb: str
    kind: str
    namespace: str = ""
    name: str = ""
    resource_version: str = ""
    result: str = ""
    error: str = ""


class DecisionRecord(Recorded):
    """One pass over one object.

    Attributes:
        id: unique.
        at: the clock that the pass was given.
        generation: of the object.
        woken_by: the change that brought the pass, in words; empty when it was none, as at a resync or a retry.
        failing_since: when passes of the object began to fail, as the pass received it.
        settings: digest of the effective settings; their values are in the log under it.
        shard: index of the shard whose leader decided: its facts were read (FW-894).
        cache: how far the cache was, for questions that were not asked then.
        plan: canonical plan, as the reconcile engine writes it.
        abridged: members of the plan of which digests stand instead of the content.
        outcome: how carrying it out ended.
    """

    id: str
    service: str
    controller: str
    part: str
    namespace: str = ""
    name: str
    uid: str = ""
    at: AwareDatetime
    generation: int = 0
    woken_by: str = ""
    traceparent: str = ""
    settings: str = ""
    shard: int = 0
    world: RecordedPosition = RecordedPosition()
    reads: RecordedReads = RecordedReads()
    failure: RecordedFailure | None = None
    failing_since: AwareDatetime | None = None
    plan: JsonObject = Field(default_factory=dict)
    abridged: tuple[str, ...] = ()
    writes: tuple[RecordedWrite, ...] = ()
    outcome: str = ""

    @property
    def key(self) -> Key:
        """Key of the object in its part."""
        return Key(self.namespace, self.name)

    def to_json(self) -> bytes:
        """The message body."""
        return dumps(self.model_dump(mode="json", by_alias=True, exclude_defaults=True))

    @classmethod
    def from_json(cls, data: bytes) -> "DecisionRecord":
        """Read a message body.

        Raises:
            ValueError: it is no decision record.
        """
        return cls.model_validate(loads(data))


_log = structlog.get_logger(__name__)

BUFFER: Final = 16 << 20
"""Bytes of records that may wait."""

_WORKERS: Final = 8
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between attempts while the broker does not store."""
_TELL_AFTER: Final = 5.0
"""Seconds for which losses are gathered into one line of the log."""


@dataclass(frozen=True, slots=True)
class RecorderStatistics:
    """Counters for metrics.

    Attributes:
        lost: records that were taken and will never be stored.
    """

    waiting: int
    recorded: int
    lost: int


@dataclass(frozen=True, slots=True)
class _Record:
    subject: str
    body: bytes
    headers: Mapping[str, str]


class Recorder:
    """Takes decision records and publishes them in the background."""

    def __init__(
        self, connection: BusConnection, service: str, *, layout: Layout = DEFAULT_LAYOUT, buffer: int = BUFFER
    ) -> None:
        """``buffer`` is in bytes."""
        self._connection = connection
        self._service = service
        self._layout = layout
        self._waiting: deque[_Record] = deque()
        self._waiting_bytes = 0
        self._buffer = buffer
        self._arrived = asyncio.Event()
        self._busy = 0
        self._alone = 1
        self._looked_back = False
        self._recorded = 0
        self._lost = 0
        self._unreported = 0
        self._cause = ""
        self._failures = 0
        self._trouble = "the broker has not answered yet"

    @property
    def statistics(self) -> RecorderStatistics:
        """A snapshot for metrics."""
        return RecorderStatistics(len(self._waiting) + self._busy, self._recorded, self._lost)

    def record(self, part: str, key: Key, body: bytes, headers: Mapping[str, str]) -> None:
        """Take a record about one object; never waits.

        Args:
            body: JSON.
            headers: among them should be ``Nats-Msg-Id``, which makes repeating harmless.
        """
        self._take(_Record(self._layout.decision(self._service, part, key), body, headers))

    def record_settings(self, digest: str, body: bytes) -> None:
        """Take the settings to which records refer by digest; counts like a record."""
        self._take(_Record(self._layout.settings(self._service, digest), body, {}))

    async def run(self) -> None:
        """Publish until cancelled. What is under way then waits for `flush`."""
        await self._arrived.wait()
        await self._begin()
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._work())

    async def flush(self, seconds: float) -> None:
        """Publish what still waits, for at most that long; tell what is lost. For the end of the process."""
        try:
            async with asyncio.timeout(seconds):
                if self._waiting:
                    await self._begin()
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(_WORKERS, len(self._waiting))):
                        group.create_task(self._drain())
        except TimeoutError:
            left = len(self._waiting)
            self._waiting.clear()
            self._lose(left, f"the process ends, and {self._trouble}")
        self._report()

    # Inside

    async def _begin(self) -> None:
        """Store what everything else relies on: the settings of a predecessor, and those of the first record.

        One after the other, and nothing beside them: the last record is all that the next process looks at. If
        this process were killed after storing a record, what had not been stored before it would be lost (FW-533).
        """
        if not self._looked_back:
            await self._finish_predecessor()
            self._looked_back = True
        while self._recorded < self._alone and self._waiting:
            await self._step()

    async def _finish_predecessor(self) -> None:
        """Put the settings behind the last record of the service that the log holds, if they are not there.

        Its writer was killed, else it would have done so itself. Ours come next, and would hide it.
        """
        for pause in _PAUSES:
            await self._connection.wait_connected()
            try:
                left = await _left_behind(self._connection, self._layout, self._service)
            except BusUnavailableError as error:
                self._trouble = str(error)
                await asyncio.sleep(pause)
                continue
            except BusApiError as error:
                if error.code != STREAM_NOT_FOUND:
                    _log.warning(
                        "settings cannot be recorded again; they may expire before the decisions made with them",
                        error=str(error),
                    )
                return
            if left is not None:
                self._put(_Record(left.subject, left.data, {}), first=True)
                self._alone += 1
            return
        _log.warning(
            "settings cannot be recorded again; they may expire before the decisions made with them",
            error=self._trouble,
        )

    def _take(self, record: _Record) -> None:
        self._put(record)
        while self._waiting_bytes > self._buffer:
            self._pop()
            self._lose(1, f"more than {self._buffer} bytes wait, because {self._trouble}")
        self._arrived.set()

    def _put(self, record: _Record, *, first: bool = False) -> None:
        self._waiting_bytes += len(record.body)
        if first:
            self._waiting.appendleft(record)
        else:
            self._waiting.append(record)

    def _pop(self) -> _Record:
        record = self._waiting.popleft()
        self._waiting_bytes -= len(record.body)
        return record

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            await self._step()

    async def _drain(self) -> None:
        while self._waiting:
            await self._step()

    async def _step(self) -> None:
        """Try to publish one record."""
        await self._connection.wait_connected()
        if not self._waiting:
            return
        record = self._pop()
        self._busy += 1
        # Should this be interrupted, what the last attempt failed for is the better reason.
        outcome: PublishOutcome = Unknown(self._trouble if self._failures else "it was under way")
        try:
            outcome = await self._connection.publish(record.subject, record.body, record.headers)
        finally:
            self._busy -= 1
            self._settle(record, outcome)
        if self._failures:
            await asyncio.sleep(_PAUSES[min(self._failures, len(_PAUSES)) - 1])

    def _settle(self, record: _Record, outcome: PublishOutcome) -> None:
        if isinstance(outcome, PubAck):
            self._recorded += 1
            self._failures = 0
        elif isinstance(outcome, MessageRefusal):
            self._lose(1, f"the broker refuses {record.subject}: {outcome.reason}")
        else:
            # No room, no answer, or interrupted: it may even be stored; its id makes repeating harmless.
            self._failures += 1
            self._trouble = outcome.reason if isinstance(outcome, Unknown) else str(outcome)
            self._put(record, first=True)

    def _lose(self, count: int, cause: str) -> None:
        self._lost += count
        if not self._unreported:
            asyncio.get_running_loop().call_later(_TELL_AFTER, self._report)
        self._unreported += count
        self._cause = cause

    def _report(self) -> None:
        if self._unreported:
            _log.warning("decision records lost", count=self._unreported, cause=self._cause)
            self._unreported = 0


async def _left_behind(connection: BusConnection, layout: Layout, service: str) -> StoredMessage | None:
    """The settings of the last record of a service, where that lies behind them."""
    stream = layout.decisions_stream
    last = await last_message(connection, stream, layout.decisions(service))
    digest = "" if last is None else _settings_of(last.data)
    if last is None or not digest:
        return None
    settings = await last_message(connection, stream, layout.settings(service, digest))
    return settings if settings is not None and settings.sequence < last.sequence else None


def _settings_of(body: bytes) -> str:
    """Digest of the settings to which a record refers; empty if it names none."""
    try:
        return str(loads(body).get("settings") or "")
    except ValueError:
        return ""
