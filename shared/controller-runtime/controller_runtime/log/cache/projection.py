"""Feeds a cache from the state stream: a snapshot, then what follows, again from the start when a proof is missing."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, Final, Protocol

import structlog

from controller_runtime.compact import shared
from controller_runtime.log.broker.address import BusApiError, BusUnavailableError
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.consumer import Delivered, Delivery, deliver
from controller_runtime.log.broker.reading import STREAM_NOT_FOUND, DeliveryLostError, StreamState, stream_state
from controller_runtime.log.cache.store import Cache
from controller_runtime.log.freshness import BrokerClock, FeedSettings
from controller_runtime.log.publish.checkpoint import Account, Checkpoint, decode_checkpoint
from controller_runtime.log.wire.messages import EnvelopeError, decode_state
from controller_runtime.log.wire.part import Key, Part
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT, Layout, SubjectError, is_facts
from controller_runtime.log.wire.version import Change, Entry, Version
from controller_runtime.telemetry import tracing

NOT_OURS: Final = (EnvelopeError, SubjectError)
"""What `Decoder.read` raises for a message that no publisher of ours wrote."""


@dataclass(frozen=True, slots=True)
class Marked:
    """The publisher of a part was complete when it wrote this checkpoint."""

    part: Part[Any]
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Deletion:
    """A tombstone."""

    part: Part[Any]
    key: Key
    version: Version


Incoming = Entry[Any] | Deletion | Marked


class Decoder:
    """Reads the messages of the parts that one service consumes."""

    def __init__(self, layout: Layout, parts: Iterable[Part[Any]], service: str) -> None:
        self._layout = layout
        self._parts = {part.name: part for part in parts}
        self._service = service
        self._checkpoints = {layout.sync(name, self._owner(name)): part for name, part in self._parts.items()}

    @property
    def subjects(self) -> tuple[str, ...]:
        """What to ask the broker for: the parts, of the facts only the service's own, and all their checkpoints."""
        return tuple(subject for part in self._parts.values() for subject in self.subjects_of(part))

    def subjects_of(self, part: Part[Any]) -> tuple[str, ...]:
        """What to ask the broker for to know one part, with its checkpoint."""
        owner = self._owner(part.name)
        return self._layout.state_filter(part.name, owner), self._layout.sync(part.name, owner)

    def place(self, subject: str) -> tuple[Part[Any], Key] | None:
        """The object whose message lies under a subject; ``None`` if none can."""
        try:
            name, key = self._layout.parse_state(subject)
        except SubjectError:
            return None
        part = self._parts.get(name)
        return None if part is None else (part, key)

    def read(self, delivered: Delivered) -> Incoming:
        """What the message says.

        Raises:
            EnvelopeError: header or body make no sense.
            SubjectError: the subject does not.
        """
        message = delivered.message
        marked = self._checkpoints.get(message.subject)
        if marked is not None:
            return Marked(marked, decode_checkpoint(message.data))
        name, key = self._layout.parse_state(message.subject)
        if name not in self._parts:
            raise SubjectError(f"{message.subject!r} belongs to no part that {self._service} consumes")
        return self._version(self._parts[name], key, delivered)

    def _version(self, part: Part[Any], key: Key, delivered: Delivered) -> Incoming:
        state = decode_state(part.name, key, delivered.message.headers, delivered.message.data)
        # What stands for the resource version of a fact has no order: only the stream orders facts.
        version = Version(
            shared(state.uid),
            "" if is_facts(part.name) else state.resource_version,
            delivered.position.stream_sequence,
            # One text for all objects instead of one each.
            shared(state.epoch),
            shared(state.store_id),
        )
        raw = state.object()
        if raw is None:
            return Deletion(part, key, version)
        published = state.time.timestamp() if tracing.is_exporting() else 0.0
        return Entry(part, key, state.body, version, state.traceparent or None, raw=raw, published=published)

    def _owner(self, part: str) -> str:
        return self._service if is_facts(part) else ""


_NOTHING: Final = Version("", "")


class Belief(Enum):
    """What a checkpoint is worth."""

    AGREES = "the bus delivered exactly what the publisher confirms"
    DISAGREES = "the bus delivered everything it has, and that is something else"
    UNDECIDED = "more is to come, or has come, than lies before the checkpoint"


@dataclass(slots=True)
class Stage:
    """A snapshot in the making.

    It may be fed twice, by a consumer of its own and by the one that brings the changes of all parts; whatever lies
    further behind in the stream is the newer one.

    Attributes:
        entries: what lives.
        tombstones: what the snapshot says of objects that are gone.
        account: what was received so far.
        complete: everything that lay ready when the snapshot was asked for has arrived.
        covered: everything of the part up to this sequence has.
        proven: a checkpoint was believed of this very snapshot; one that was believed of other content proves nothing.
    """

    entries: dict[Key, Entry[Any]] = field(default_factory=dict)
    tombstones: dict[Key, Deletion] = field(default_factory=dict)
    account: Account = field(default_factory=Account)
    complete: bool = False
    covered: int = 0
    proven: bool = False

    def add(self, incoming: Entry[Any] | Deletion) -> None:
        """The snapshot goes on."""
        key, sequence = incoming.key, incoming.version.sequence or 0
        known = self.entries.get(key) or self.tombstones.get(key)
        if known is not None and (known.version.sequence or 0) >= sequence:
            return
        if isinstance(incoming, Deletion):
            self.entries.pop(key, None)
            self.tombstones[key] = incoming
            self.account.drop(key, sequence)
        else:
            self.tombstones.pop(key, None)
            self.entries[key] = incoming
            self.account.put(key, sequence)

    def lose(self, key: Key, sequence: int) -> None:
        """An unreadable message lies in the place of an object's message."""
        known = self.entries.get(key) or self.tombstones.get(key)
        if known is None or (known.version.sequence or 0) < sequence:
            self.entries.pop(key, None)
            self.tombstones.pop(key, None)
            self.account.drop(key, sequence)


@dataclass(slots=True)
class PartView:
    """One part as the bus shows it.

    Attributes:
        attached: the cache's content of the part comes from here.
        stage: the snapshot in the making; ``None`` once it was swapped in, or while another feed fills the part.
        account: of what was swapped in, and followed since; ``None`` before that.
        covered: everything up to this sequence came with the snapshot.
        marked_at: broker's time of the last checkpoint that was believed.
        confirmed: the version up to which every change lies before that checkpoint, in its epoch and store id.
        foreign: another cluster publishes the part on the same subjects: its UID; else empty.
        confirmed_by: source of that checkpoint.
        publisher: whose checkpoints alone count, by their source; empty = anybody's.
    """

    part: Part[Any]
    attached: bool = False
    stage: Stage | None = None
    account: Account | None = None
    covered: int = 0
    marked_at: datetime | None = None
    confirmed: Version = _NOTHING
    foreign: str = ""
    confirmed_by: str = ""
    publisher: str = ""

    def begin_stage(self) -> None:
        """Another snapshot is coming."""
        self.stage, self.covered = Stage(), 0

    @property
    def swappable(self) -> bool:
        """Whether a snapshot is finished and a checkpoint agreed with it."""
        return self.stage is not None and self.stage.complete and self.stage.proven

    def swap(self) -> Stage:
        """The snapshot is finished and goes into the cache; what follows changes it."""
        assert self.stage is not None
        stage, self.stage = self.stage, None
        self.account, self.covered, self.attached = stage.account, stage.covered, True
        return stage

    def let_go(self) -> None:
        """Nothing of what the bus tells goes into the cache until another snapshot was swapped in."""
        self.attached, self.account = False, None

    def mark_stale(self) -> None:
        """What was believed is no longer."""
        self.marked_at = None
        if self.stage is not None:
            self.stage.proven = False

    def belongs_to(self, cluster: str) -> None:
        """Another cluster publishes here: neither its messages nor those before are this cluster's present."""
        self.foreign = cluster
        self.stage = None
        self.mark_stale()
        self.let_go()

    def follow(self, incoming: Entry[Any] | Deletion) -> bool:
        """Take note of a message; whether the cache has to take it in."""
        sequence = incoming.version.sequence or 0
        if self.stage is not None:
            self.stage.add(incoming)
            return False
        if not self.attached or self.account is None or sequence <= self.covered:
            return False
        if isinstance(incoming, Deletion):
            self.account.drop(incoming.key, sequence)
        else:
            self.account.put(incoming.key, sequence)
        return True

    def lose(self, key: Key, sequence: int) -> None:
        """An unreadable message lies in the place of an object's message now: the stream no longer holds the object."""
        if self.stage is not None:
            self.stage.lose(key, sequence)
        elif self.account is not None and sequence > self.covered:
            self.account.drop(key, sequence)

    def judge(self, checkpoint: Checkpoint, sequence: int, *, caught_up: bool) -> Belief:
        """Compare a checkpoint with what was received.

        Args:
            sequence: of the checkpoint.
            caught_up: nothing lay ready behind it when it was delivered.
        """
        account = self.account if self.stage is None else self.stage.account
        if account is None or sequence < account.highest:
            return Belief.UNDECIDED
        if account.proof == checkpoint.proof:
            return Belief.AGREES
        # What was replaced before it was delivered comes behind the checkpoint: only then nothing is missing.
        whole = caught_up and (self.stage is None or self.stage.complete)
        return Belief.DISAGREES if whole else Belief.UNDECIDED

    def believe(self, checkpoint: Checkpoint, stored: datetime) -> None:
        """The checkpoint counts."""
        self.marked_at, self.confirmed_by = stored, checkpoint.source
        self.foreign = ""
        self.confirmed = Version("", checkpoint.resource_version, None, checkpoint.epoch, checkpoint.comparable_since)
        if self.stage is not None:
            self.stage.proven = True

    @property
    def received(self) -> int:
        """Number of objects received from the bus."""
        account = self.account if self.stage is None else self.stage.account
        return 0 if account is None else account.proof.objects


_log = structlog.get_logger(__name__)

_SNAPSHOT: Final = {"deliver_policy": "last_per_subject"}

Deliver = Callable[[Sequence[Change[Any]]], None]
"""Receives changes of the cache, after they happened, in order."""


class Attachment(Protocol):
    """Who decides where parts are fed from."""

    def attach(self, part: Part[Any]) -> None:
        """The bus is about to take over a part; nothing else may feed it from now on."""
        ...

    def wakeup(self) -> None:
        """Something about freshness may have changed."""
        ...

    def contradicted(self, part: Part[Any]) -> None:
        """The versions of a part differ from its publisher's checkpoint; at most once per snapshot."""
        ...


@dataclass(frozen=True, slots=True)
class ProjectionStatistics:
    """Counters.

    Attributes:
        generations: consumers made for all parts together.
        restaged: snapshots made of one part alone.
        disagreed: checkpoints that disagreed with what was received.
        dropped: messages of unknown publishers.
        messages: messages taken.
        followed: changes taken as they happened, and the seconds between the broker and here, in all.
        last_failure: why the last generation ended.
    """

    generations: int
    restaged: int
    disagreed: int
    dropped: int
    messages: int
    followed: tuple[int, float]
    last_failure: str | None


@dataclass(slots=True)
class _Counters:
    generations: int = 0
    restaged: int = 0
    disagreed: int = 0
    dropped: int = 0
    messages: int = 0
    followed: int = 0
    followed_seconds: float = 0.0
    last_failure: str | None = None


@dataclass(slots=True)
class _StreamProgress:
    """What is known of the stream; a checkpoint counts only if it lies behind ``barrier``.

    Attributes:
        session: of the connection in which this was learnt.
        highest: highest sequence taken.
        barrier: last sequence when the connection or stream was last found to be another; ``None`` before that.
    """

    session: int = 0
    created: str = ""
    highest: int = 0
    barrier: int | None = None

    def contradicted_by(self, state: StreamState, highest: int) -> bool:
        """Whether the stream is not the one it was: recreated, or restored from an older copy."""
        return state.created != self.created or state.last_sequence < highest


class Projection:
    """Keeps parts of a cache equal to the state stream. Create, then `run`."""

    def __init__(
        self,
        cache: Cache,
        connection: BusConnection,
        service: str,
        sink: Deliver,
        attachment: Attachment,
        *,
        layout: Layout = DEFAULT_LAYOUT,
        settings: FeedSettings,
        clock: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._connection = connection
        self._sink = sink
        self._attachment = attachment
        self._stream = layout.state_stream
        self._settings = settings
        self._clock = clock
        self._decoder = Decoder(layout, cache.parts, service)
        self._parts = {part.name: PartView(part) for part in cache.parts}
        self._cluster = ""
        self._known = _StreamProgress()
        self._broker = BrokerClock()
        self._delivered = False
        self._counters = _Counters()
        self._restaging: dict[str, asyncio.Task[None]] = {}
        self._restaged_at: dict[str, float] = {}
        self._restage_group: asyncio.TaskGroup | None = None

    # What others ask

    @property
    def statistics(self) -> ProjectionStatistics:
        """Counters for metrics."""
        counters = self._counters
        return ProjectionStatistics(
            counters.generations,
            counters.restaged,
            counters.disagreed,
            counters.dropped,
            counters.messages,
            (counters.followed, counters.followed_seconds),
            counters.last_failure,
        )

    def checkpoint_age(self, part: Part[Any], now: float) -> float | None:
        """Seconds since the part's checkpoint was written, by the broker's clock; ``None`` without one that counts."""
        marked_at = self._parts[part.name].marked_at
        return None if marked_at is None else self._broker.age(marked_at, now)

    def is_attached(self, part: Part[Any]) -> bool:
        """Whether the cache's content of the part comes from the bus."""
        return self._parts[part.name].attached

    def foreign_cluster(self, part: Part[Any]) -> str:
        """UID of the other cluster that publishes the part on the same subjects; empty if there is none."""
        return self._parts[part.name].foreign

    def trust_only(self, part: Part[Any], publisher: str) -> None:
        """Only what this publisher confirms counts from now on, and of what is believed already.

        A former one's checkpoint may be stored at any time: it lay in a buffer of the broker, or of a connection.

        Args:
            publisher: source of its checkpoints.
        """
        view = self._parts[part.name]
        view.publisher = publisher
        if view.confirmed_by != publisher:
            view.mark_stale()

    def trust_any(self, part: Part[Any]) -> None:
        """Checkpoints of all publishers count again."""
        self._parts[part.name].publisher = ""

    def detach(self, part: Part[Any]) -> None:
        """Another feed fills the part, until `Attachment.attach` is called again."""
        self._parts[part.name].let_go()
        self._cache.reached(part, None)

    # Generations

    async def run(self, cluster: str = "") -> None:
        """Feed the cache until cancelled; whatever the broker does is survived.

        Args:
            cluster: UID of kube-system; what another cluster publishes is left alone. Empty = not checked.
        """
        self._cluster = cluster
        while True:
            session = await self._connection.wait_connected()
            began = self._clock()
            try:
                await self._generation(session)
            except (BusUnavailableError, BusApiError) as error:
                self._note_end(str(error))
                self._delivered = False
            # What kept this snapshot from arriving (a busy loop, a slow broker) would fail the next one as well. And
            # one snapshot makes up for all that is lost until it begins: losses must not outrun what heals them.
            next_at = self._clock() if not self._delivered else began
            await asyncio.sleep(next_at + self._settings.retry - self._clock())

    async def _generation(self, session: int) -> None:
        self._learn(session, await stream_state(self._connection, self._stream))
        async with (
            deliver(
                self._connection, self._stream, self._decoder.subjects, _SNAPSHOT, self._settings.heartbeat
            ) as delivery,
            asyncio.TaskGroup() as group,
        ):
            self._begin(delivery, group)
            watcher = group.create_task(self._watch_stream(delivery, session))
            try:
                self._note_end(await self._consume(delivery))
            finally:
                self._restage_group = None
                for task in (watcher, *self._restaging.values()):
                    task.cancel()

    def _begin(self, delivery: Delivery, group: asyncio.TaskGroup) -> None:
        self._counters.generations += 1
        self._restage_group = group
        self._restaging.clear()
        self._delivered = False
        for view in self._parts.values():
            view.begin_stage()
        if delivery.pending == 0:
            self._all_delivered()
        self._attachment.wakeup()

    def _all_delivered(self) -> None:
        self._delivered = True
        for name, view in self._parts.items():
            if view.stage is not None and name not in self._restaging:
                view.stage.complete = True

    async def _consume(self, delivery: Delivery) -> str:
        """Take what is delivered for as long as it is complete; returns why it no longer is."""
        try:
            while True:
                self._take(await delivery.batch())
                # Without this, and one after each swap, a long snapshot would keep everybody else waiting.
                await asyncio.sleep(0)
                for view in self._parts.values():
                    if self._swap(view):
                        await asyncio.sleep(0)
                self._tend(self._clock())
        except DeliveryLostError as error:
            return str(error)

    def _note_end(self, why: str) -> None:
        if why != self._counters.last_failure:
            if self._counters.generations:
                _log.warning("taking a new snapshot", reason=why)
            else:
                _log.info("no snapshot available yet", reason=why)
        self._counters.last_failure = why

    def _learn(self, session: int, stream: StreamState) -> None:
        """Decide which checkpoints count from now on."""
        known = self._known
        self._broker.reset()
        self._broker.observe(stream.now, self._clock())
        same = known.session == session and not known.contradicted_by(stream, known.highest)
        if same:
            return
        # Before the first connection there is nothing that could have been lost; later only what is written from
        # now on proves that a publisher has compared this very stream with the cluster.
        first = known.session == 0
        self._known = _StreamProgress(
            session, stream.created, stream.last_sequence, None if first else stream.last_sequence
        )
        for view in self._parts.values():
            view.mark_stale()

    async def _watch_stream(self, delivery: Delivery, session: int) -> None:
        while True:
            try:
                async with asyncio.timeout(self._settings.stream_check):
                    await self._connection.wait_lost(session)
                return delivery.fail("the connection to the broker was lost")
            except TimeoutError:
                pass
            highest = self._known.highest
            try:
                found = await stream_state(self._connection, self._stream)
            except BusApiError as error:
                if error.code == STREAM_NOT_FOUND:
                    return delivery.fail(f"stream {self._stream} is gone")
                continue
            except BusUnavailableError:
                # The connection or the heartbeats tell soon enough.
                continue
            self._broker.observe(found.now, self._clock())
            if self._known.contradicted_by(found, highest):
                return delivery.fail(f"stream {self._stream} was recreated or restored from an older copy")

    # One part alone

    def _restage(self, view: PartView, now: float, why: str) -> bool:
        """Make a snapshot of one part, unless that is under way or was done a moment ago; returns whether it is."""
        name = view.part.name
        due = now - self._restaged_at.get(name, float("-inf")) >= self._settings.restage
        if name in self._restaging or self._restage_group is None or not due:
            return False
        _log.info("taking a new snapshot of a part", part=name, reason=why)
        self._counters.restaged += 1
        self._restaged_at[name] = now
        view.begin_stage()
        task = self._restaging[name] = self._restage_group.create_task(self._read_part(view))
        # Not by the task itself: one that is cancelled before its first step never runs.
        task.add_done_callback(partial(self._restage_ended, name))
        return True

    def _restage_ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._restaging.get(name) is task:
            del self._restaging[name]

    async def _read_part(self, view: PartView) -> None:
        subjects = self._decoder.subjects_of(view.part)
        try:
            async with deliver(
                self._connection, self._stream, subjects, _SNAPSHOT, self._settings.heartbeat
            ) as delivery:
                if delivery.pending == 0 and view.stage is not None:
                    view.stage.complete = True
                async for delivered in delivery.ready():
                    self._take_one(view, delivered)
                if view.stage is not None:
                    view.stage.complete = True
            self._swap(view)
        except (BusUnavailableError, BusApiError, DeliveryLostError) as error:
            _log.warning("part cannot be read", part=view.part.name, error=str(error))
            # What came meanwhile went into the stage that is lost now; the next checkpoint asks for another one.
            view.stage = None
            view.let_go()

    def _take_one(self, view: PartView, delivered: Delivered) -> None:
        """Take a message of a part's own snapshot."""
        position = delivered.position
        self._counters.messages += 1
        incoming = self._read(delivered)
        if view.stage is None:
            # Another cluster turned out to publish here.
            return
        view.stage.covered = max(view.stage.covered, position.stream_sequence)
        view.stage.complete = view.stage.complete or position.pending == 0
        if incoming is not None:
            self._notify(self._apply(incoming, delivered, self._clock()))

    # Messages

    def _take(self, batch: Sequence[Delivered]) -> None:
        now = self._clock()
        changes: list[Change[Any]] = []
        if batch:
            self._broker.observe(batch[-1].position.stored, now)
        for delivered in batch:
            position = delivered.position
            self._counters.messages += 1
            self._known.highest = max(self._known.highest, position.stream_sequence)
            incoming = self._read(delivered)
            if position.pending == 0 and not self._delivered:
                self._all_delivered()
            if incoming is not None:
                changes += self._apply(incoming, delivered, now)
        for view in self._parts.values():
            # While a snapshot is being staged, the cache's content stays where it was.
            if view.attached and view.stage is None:
                self._cache.reached(view.part, max(view.covered, self._known.highest))
        self._notify(changes)

    def _notify(self, changes: Sequence[Change[Any]]) -> None:
        if changes:
            self._sink(changes)

    def _read(self, delivered: Delivered) -> Incoming | None:
        try:
            return self._decoder.read(delivered)
        except NOT_OURS as error:
            self._counters.dropped += 1
            _log.warning("dropped a message that no publisher wrote", error=str(error))
            place = self._decoder.place(delivered.message.subject)
            if place is not None:
                part, key = place
                self._parts[part.name].lose(key, delivered.position.stream_sequence)
            return None

    def _apply(self, incoming: Incoming, delivered: Delivered, now: float) -> list[Change[Any]]:
        if isinstance(incoming, Marked):
            return self._mark(incoming, delivered, now)
        view = self._parts[incoming.part.name]
        if view.stage is not None and isinstance(incoming, Entry):
            self._cache.prepare(incoming)
        if not view.follow(incoming):
            return []
        if view.attached and view.stage is None:
            self._counters.followed += 1
            self._counters.followed_seconds += self._broker.age(delivered.position.stored, now)
        if isinstance(incoming, Deletion):
            return self._cache.delete(incoming.part, incoming.key, incoming.version, now)
        return self._cache.put(incoming, now)

    # Checkpoints

    def _mark(self, marked: Marked, delivered: Delivered, now: float) -> list[Change[Any]]:
        checkpoint, view, position = marked.checkpoint, self._parts[marked.part.name], delivered.position
        if self._cluster and checkpoint.cluster and checkpoint.cluster != self._cluster:
            self._leave_alone(view, checkpoint.cluster)
            return []
        if checkpoint.proof is None or not self._counts(checkpoint, position.stream_sequence):
            return []
        if view.publisher not in ("", checkpoint.source):
            return []
        if view.stage is None and not view.attached:
            self._restage(view, now, "its publisher is back")
            return []
        if view.stage is None and checkpoint.comparable_since != view.confirmed.store_id:
            self._restage(view, now, "versions of another store id do not compare")
            return []
        match view.judge(checkpoint, position.stream_sequence, caught_up=position.pending == 0):
            case Belief.AGREES:
                return self._believe(view, checkpoint, position.stored, now)
            case Belief.DISAGREES:
                self._counters.disagreed += 1
                view.mark_stale()
                self._attachment.wakeup()
                counts = f"its publisher published {checkpoint.objects} objects, {view.received} were received"
                if self._restage(view, now, f"{counts}, or other versions"):
                    # Whichever side is wrong, each reads again, and neither more often than the other.
                    self._attachment.contradicted(view.part)
            case Belief.UNDECIDED:
                pass
        return []

    def _counts(self, checkpoint: Checkpoint, sequence: int) -> bool:
        # Its publisher may not have noticed yet that this is another stream than the one it compared.
        same_stream = checkpoint.stream_created == self._known.created
        return same_stream and (self._known.barrier is None or sequence > self._known.barrier)

    def _leave_alone(self, view: PartView, cluster: str) -> None:
        if view.foreign != cluster:
            _log.error(
                "another cluster publishes this part under the same names; reading the API server instead. "
                "Give one of the two installations another --nats-root",
                part=view.part.name,
                cluster=cluster,
            )
        if (task := self._restaging.get(view.part.name)) is not None:
            task.cancel()
        view.belongs_to(cluster)
        self._cache.reached(view.part, None)
        self._attachment.wakeup()

    def _believe(self, view: PartView, checkpoint: Checkpoint, stored: datetime, now: float) -> list[Change[Any]]:
        view.believe(checkpoint, stored)
        self._attachment.wakeup()
        if view.stage is not None:
            return []
        self._cache.mark(view.part, epoch=checkpoint.epoch, store_id=checkpoint.comparable_since)
        return self._cache.confirm(view.part, view.confirmed, now)

    def _swap(self, view: PartView) -> bool:
        """Let a part's snapshot take effect if it is finished; returns whether it was."""
        now = self._clock()
        age = self.checkpoint_age(view.part, now)
        if not view.swappable or age is None or age >= self._settings.checkpoint_lifetime:
            return False
        stage = view.swap()
        view.covered = max(view.covered, self._known.highest)
        self._cache.reached(view.part, view.covered)
        self._attachment.attach(view.part)
        upto = replace(view.confirmed, sequence=view.covered)
        changes: list[Change[Any]] = [*self._cache.replace(view.part, stage.entries, now, upto=upto)]
        self._cache.mark(
            view.part, synced=True, fresh=True, epoch=view.confirmed.epoch, store_id=view.confirmed.store_id
        )
        # Absence alone proves nothing against an own write; the word that this very object was deleted does.
        for gone in stage.tombstones.values():
            if self._cache.get(gone.part, gone.key) is not None:
                changes += self._cache.delete(gone.part, gone.key, gone.version, now)
        self._attachment.wakeup()
        self._notify(changes)
        return True

    def _tend(self, now: float) -> None:
        for view in self._parts.values():
            if view.attached and view.stage is None and self._cache.unconfirmed(view.part, now):
                self._restage(view, now, "an own write was never published")
