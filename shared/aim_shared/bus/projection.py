"""Feeds a world from the state stream: a snapshot, then what follows, again and again from scratch when in doubt.

Every doubt (a reconnect, a missed heartbeat, a gap, a stream that is not the one it was, an own write that nobody
publishes) ends the *generation*: a new consumer delivers the last message of every subject, they are staged part by
part, and a part's stage replaces the world's content once two things are true. The snapshot is complete, and the
part's sync marker was seen, written since the present connection and stream are known. The second is what makes a
silently stale world impossible: a stream restored from an old copy has an old marker.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Protocol

import structlog

from aim_shared.bus.connection import BusApiError, BusConnection, BusUnavailableError
from aim_shared.bus.deleted import OWN_WRITE_SECONDS
from aim_shared.bus.delivery import Delivered, Delivery, DeliveryLostError, deliver
from aim_shared.bus.entry import Change, Entry, Version
from aim_shared.bus.freshness import BrokerClock, FeedSettings
from aim_shared.bus.incoming import NOT_OURS, Decoder, Deletion, Incoming, Marked
from aim_shared.bus.part import Key, Part
from aim_shared.bus.stored import STREAM_NOT_FOUND, StreamState, stream_state
from aim_shared.bus.subjects import DEFAULT_LAYOUT, Layout
from aim_shared.bus.world import World

log = structlog.get_logger(__name__)

_SNAPSHOT: Final = {"deliver_policy": "last_per_subject"}
_NOTHING: Final = Version("", "")

Deliver = Callable[[Sequence[Change[Any]]], None]
"""Receives changes of the world, after they happened, in order."""


class Attachment(Protocol):
    """Who decides where parts are fed from."""

    def attach(self, part: Part[Any]) -> None:
        """The bus is about to take over a part; nothing else may feed it from now on."""
        ...

    def stirred(self) -> None:
        """Something about freshness may have changed."""
        ...


@dataclass(slots=True)
class _PartState:
    """One part as the bus shows it.

    Attributes:
        attached: the world's content of the part comes from here.
        stage: the snapshot in the making; ``None`` once it was swapped in (or while somebody else feeds the part).
        tombstones: what the snapshot says of objects that are gone.
        marked_at: broker's time of the last marker that counts.
        epoch: the one that the last marker named.
        complete: the version up to which every change lies before that marker.
    """

    part: Part[Any]
    attached: bool = False
    stage: dict[Key, Entry[Any]] | None = None
    tombstones: dict[Key, Deletion] = field(default_factory=dict)
    marked_at: datetime | None = None
    epoch: str = ""
    complete: Version = _NOTHING

    def begin_stage(self) -> None:
        """Another snapshot is coming."""
        self.stage, self.tombstones = {}, {}

    def add_to_stage(self, incoming: Entry[Any] | Deletion) -> None:
        """The snapshot goes on."""
        assert self.stage is not None
        if isinstance(incoming, Deletion):
            self.stage.pop(incoming.key, None)
            self.tombstones[incoming.key] = incoming
        else:
            self.tombstones.pop(incoming.key, None)
            self.stage[incoming.key] = incoming

    def finished_stage(self) -> tuple[dict[Key, Entry[Any]], list[Deletion]]:
        """The snapshot, of the living and of the dead; there is no other until the next generation."""
        stage, tombstones = self.stage or {}, list(self.tombstones.values())
        self.stage, self.tombstones = None, {}
        return stage, tombstones


@dataclass(frozen=True, slots=True)
class ProjectionStatistics:
    """Counters.

    Attributes:
        generations: consumers made.
        dropped: messages that nobody of ours wrote.
        messages: messages taken.
        last_failure: why the last generation ended.
    """

    generations: int
    dropped: int
    messages: int
    last_failure: str | None


@dataclass(slots=True)
class _Counters:
    generations: int = 0
    dropped: int = 0
    messages: int = 0
    last_failure: str | None = None


@dataclass(slots=True)
class _Known:
    """What is known of the stream; a marker counts only if it lies behind ``barrier``.

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
        """Whether the stream is not the one it was: made anew, or restored from an older copy."""
        return state.created != self.created or state.last_sequence < highest


class Projection:
    """Keeps parts of a world equal to the state stream. Create, then `run`."""

    def __init__(
        self,
        world: World,
        connection: BusConnection,
        service: str,
        sink: Deliver,
        attachment: Attachment,
        *,
        layout: Layout = DEFAULT_LAYOUT,
        settings: FeedSettings,
        clock: Callable[[], float],
    ) -> None:
        self._world = world
        self._connection = connection
        self._sink = sink
        self._attachment = attachment
        self._stream = layout.state_stream
        self._settings = settings
        self._clock = clock
        self._decoder = Decoder(layout, world.parts, service)
        self._parts = {part.name: _PartState(part) for part in world.parts}
        self._known = _Known()
        self._broker = BrokerClock()
        self._delivered = False
        self._delivery: Delivery | None = None
        self._counters = _Counters()
        self._restaged_at = float("-inf")

    # What others ask

    @property
    def statistics(self) -> ProjectionStatistics:
        """Counters for metrics."""
        counters = self._counters
        return ProjectionStatistics(counters.generations, counters.dropped, counters.messages, counters.last_failure)

    def marker_age(self, part: Part[Any], now: float) -> float | None:
        """Seconds since the part's marker was written, by the broker's clock; ``None`` without one that counts."""
        marked_at = self._parts[part.name].marked_at
        return None if marked_at is None else self._broker.age(marked_at, now)

    def is_attached(self, part: Part[Any]) -> bool:
        """Whether the world's content of the part comes from the bus."""
        return self._parts[part.name].attached

    def detach(self, part: Part[Any]) -> None:
        """Somebody else feeds the part, until `Attachment.attach` is called again."""
        self._parts[part.name].attached = False
        self._world.reached(part, None)

    # Generations

    async def run(self) -> None:
        """Feed the world until cancelled; whatever the broker does is survived."""
        while True:
            session = await self._connection.wait_connected()
            try:
                await self._generation(session)
            except (BusUnavailableError, BusApiError) as error:
                self._ended(str(error))
                self._delivered = False
            if not self._delivered:
                # What kept this snapshot from arriving (a busy loop, a slow broker) would fail the next one as well.
                await asyncio.sleep(self._settings.retry)

    async def _generation(self, session: int) -> None:
        self._learn(session, await stream_state(self._connection, self._stream))
        async with (
            deliver(
                self._connection, self._stream, self._decoder.subjects, _SNAPSHOT, self._settings.heartbeat
            ) as delivery,
            asyncio.TaskGroup() as group,
        ):
            self._begin(delivery)
            watcher = group.create_task(self._watch_stream(delivery, session))
            self._ended(await self._consume(delivery))
            watcher.cancel()

    def _begin(self, delivery: Delivery) -> None:
        self._counters.generations += 1
        self._delivery = delivery
        self._delivered = delivery.pending == 0
        for state in self._parts.values():
            state.begin_stage()
        self._attachment.stirred()

    async def _consume(self, delivery: Delivery) -> str:
        """Take what is delivered for as long as it is complete; returns why it no longer is."""
        try:
            while True:
                self._take(await delivery.batch())
                # Without this a long snapshot would keep everybody else waiting.
                await asyncio.sleep(0)
        except DeliveryLostError as error:
            return str(error)

    def _ended(self, why: str) -> None:
        if why != self._counters.last_failure:
            if self._counters.generations:
                log.warning("The view of the cluster is made anew from the message broker", reason=why)
            else:
                log.info("The message broker has no view of the cluster to give yet", reason=why)
        self._counters.last_failure = why
        self._delivery = None

    def _learn(self, session: int, stream: StreamState) -> None:
        """Decide which markers count from now on."""
        known = self._known
        self._broker.reset()
        self._broker.observe(stream.now, self._clock())
        same = known.session == session and not known.contradicted_by(stream, known.highest)
        if same:
            return
        # Before the first connection there is nothing that could have been lost; later only what is written from
        # now on proves that a publisher has compared this very stream with the cluster.
        first = known.session == 0
        self._known = _Known(session, stream.created, stream.last_sequence, None if first else stream.last_sequence)
        for state in self._parts.values():
            state.marked_at = None

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
                return delivery.fail(f"stream {self._stream} was made anew or restored from an older copy")

    # Messages

    def _take(self, batch: Sequence[Delivered]) -> None:
        now = self._clock()
        changes: list[Change[Any]] = []
        for delivered in batch:
            position = delivered.position
            self._counters.messages += 1
            self._known.highest = max(self._known.highest, position.stream_sequence)
            self._broker.observe(position.stored, now)
            self._delivered = self._delivered or position.pending == 0
            try:
                incoming = self._decoder.read(delivered)
            except NOT_OURS as error:
                self._drop(error)
            else:
                changes += self._apply(incoming, delivered, now)
        changes += self._swap(now)
        for state in self._parts.values():
            # While a snapshot is being staged, the world's content stays where it was.
            if state.attached and state.stage is None:
                self._world.reached(state.part, self._known.highest)
        if changes:
            self._sink(changes)
        self._tend(now)

    def _drop(self, error: Exception) -> None:
        self._counters.dropped += 1
        log.warning("Dropped a message that no publisher wrote", error=str(error))

    def _apply(self, incoming: Incoming, delivered: Delivered, now: float) -> list[Change[Any]]:
        if isinstance(incoming, Marked):
            return self._mark(incoming, delivered, now)
        state = self._parts[incoming.part.name]
        if state.stage is not None:
            if isinstance(incoming, Entry):
                self._world.prepare(incoming)
            state.add_to_stage(incoming)
            return []
        if not state.attached:
            return []
        if isinstance(incoming, Deletion):
            return self._world.delete(incoming.part, incoming.key, incoming.version, now)
        return self._world.put(incoming, now)

    def _mark(self, marked: Marked, delivered: Delivered, now: float) -> list[Change[Any]]:
        marker, barrier = marked.marker, self._known.barrier
        if marker.stream_created != self._known.created:
            # Its publisher has not noticed yet that this is another stream than the one it compared.
            return []
        if barrier is not None and delivered.position.stream_sequence <= barrier:
            return []
        state = self._parts[marked.part.name]
        state.marked_at = delivered.position.stored
        known_epoch, state.epoch = state.epoch, marker.epoch
        state.complete = Version("", marker.resource_version, None, marker.epoch, marker.comparable_since)
        self._attachment.stirred()
        if state.stage is not None or self._delivery is None:
            return []
        if not state.attached:
            self._delivery.fail(f"the publisher of {marked.part} is back")
        elif marker.epoch != known_epoch:
            self._delivery.fail(f"{marked.part} entered another epoch")
        else:
            return self._world.confirm(marked.part, state.complete, now)
        return []

    def _swap(self, now: float) -> list[Change[Any]]:
        changes: list[Change[Any]] = []
        if not self._delivered:
            return changes
        for state in self._parts.values():
            age = self.marker_age(state.part, now)
            if state.stage is None or age is None or age >= self._settings.marker_lifetime:
                continue
            stage, tombstones = state.finished_stage()
            self._attachment.attach(state.part)
            state.attached = True
            upto = replace(state.complete, sequence=self._known.highest)
            changes += self._world.replace(state.part, stage, now, upto=upto)
            self._world.mark(state.part, synced=True, fresh=True, epoch=state.epoch, era=state.complete.era)
            # Absence alone proves nothing against an own write; the word that this very object was deleted does.
            for gone in tombstones:
                if self._world.get(gone.part, gone.key) is not None:
                    changes += self._world.delete(gone.part, gone.key, gone.version, now)
            self._attachment.stirred()
        return changes

    def _tend(self, now: float) -> None:
        if now - self._restaged_at < OWN_WRITE_SECONDS or self._delivery is None:
            return
        for state in self._parts.values():
            if state.attached and self._world.unconfirmed(state.part, now):
                self._restaged_at = now
                self._delivery.fail(f"an own write of {state.part} was never published")
                return
