"""The reading side of the history: versions of objects, decisions about them, the state at some time.

Everything asks the broker for the subjects concerned and nothing else, so that one object among a hundred thousand
events costs as much as its own events.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import structlog

from controller_runtime.json import JsonObject, loads
from controller_runtime.log.broker.connection import BusConnection, Message
from controller_runtime.log.broker.consumer import Delivered, deliver
from controller_runtime.log.broker.reading import (
    DeliveryLostError,
    StoredMessage,
    broker_time,
    first_message_since,
    last_message,
    last_messages,
    next_message,
    rfc3339,
    stream_state,
)
from controller_runtime.log.broker.retention import Contents
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.history.versions import (
    Chain,
    LoggedVersion,
    StateAt,
    chained,
    find_version,
    place_of,
    state_at,
)
from controller_runtime.log.wire.messages import EnvelopeError, decode_log, decode_state
from controller_runtime.log.wire.part import Key
from controller_runtime.log.wire.subjects import CLUSTER_SCOPE, DEFAULT_LAYOUT, Layout, SubjectError, encode_token
from controller_runtime.log.wire.version import Version

_log = structlog.get_logger(__name__)

_ALL: Final[JsonObject] = {"deliver_policy": "all"}
_PRESENT: Final[JsonObject] = {"deliver_policy": "last_per_subject"}
_SUBJECTS_AT_ONCE: Final = 256
"""Subjects that one consumer reads: few enough for the broker to match quickly."""
_REQUESTS_AT_ONCE: Final = 32
_CLOCKS_APART: Final = timedelta(minutes=1)
"""By how much the broker's clock may be behind that of a service."""


PartOf: TypeAlias = tuple[str, str]
"""Name of a part; and of a service, if only its facts are meant."""


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision record and where it lies.

    Attributes:
        stored: the broker's time.
        sequence: in its stream.
    """

    record: DecisionRecord
    stored: datetime
    sequence: int


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """Which decisions; ``None`` = any. Times are those that the passes were given."""

    service: str | None = None
    part: str | None = None
    namespace: str | None = None
    name: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def subject(self, layout: Layout) -> str:
        """The subjects on which matching decisions lie."""
        tokens = (
            _token(self.service),
            self.part or "*",
            CLUSTER_SCOPE if self.namespace == "" else _token(self.namespace),
            _token(self.name),
        )
        return ".".join((layout.root, "decision", *tokens))

    def admits(self, record: DecisionRecord) -> bool:
        """Whether the record's time is in the span."""
        return (self.since is None or record.at >= self.since) and (self.until is None or record.at <= self.until)


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when, by the broker's clock."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class LoggedSpan:
    """What was logged of a part in a span, and somewhat longer, in the order of the log.

    Attributes:
        behind: of what was logged after the span.
        next: the sequence of the history at which to read on; ``None`` when nothing lies there.
    """

    within: tuple[LoggedVersion, ...]
    behind: tuple[LoggedVersion, ...]
    next: int | None


class History:
    """Reads the streams. Nothing is cached: what is asked for is read.

    All methods raise `BusUnavailableError` without an answer, `BusApiError` when the broker refuses, and
    `DeliveryLostError` when a delivery was incomplete; asking again is harmless.
    """

    def __init__(self, connection: BusConnection, layout: Layout = DEFAULT_LAYOUT) -> None:
        self._connection = connection
        self._layout = layout
        self.dropped = 0
        self.unreadable_decisions = 0
        """Messages that could not be read."""

    async def versions(self, part: str, key: Key) -> tuple[LoggedVersion, ...]:
        """Every version of an object that is kept, oldest first, the present one included, with holes marked."""
        # First: a later present would name versions that were logged after the history was read.
        present = await self._present(part, key)
        logged = [
            version
            async for delivered in self._read((self._layout.log(part, key),), _ALL)
            if (version := self._logged(delivered.message)) is not None
        ]
        return chained(logged, present)

    async def fetch(self, part: str, key: Key, version: Version) -> LoggedVersion | None:
        """Exactly one version; ``None`` if it is not kept. The present one costs a single request."""
        present = await self._present(part, key)
        if present is not None and present.is_version(version):
            return present
        return find_version(await self.versions(part, key), version)

    async def chains(self, wanted: Iterable[tuple[str, Key]]) -> dict[tuple[str, Key], Chain]:
        """All that is kept of some objects, by part and key; of all of them together with a few consumers."""
        left = sorted(set(wanted))
        found: dict[tuple[str, Key], Chain] = {where: Chain() for where in left}
        while left:
            some, left = left[:_SUBJECTS_AT_ONCE], left[_SUBJECTS_AT_ONCE:]
            logs = tuple(self._layout.log(part, key) for part, key in some)
            found |= await self._chains(logs, tuple(self._layout.state(part, key) for part, key in some))
        return found

    async def present(self, wanted: Iterable[PartOf]) -> dict[PartOf, dict[Key, LoggedVersion]]:
        """What the state stream holds of every object of some parts; of all of them together with one consumer."""
        found: dict[PartOf, dict[Key, LoggedVersion]] = {one: {} for one in sorted(set(wanted))}
        states = tuple(self._layout.state_filter(part, service) for part, service in found)
        for version in await self._stated_all(states) if found else ():
            # The facts of a service lie under its name.
            where = version.part, "" if (version.part, "") in found else version.key.namespace
            found[where][version.key] = version
        return found

    async def keys(self, wanted: PartOf) -> set[Key]:
        """Every object of a part of which the history holds anything."""
        request = {"subjects_filter": self._layout.log_filter(*wanted)}
        found: set[Key] = set()
        reported, total = 0, 1
        while reported < total:
            page = await self._connection.api(
                f"STREAM.INFO.{self._layout.history_stream}", {**request, "offset": reported}
            )
            subjects = page["state"].get("subjects") or {}
            for subject in subjects:
                # What an unknown publisher wrote cannot be read either.
                with suppress(SubjectError):
                    found.add(self._layout.parse_log(subject)[1])
            reported, total = reported + len(subjects), int(page.get("total", 0)) if subjects else 0
        return found

    async def during(self, wanted: PartOf, span: Span, behind: int = 0) -> LoggedSpan:
        """The versions of a part that were logged in a span.

        Args:
            behind: how many of those that were logged after it are read as well.
        """
        policy = {"deliver_policy": "by_start_time", "opt_start_time": rfc3339(span.since)}
        subjects = (self._layout.log_filter(*wanted),)
        versions: tuple[list[LoggedVersion], list[LoggedVersion]] = [], []
        following: int | None = None
        async with deliver(self._connection, self._layout.history_stream, subjects, policy) as delivery:
            async for delivered in delivery.ready():
                is_behind = delivered.position.stored > span.until
                behind -= is_behind
                if behind < 0:
                    following = delivered.position.stream_sequence
                    break
                if (version := self._logged(delivered.message)) is not None:
                    versions[is_behind].append(version)
        return LoggedSpan(tuple(versions[0]), tuple(versions[1]), following)

    async def last_before(self, part: str, keys: Iterable[Key], before: datetime) -> dict[Key, LoggedVersion | None]:
        """The last version of each of some objects that was logged before a time; ``None`` = it cannot be read.

        Objects of which nothing lies before are left out.
        """
        subjects = {self._layout.log(part, key): key for key in keys}
        found = await last_messages(self._connection, self._layout.history_stream, subjects, before)
        return {subjects[message.subject]: self._logged(message) for message in found}

    async def next_after(self, part: str, keys: Iterable[Key], sequence: int) -> list[LoggedVersion]:
        """The first version of each of some objects at a sequence of the history or behind it, where there is one."""
        waiting = iter(sorted(keys))
        found: list[LoggedVersion] = []

        async def work() -> None:
            for key in waiting:
                version = await self._next(self._layout.log(part, key), sequence)
                if version is not None:
                    found.append(version)

        await asyncio.gather(*(work() for _ in range(_REQUESTS_AT_ONCE)))
        return found

    async def decisions(self, wanted: DecisionFilter = DecisionFilter()) -> list[StoredDecision]:
        """The decisions that match, in the order of the clocks that they were given."""
        found = [one async for one in self._decisions((wanted.subject(self._layout),))]
        return in_order_of_time(one for one in found if wanted.admits(one.record))

    async def decisions_near(
        self,
        namespace: str | None,
        about: Iterable[tuple[str, Key]],
        traces: Collection[str],
        since: datetime | None = None,
    ) -> list[StoredDecision]:
        """The decisions about some objects, and those of some traces about objects of a namespace.

        Args:
            namespace: empty for objects of the cluster, ``None`` for those of everywhere: the broker then sends every
                decision since then.
            traces: ids.
            since: what was stored more than a minute before is not read.
        """
        wanted = [DecisionFilter(part=part, namespace=key.namespace, name=key.name) for part, key in sorted(about)]
        # The subjects of one consumer may not overlap.
        apart = [one for one in wanted if namespace is not None and one.namespace != namespace]
        subjects = [one.subject(self._layout) for one in (DecisionFilter(namespace=namespace), *apart)]
        places = [_place(one.subject(self._layout)) for one in wanted]
        words = [trace.encode() for trace in traces]

        def is_near(message: Message) -> bool:
            # Before it is decoded, which takes twenty times as long: a namespace may have thousands of others.
            return _place(message.subject) in places or any(word in message.data for word in words)

        return in_order_of_time([one async for one in self._decisions(tuple(subjects), is_near, since)])

    async def stirred(self, namespace: str) -> AsyncGenerator[None]:
        """At once, and then whenever something of a namespace was decided or has another version, until it is closed.

        A version is logged after it can be decided about, so that what was decided last may lack what it led to.
        """
        stirred = asyncio.Event()
        decisions = self._layout.decisions_stream, DecisionFilter(namespace=namespace).subject(self._layout)
        versions = self._layout.history_stream, self._layout.log_within(namespace)
        listening = [asyncio.ensure_future(self._listen(*one, stirred.set)) for one in (decisions, versions)]
        try:
            while True:
                waiting = asyncio.ensure_future(stirred.wait())
                try:
                    await asyncio.wait((waiting, *listening), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()
                for one in listening:
                    if one.done():
                        await one
                stirred.clear()
                yield
        finally:
            for one in listening:
                one.cancel()
            # What ended one of them has been raised; where it ended both, one error is enough.
            await asyncio.gather(*listening, return_exceptions=True)

    async def _listen(self, stream: str, subject: str, heard: Callable[[], None]) -> None:
        """Tell of each message that comes to a subject from now on, and that now is."""
        while True:
            with suppress(DeliveryLostError):
                async with deliver(self._connection, stream, (subject,), {"deliver_policy": "new"}) as delivery:
                    heard()
                    while True:
                        if await delivery.batch():
                            heard()

    async def decisions_of(self, part: str, key: Key) -> list[StoredDecision]:
        """The decisions of all services about one object."""
        return await self.decisions(DecisionFilter(part=part, namespace=key.namespace, name=key.name))

    async def newest_decisions(self, most: int, known: int = 0) -> tuple[list[StoredDecision], int]:
        """The newest decisions in the order of the log, and how far it is.

        Args:
            most: messages that are read, of which a few may be others.
            known: how far the log was when they were read before; of what came until then nothing is read again.
        """
        stream = self._layout.decisions_stream
        last = (await stream_state(self._connection, stream)).last_sequence
        begin = max(known + 1 if known <= last else 1, last - most + 1)
        if begin > last:
            return [], last
        policy: JsonObject = {"deliver_policy": "by_start_sequence", "opt_start_seq": begin}
        subjects = (DecisionFilter().subject(self._layout),)
        read = [one async for one in self._read(subjects, policy, stream)]
        # What came since the question is read as well, and is not to be read again.
        last = max([last, *(one.position.stream_sequence for one in read)])
        return [found for one in read if (found := self._decision(one)) is not None], last

    async def complete_since(self) -> dict[str, datetime]:
        """From when on versions and decisions are all kept, where size or age cut off what came before (FW-451)."""
        streams = {"versions": self._layout.history_stream, "decisions": self._layout.decisions_stream}
        found = {}
        for what, stream in streams.items():
            held = Contents.of(await self._connection.api(f"STREAM.INFO.{stream}"))
            if held.complete_since is not None:
                found[what] = held.complete_since
        return found

    async def sequence_at(self, moment: datetime) -> int:
        """How far the history was at some time, by the broker's clock; sequences count what was logged in between."""
        stream = self._layout.history_stream
        found = await first_message_since(self._connection, stream, moment)
        if found is not None:
            return found.sequence
        return int((await self._connection.api(f"STREAM.INFO.{stream}"))["state"]["last_seq"]) + 1

    async def begins(self) -> datetime:
        """Since when nothing has been dropped from the history."""
        info = await self._connection.api(f"STREAM.INFO.{self._layout.history_stream}")
        state = info["state"]
        # An empty stream counts on from what it held last.
        complete = int(state["first_seq"]) <= 1
        if not complete and not state["messages"]:
            return broker_time(info["ts"]) if "ts" in info else datetime.now(UTC)
        return broker_time(info["created"] if complete else state["first_ts"])

    async def settings(self, service: str, digest: str) -> JsonObject | None:
        """The settings to which decision records of a service refer; ``None`` if the log does not hold them."""
        subject = self._layout.settings(service, digest)
        message = await last_message(self._connection, self._layout.decisions_stream, subject)
        return None if message is None else loads(message.data)

    async def state_at(
        self, at: datetime, parts: Sequence[str], namespace: str | None = None
    ) -> dict[tuple[str, Key], StateAt]:
        """What is known of every object of some parts, in one namespace or (``None``) in all, at some time.

        For each the last version before it; the present one where that is older; unknown where the first one kept is
        later and has a predecessor.
        """
        before: dict[tuple[str, Key], LoggedVersion] = {}
        after: dict[tuple[str, Key], LoggedVersion] = {}
        present = {(version.part, version.key): version for version in await self._all_present(parts, namespace or "")}
        subjects = tuple(self._layout.log_filter(part, namespace or "") for part in parts)
        async for delivered in self._read(subjects, _ALL):
            version = self._logged(delivered.message)
            if version is None:
                continue
            where = (version.part, version.key)
            # By place: in the log, a version may stand behind later ones.
            if version.state.time <= at:
                before[where] = max(before.get(where, version), version, key=place_of)
            else:
                after[where] = min(after.get(where, version), version, key=place_of)
        return {
            where: state_at(before.get(where), after.get(where), present.get(where), at)
            for where in sorted({*before, *after, *present})
        }

    # Inside

    async def _read(
        self, subjects: tuple[str, ...], policy: JsonObject, stream: str | None = None
    ) -> AsyncIterator[Delivered]:
        """What a stream (by default the history) holds now of some subjects; what arrives meanwhile is left out."""
        async with deliver(self._connection, stream or self._layout.history_stream, subjects, policy) as delivery:
            async for delivered in delivery.ready():
                yield delivered

    async def _decisions(
        self,
        subjects: tuple[str, ...],
        wanted: Callable[[Message], bool] = lambda _: True,
        since: datetime | None = None,
    ) -> AsyncIterator[StoredDecision]:
        policy = _ALL
        if since is not None:
            policy = {"deliver_policy": "by_start_time", "opt_start_time": rfc3339(since - _CLOCKS_APART)}
        # Decisions made before they had a stream of their own lie among the versions until they are too old.
        for stream in (self._layout.history_stream, self._layout.decisions_stream):
            async for delivered in self._read(subjects, policy, stream):
                if wanted(delivered.message) and (decision := self._decision(delivered)) is not None:
                    yield decision

    async def _next(self, subject: str, sequence: int) -> LoggedVersion | None:
        while (
            message := await next_message(self._connection, self._layout.history_stream, subject, sequence)
        ) is not None:
            if (version := self._logged(message)) is not None:
                return version
            sequence = message.sequence + 1
        return None

    async def _chains(self, logs: tuple[str, ...], states: tuple[str, ...]) -> dict[tuple[str, Key], Chain]:
        # First: a later present would name versions that were logged after the history was read.
        present = {(version.part, version.key): version for version in await self._stated_all(states)}
        logged: defaultdict[tuple[str, Key], list[LoggedVersion]] = defaultdict(list)
        async for delivered in self._read(logs, _ALL):
            version = self._logged(delivered.message)
            if version is not None:
                logged[version.part, version.key].append(version)
        return {
            where: Chain.whole(logged.get(where, ()), present.get(where)) for where in logged.keys() | present.keys()
        }

    async def _present(self, part: str, key: Key) -> LoggedVersion | None:
        subject = self._layout.state(part, key)
        message = await last_message(self._connection, self._layout.state_stream, subject)
        return None if message is None else self._stated(message, message.sequence)

    async def _all_present(self, parts: Sequence[str], namespace: str) -> Iterable[LoggedVersion]:
        return await self._stated_all(tuple(self._layout.state_filter(part, namespace) for part in parts))

    async def _stated_all(self, subjects: tuple[str, ...]) -> list[LoggedVersion]:
        return [
            version
            async for delivered in self._read(subjects, _PRESENT, self._layout.state_stream)
            if (version := self._stated(delivered.message, delivered.position.stream_sequence)) is not None
        ]

    def _logged(self, message: StoredMessage | Message) -> LoggedVersion | None:
        try:
            part, key = self._layout.parse_log(message.subject)
            logged = decode_log(part, key, message.headers, message.data)
        except (EnvelopeError, SubjectError) as error:
            self._drop(error)
            return None
        return LoggedVersion(logged.state, logged.sequence)

    def _stated(self, message: StoredMessage | Message, sequence: int) -> LoggedVersion | None:
        try:
            part, key = self._layout.parse_state(message.subject)
            state = decode_state(part, key, message.headers, message.data)
        except (EnvelopeError, SubjectError) as error:
            self._drop(error)
            return None
        return LoggedVersion(state, sequence, pending=True)

    def _decision(self, delivered: Delivered) -> StoredDecision | None:
        try:
            record = DecisionRecord.model_validate(loads(delivered.message.data))
        except ValueError as error:
            self._drop(error)
            self.unreadable_decisions += 1
            return None
        return StoredDecision(record, delivered.position.stored, delivered.position.stream_sequence)

    def _drop(self, error: Exception) -> None:
        if not self.dropped:
            # Once: whatever writes one of them writes many.
            _log.warning("skipped messages that cannot be read", first=str(error))
        self.dropped += 1


def in_order_of_time(decisions: Iterable[StoredDecision]) -> list[StoredDecision]:
    """In the order of the clocks that they were given."""
    return sorted(decisions, key=lambda decision: (decision.record.at, decision.sequence))


def _place(subject: str) -> list[str]:
    """Part, namespace and name, as a decision's subject has them."""
    return subject.rsplit(".", 3)[1:]


def _token(name: str | None) -> str:
    return "*" if name is None else encode_token(name)
