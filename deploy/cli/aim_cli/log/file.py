"""A slice of the event log in a file, which is read as the log itself is (FW-619, FW-620).

JSON lines, compressed: first what the file is, then versions, decisions and settings. Parts are in it whole or not at
all: with some objects left out, an absence would look like an omission.
"""

# The arguments are those of `History`.
# ruff: noqa: ARG002
import gzip
import zlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from aim_cli.errors import UnreadableError
from controller_runtime import JsonObject, Key, dumps
from controller_runtime.json import loads
from controller_runtime.log import (
    Chain,
    DecisionFilter,
    DecisionRecord,
    EnvelopeError,
    History,
    LoggedSpan,
    LoggedVersion,
    PartOf,
    Span,
    StateAt,
    StoredDecision,
    Version,
    decode_state,
    find_version,
    in_order_of_time,
    state_at,
)
from controller_runtime.replay import UnansweredError, objects_read, scoped_part, searched_parts

_FORMAT: Final = 1
_LONGEST_LINE: Final = 64 << 20
"""Bytes; an object in Kubernetes has at most 1.5 MiB, a message of the broker 8."""
_MOST_LINES: Final = 250_000
_LARGEST: Final = 512 << 20
"""Bytes of all lines unpacked."""
_EVERY: Final = DecisionFilter()
_EVER: Final = Span(datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class FileContents:
    """What a file holds.

    Attributes:
        parts: which parts are in it; of the facts, whose.
        present: what the state stream held.
        settings: by service and digest.
        begins: since when the log was complete.
    """

    parts: frozenset[PartOf]
    versions: tuple[LoggedVersion, ...]
    present: tuple[LoggedVersion, ...]
    decisions: tuple[StoredDecision, ...]
    settings: Mapping[tuple[str, str], JsonObject]
    begins: datetime
    complete_since: Mapping[str, datetime]


async def take(log: History, wanted: DecisionFilter) -> FileContents:
    """Decisions, and of every part that they read all that there is: a repeated decision may ask for more of it."""
    decisions = await log.decisions(wanted)
    parts = frozenset(where for one in decisions for where in _parts_of(one.record))
    # First: a later present would name versions that were logged after the history was read.
    present = [one for of_part in (await log.present(parts)).values() for one in of_part.values()]
    versions = [one for where in sorted(parts) for one in (await log.during(where, _EVER)).within]
    settings = {}
    for service, digest in sorted({(one.record.service, one.record.settings) for one in decisions}):
        values = await log.settings(service, digest) if digest else None
        if values is not None:
            settings[service, digest] = values
    # Last: what was dropped meanwhile may be missing.
    begins, since = await log.begins(), await log.complete_since()
    return FileContents(parts, tuple(versions), tuple(present), tuple(decisions), settings, begins, since)


def _parts_of(record: DecisionRecord) -> Iterator[PartOf]:
    yield record.part, ""
    for part in (*(part for part, _ in objects_read(record)), *searched_parts(record)):
        yield scoped_part(part, record.service)
    for read in record.reads.objects:
        yield scoped_part(read.part, record.service)


def documents(held: FileContents) -> Iterator[JsonObject]:
    """The lines of a file."""
    since = {what: at.isoformat() for what, at in held.complete_since.items()}
    parts = sorted(list(where) for where in held.parts)
    yield {"aimlog": _FORMAT, "parts": parts, "begins": held.begins.isoformat(), "completeSince": since}
    for (service, digest), values in held.settings.items():
        yield {"is": "settings", "service": service, "digest": digest, "values": values}
    for what, versions in (("version", held.versions), ("present", held.present)):
        yield from ({"is": what, **_version(one)} for one in versions)
    for one in held.decisions:
        record = loads(one.record.to_json())
        yield {"is": "decision", "stored": one.stored.isoformat(), "sequence": one.sequence, "record": record}


def _version(one: LoggedVersion) -> JsonObject:
    try:
        body = one.state.json()
    except EnvelopeError:
        # What may be in it is unknown: a hole instead.
        body = None
    where = {"part": one.part, "namespace": one.key.namespace, "name": one.key.name, "sequence": one.sequence}
    return {**where, "headers": one.state.headers(), "body": body}


def write(path: Path, lines: Iterable[JsonObject]) -> None:
    """Make a file, which is there once it is whole.

    Raises:
        UnreadableError: it cannot be made, or nothing would read so large a file (FW-741).
    """
    # What was written so far may read like a whole log, and the process may be ended at any moment.
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        with gzip.open(unfinished, "wb") as file:
            file.writelines(_within_bounds(dumps(line) + b"\n" for line in lines))
        unfinished.replace(path)
    except (OSError, _TooLargeError) as error:
        unfinished.unlink(missing_ok=True)
        why = getattr(error, "strerror", None) or error
        raise UnreadableError(f"{path} cannot be written: {why}") from error


def read(path: Path) -> FileContents:
    """What a file holds.

    Raises:
        UnreadableError: there is no such file, it is none of ours, or it is too large (FW-741).
    """
    entries = scan(path)
    head = next(entries).line
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        # Only what was made of a line stays, so that memory is that of the result.
        found[entry.line["is"]].append(entry if entry.value is None else Entry({}, entry.value))
    return FileContents(
        _parts(head),
        tuple(one.value for one in found["version"] if isinstance(one.value, LoggedVersion)),
        tuple(one.value for one in found["present"] if isinstance(one.value, LoggedVersion)),
        tuple(one.value for one in found["decision"] if isinstance(one.value, StoredDecision)),
        {(one.line["service"], one.line["digest"]): one.line["values"] for one in found["settings"]},
        datetime.fromisoformat(head["begins"]),
        {what: datetime.fromisoformat(at) for what, at in head["completeSince"].items()},
    )


class Entry(NamedTuple):
    """A line of a file, and what it stands for; of the first line and of settings that is the line itself."""

    line: JsonObject
    value: LoggedVersion | StoredDecision | None = None


def scan(path: Path) -> Iterator[Entry]:
    """The lines of a file one after the other, the head first, each checked.

    Raises:
        UnreadableError: as of `read`.
    """
    try:
        with gzip.open(path, "rb") as file:
            lines = map(loads, _within_bounds(iter(lambda: _line(file), b"")))
            head = next(lines, None)
            if head is None:
                raise ValueError("it is empty")
            if head["aimlog"] != _FORMAT:
                raise UnreadableError(f"{path} is of another release: look with the one that made it")
            parts = _parts(head)
            datetime.fromisoformat(head["begins"])
            yield Entry(head)
            for line in lines:
                entry = _entry(line)
                if isinstance(entry.value, StoredDecision) and not parts.issuperset(_parts_of(entry.value.record)):
                    raise UnreadableError(f"{path} lacks what its decisions read: ask for the whole file")
                yield entry
    except _TooLargeError as error:
        raise UnreadableError(f"{path} cannot be read: {error}") from error
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, EnvelopeError, zlib.error) as error:
        raise UnreadableError(f"{path} cannot be read: {error}; name a file that `aim export` made") from error


def _within_bounds(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, as long as memory is enough for what they hold: a small file may unpack to any number of them."""
    room = _LARGEST
    for number, line in enumerate(lines):
        room -= len(line)
        if number >= _MOST_LINES or room < 0:
            raise _TooLargeError
        yield line


class _TooLargeError(Exception):
    def __str__(self) -> str:
        bounds = f"more than {_MOST_LINES} lines or {_LARGEST >> 20} MiB unpacked"
        return f"{bounds}; export less: `aim export FILE KIND NAME --since 1h`"


def _parts(head: JsonObject) -> frozenset[PartOf]:
    return frozenset((part, service) for part, service in head["parts"])


def _line(file: gzip.GzipFile) -> bytes:
    """The next line; what unpacks to one without an end is not read to it."""
    line = file.readline(_LONGEST_LINE)
    if len(line) == _LONGEST_LINE:
        raise ValueError(f"a line has more than {_LONGEST_LINE} bytes")
    return line


def _entry(line: JsonObject) -> Entry:
    if line["is"] in ("version", "present"):
        return Entry(line, _read_version(line))
    return Entry(line, _read_decision(line) if line["is"] == "decision" else None)


def _read_version(line: JsonObject) -> LoggedVersion:
    body = b"" if line["body"] is None else dumps(line["body"])
    state = decode_state(line["part"], Key(line["namespace"], line["name"]), line["headers"], body)
    return LoggedVersion(state, int(line["sequence"]), pending=line["is"] == "present")


def _read_decision(line: JsonObject) -> StoredDecision:
    record = DecisionRecord.model_validate(line["record"])
    return StoredDecision(record, datetime.fromisoformat(line["stored"]), int(line["sequence"]))


class FileHistory(History):
    """A log that is a file: all of it is at hand, so nothing is read in sections."""

    def __init__(self, held: FileContents) -> None:
        # There is no connection.
        self.dropped = 0
        self.unreadable_decisions = 0
        self._held = held
        self._versions: defaultdict[tuple[str, Key], list[LoggedVersion]] = defaultdict(list)
        for one in held.versions:
            self._versions[one.part, one.key].append(one)
        self._now = {(one.part, one.key): one for one in held.present}

    async def versions(self, part: str, key: Key) -> tuple[LoggedVersion, ...]:
        """See `History`."""
        return self._chain(part, key).versions

    async def fetch(self, part: str, key: Key, version: Version) -> LoggedVersion | None:
        """See `History`."""
        return find_version(await self.versions(part, key), version)

    async def chains(self, wanted: Iterable[tuple[str, Key]]) -> dict[tuple[str, Key], Chain]:
        """See `History`."""
        return {(part, key): self._chain(part, key) for part, key in wanted}

    async def present(self, wanted: Iterable[PartOf]) -> dict[PartOf, dict[Key, LoggedVersion]]:
        """See `History`."""
        return {where: {one.key: one for one in _of(self._now.values(), self._sure(where))} for where in wanted}

    async def keys(self, wanted: PartOf) -> set[Key]:
        """See `History`."""
        return {one.key for one in _of(self._held.versions, self._sure(wanted))}

    async def during(self, wanted: PartOf, span: Span, behind: int = 0) -> LoggedSpan:
        """Of the part everything: see `LoggedSpan`, which may hold more than the span."""
        return LoggedSpan(tuple(_of(self._held.versions, self._sure(wanted))), (), None)

    async def last_before(self, part: str, keys: Iterable[Key], before: datetime) -> dict[Key, LoggedVersion | None]:
        """None: `during` has them all."""
        return {}

    async def next_after(self, part: str, keys: Iterable[Key], sequence: int) -> list[LoggedVersion]:
        """None: `during` has them all."""
        return []

    async def decisions(self, wanted: DecisionFilter = _EVERY) -> list[StoredDecision]:
        """See `History`."""
        return [one for one in self._held.decisions if _matches(one.record, wanted)]

    async def decisions_near(
        self,
        namespace: str | None,
        about: Iterable[tuple[str, Key]],
        traces: Collection[str],
        since: datetime | None = None,
    ) -> list[StoredDecision]:
        """See `History`; a file is read as a whole, whatever the traces and since when."""
        places = set(about)
        near = (
            one
            for one in self._held.decisions
            if namespace is None or one.record.key.namespace == namespace or _place(one) in places
        )
        return in_order_of_time(near)

    async def decided(self, namespace: str) -> AsyncGenerator[None]:
        """Once: a file does not go on."""
        yield

    async def complete_since(self) -> dict[str, datetime]:
        """See `History`."""
        return dict(self._held.complete_since)

    async def sequence_at(self, moment: datetime) -> int:
        """Everything is near."""
        return 0

    async def begins(self) -> datetime:
        """See `History`."""
        return self._held.begins

    async def settings(self, service: str, digest: str) -> JsonObject | None:
        """See `History`."""
        return self._held.settings.get((service, digest))

    async def state_at(
        self, at: datetime, parts: Sequence[str], namespace: str | None = None
    ) -> dict[tuple[str, Key], StateAt]:
        """See `History`; parts that are not in the file are empty."""
        wheres = sorted(
            (part, key)
            for part, key in {*self._versions, *self._now}
            if part in parts and namespace in (None, key.namespace)
        )
        return {where: _at(self._chain(*where).versions, at) for where in wheres}

    def _chain(self, part: str, key: Key) -> Chain:
        present = self._now.get((part, key))
        return Chain.whole(self._versions.get((part, key), ()), present)

    def _sure(self, where: PartOf) -> PartOf:
        if where not in self._held.parts:
            raise UnansweredError(
                f"the file holds nothing of {where[0]}: export the decision with a release that reads it"
            )
        return where


def _of(versions: Iterable[LoggedVersion], where: PartOf) -> Iterator[LoggedVersion]:
    # The facts of a service lie under its name.
    return (one for one in versions if one.part == where[0] and where[1] in ("", one.key.namespace))


def _at(versions: Sequence[LoggedVersion], at: datetime) -> StateAt:
    before = next((one for one in reversed(versions) if one.state.time <= at), None)
    return state_at(before, next((one for one in versions if one.state.time > at), None), None, at)


def _place(one: StoredDecision) -> tuple[str, Key]:
    return one.record.part, one.record.key


def _matches(record: DecisionRecord, wanted: DecisionFilter) -> bool:
    reported = (record.service, record.part, record.namespace, record.name)
    asked = (wanted.service, wanted.part, wanted.namespace, wanted.name)
    return wanted.admits(record) and all(one in (None, other) for one, other in zip(asked, reported, strict=True))
