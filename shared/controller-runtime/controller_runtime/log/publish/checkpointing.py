"""Writes the checkpoint of a part with a fence, regularly, and so notices a second publisher and another cluster."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Any, Final

from controller_runtime.kube.reflector_state import ListFrom
from controller_runtime.log.broker.connection import PubAck, PublishOutcome
from controller_runtime.log.broker.reading import StoredMessage, last_message, state_of, stream_info, stream_state
from controller_runtime.log.broker.streams import chosen_limits, state_config, stream_fault
from controller_runtime.log.publish.checkpoint import (
    NEVER_READ,
    UNPROVEN,
    Checkpoint,
    HistoryRange,
    Proof,
    decode_checkpoint,
)
from controller_runtime.log.publish.epoch import Scoping
from controller_runtime.log.publish.intake import Intake
from controller_runtime.log.publish.judgement import Scope
from controller_runtime.log.publish.missed import Changes
from controller_runtime.log.publish.state import (
    InterruptedSessionError,
    Phase,
    PublisherSetup,
    SupersededError,
    Swept,
    interrupting,
    sweep,
    tombstones,
)
from controller_runtime.log.publish.writer import Pump, Unwritable, Writer
from controller_runtime.log.wire.messages import EnvelopeError, StateMessage
from controller_runtime.log.wire.part import Part
from controller_runtime.tasks import within

_ATTEMPTS: Final = 5
_ALIVE_CHECKPOINTS: Final = 3
"""A publisher whose last checkpoint is older than so many intervals is gone."""


class ForeignClusterError(InterruptedSessionError):
    """Another cluster publishes the part on the same subjects; this one keeps its hands off."""


@dataclass(frozen=True, slots=True)
class CheckpointContent:
    """What a checkpoint says besides its place; by default nothing, as a claim does. See `Checkpoint`."""

    proof: Proof | None = None
    resource_version: str = ""
    history: HistoryRange = NEVER_READ


class CheckpointWriter:
    """The checkpoint of one part, as this process writes it.

    Args:
        service: for facts, which service's.
        source: name of the publisher.
    """

    def __init__(self, setup: PublisherSetup, part: str, service: str, source: str) -> None:
        self._connection = setup.connection
        self._stream = setup.layout.state_stream
        self._subject = setup.layout.sync(part, service)
        self._cluster = setup.cluster
        self._interval = setup.settings.checkpoint_interval
        self._guard = setup.guard
        self._part = part
        self._source = source
        self._sequence = 0
        self._number = 0
        self._leading = False
        self._outcome: PublishOutcome | None = None
        self.written = 0

    def forget(self) -> None:
        """This process did not lead for a while: a checkpoint of another process is expected now."""
        self._leading = False

    def is_own(self, checkpoint: Checkpoint | None) -> bool:
        """Whether this process wrote it."""
        return checkpoint is not None and checkpoint.source == self._source

    async def read(self, now: datetime) -> Checkpoint | None:
        """The part's checkpoint; ``None`` if there is none that can be read.

        Args:
            now: the broker's clock.

        Raises:
            ForeignClusterError: a process of another cluster confirms the part.
            SupersededError: another process has written it since this one did.
            BusUnavailableError: no answer.
            BusApiError: the broker refused.
        """
        found = await self._look()
        checkpoint = _decode(found)
        if found is None or checkpoint is None:
            return None
        if self._is_foreign(checkpoint):
            # A cluster that was replaced leaves a checkpoint that is never renewed. One that is renewed belongs to an
            # installation that lives, and the first one keeps the subjects.
            if now - found.stored < timedelta(seconds=_ALIVE_CHECKPOINTS * self._interval):
                raise ForeignClusterError(self._foreign(checkpoint))
            return checkpoint
        if checkpoint.source != self._source and self._leading:
            raise SupersededError(self._superseded(checkpoint))
        return checkpoint

    async def claim(self, scope: Scope, stream_created: str, state_sequence: int) -> None:
        """Tell who publishes the part from now on, before anything else is written; confirm nothing.

        What another cluster or a second process writes afterwards can be distinguished from what belongs to this one.

        Raises:
            as `write`
        """
        await self._write(scope, CheckpointContent(), stream_created, state_sequence)

    async def write(self, scope: Scope, content: CheckpointContent, stream_created: str, state_sequence: int) -> int:
        """Confirm the part; returns the checkpoint's sequence.

        Raises:
            ForeignClusterError: another cluster claims the part.
            SupersededError: another process confirms it.
            InterruptedSessionError: it could not be written, or the last one is gone.
            BusUnavailableError: no answer.
            BusApiError: the broker refused.
        """
        await self._write(scope, content, stream_created, state_sequence)
        self.written += 1
        return self._sequence

    async def _write(self, scope: Scope, content: CheckpointContent, stream_created: str, state_sequence: int) -> None:
        proof = content.proof
        for _ in range(_ATTEMPTS):
            self._number += 1
            checkpoint = Checkpoint(
                source=self._source,
                number=self._number,
                epoch=scope.epoch,
                comparable_since=scope.comparable_since,
                cluster=self._cluster,
                resource_version=content.resource_version,
                stream_created=stream_created,
                state_sequence=state_sequence,
                objects=UNPROVEN if proof is None else proof.objects,
                fold="" if proof is None else proof.fold,
                history=content.history,
            )
            if await self._try(checkpoint):
                self._leading = True
                return
        raise InterruptedSessionError(f"{self._subject}: the checkpoint could not be written: {self._outcome}")

    async def _try(self, checkpoint: Checkpoint) -> bool:
        if self._guard() <= 0:
            raise InterruptedSessionError("the Lease was not renewed in time; another replica may lead")
        expected = self._sequence
        outcome = self._outcome = await self._connection.publish(
            self._subject, checkpoint.body(), checkpoint.headers(), expected=expected
        )
        if isinstance(outcome, PubAck) and not outcome.duplicate:
            self._sequence = outcome.sequence
            return True
        holder = _decode(await self._look())
        if self._sequence < expected:
            # Whatever removed it (a purge, a limit, an older copy of the store) removed objects as well.
            raise InterruptedSessionError(f"the checkpoint of {self._part} vanished from the stream")
        if holder is None or holder.source == self._source:
            # An earlier one of ours whose answer got lost, or this very one.
            return holder is not None and holder.id == checkpoint.id
        if self._is_foreign(holder):
            raise ForeignClusterError(self._foreign(holder))
        if self._leading:
            raise SupersededError(self._superseded(holder))
        raise InterruptedSessionError(f"{holder.source} still published {self._part} during the take-over")

    async def _look(self) -> StoredMessage | None:
        found = await last_message(self._connection, self._stream, self._subject)
        self._sequence = found.sequence if found else 0
        return found

    def _is_foreign(self, holder: Checkpoint) -> bool:
        return bool(self._cluster and holder.cluster and holder.cluster != self._cluster)

    def _foreign(self, holder: Checkpoint) -> str:
        return (
            f"{self._part} is published by another cluster ({holder.cluster}) under the same names; "
            "give one of the two installations another --nats-root"
        )

    def _superseded(self, holder: Checkpoint) -> str:
        return f"{self._part} is published by {holder.source} as well; this process must stop publishing it"


def _decode(message: StoredMessage | None) -> Checkpoint | None:
    try:
        return decode_checkpoint(message.data) if message is not None else None
    except EnvelopeError:
        return None


@dataclass(slots=True)
class Progress:
    """What has come of a publisher so far.

    Attributes:
        sessions: begun.
        withheld: why the part is not being confirmed; ``None`` while all is well.
        swept: tombstones removed.
        differences: repairs of the last comparison.
        repaired: repairs in all.
        forgotten_seen: objects that had been forgotten when the last comparison was made.
        history_range: what the last comparison saw of the history; nothing while what it found there was not dealt
            with.
        read_in: session of the connection in which the last comparison was made.
    """

    phase: Phase = Phase.WAITING
    sessions: int = 0
    withheld: str | None = None
    swept: int = 0
    differences: int = 0
    repaired: int = 0
    forgotten_seen: int = 0
    history_range: HistoryRange = NEVER_READ
    read_in: int = 0


@dataclass(frozen=True, slots=True)
class PublisherContext:
    """What the sessions of a publisher have in common.

    Attributes:
        service: for facts, which service's.
        loaded: receives all messages found in the stream when a session begins, once all were read.
        changes: asks the API server for the versions since one; ``None`` where it has none of the part.
    """

    setup: PublisherSetup
    part: Part[Any]
    service: str
    loaded: Callable[[Sequence[StateMessage]], None] | None
    changes: Changes | None
    intake: Intake
    scoping: Scoping
    writer: Writer
    checkpoints: CheckpointWriter
    unwritable: Unwritable
    progress: Progress


FIRST_PAUSES: Final = (0.5, 1.0, 2.0)
"""Seconds between the first checkpoints of a session: consumers that reconnect a moment later than this process believe
only checkpoints written since, and should not have to wait a whole interval for one."""

_AFTER_CHANGE: Final = 0.1
"""Part of the interval after which a change is confirmed, because a checkpoint can be compared only by a consumer that
received nothing since: a consumer that starts between a change and the next checkpoint waits for that checkpoint."""


class CompareDueError(InterruptedSessionError):
    """The session ends because it is time to compare again."""


class Checkpointer:
    """Confirms one part. One object per session.

    Args:
        foreign: messages under the subjects of the part that no publisher wrote.
    """

    def __init__(self, context: PublisherContext, pump: Pump, foreign: int) -> None:
        self._context = context
        self._pump = pump
        self._foreign = foreign
        self._stream = context.setup.layout.state_stream
        self._subjects = context.setup.layout.state_filter(context.part.name, context.service)
        self._config = state_config(context.setup.layout, context.setup.settings.limits)
        self._check_at = 0.0
        # A tombstone that is being removed is neither there nor gone.
        self._counting = asyncio.Lock()

    # Checkpoints

    async def checkpoint_forever(self) -> None:
        """Write checkpoints: one every interval, and sooner after a change."""
        regular = self._context.setup.settings.checkpoint_interval
        for pause in chain(FIRST_PAUSES, repeat(regular)):
            self._pump.published.clear()
            loop = asyncio.get_running_loop()
            began = loop.time()
            await self._checkpoint()
            # Nothing is published meanwhile; that must stay a small part of the time, however slow the broker is.
            rest = (loop.time() - began) / _AFTER_CHANGE
            if await within(min(pause, regular), self._pump.published.wait()):
                await asyncio.sleep(min(regular, max(_AFTER_CHANGE * regular, rest)))

    async def _checkpoint(self) -> None:
        context = self._context
        if context.intake.relisted.is_set():
            raise CompareDueError("a list must be compared with the stream first")
        # What comes while this waits may or may not lie before the checkpoint.
        version = context.intake.source.version
        async with self._pump.still(), self._counting:
            if (obstacle := self._obstacle()) is not None:
                context.progress.withheld = obstacle
                return
            with interrupting():
                await self._prove()
                history_range = context.writer.logged_since(context.progress.history_range)
                sequence = await context.checkpoints.write(
                    context.scoping.scope,
                    CheckpointContent(context.writer.stored.proof, version, history_range),
                    context.scoping.stream_created,
                    context.writer.high_sequence,
                )
        context.writer.high_sequence = max(context.writer.high_sequence, sequence)
        context.progress.withheld = None

    def _obstacle(self) -> str | None:
        """Why this process cannot confirm the part although all it could publish is; ``None`` if it can."""
        context = self._context
        # A fact that no other process can read is gathered again by the next leader.
        if not context.intake.source.version:
            return None
        if refused := context.unwritable.names:
            return f"the broker rejects {refused}: larger than its max_payload; raise it"
        silence = context.intake.silence
        if silence < context.setup.settings.watch_silence:
            return None
        # A quiet kind is no broken watch: some servers send no bookmarks before its first change. A list tells.
        context.intake.relist(ListFrom.FLOOR)
        return f"the watch has been silent for {silence:.0f} s; waiting for a new list"

    async def _prove(self) -> None:
        """Ask the broker, once per interval, whether it still holds what was published.

        A purge, a limit that was set from outside and a deleted message change neither the stream's sequence nor its
        identity. As there is one message per subject, their number tells. What changes them later is in the
        configuration, which the same answer has (FW-767).

        Raises:
            InterruptedSessionError: it does not.
        """
        context = self._context
        now = asyncio.get_running_loop().time()
        if now < self._check_at:
            return
        info = await stream_info(context.setup.connection, self._stream, self._subjects)
        state = state_of(info, self._subjects)
        expected = len(context.writer.stored) + self._foreign
        if state.created != context.scoping.stream_created:
            raise InterruptedSessionError(f"stream {self._stream} was recreated")
        if state.messages != expected:
            raise InterruptedSessionError(
                f"stream {self._stream} holds {state.messages} messages of the {expected} that were published; "
                "publishing again what is missing"
            )
        fault = stream_fault(info["config"], self._config, chosen_limits(self._stream, context.setup.layout))
        if fault is not None and fault.is_breaking:
            raise InterruptedSessionError(str(fault))
        self._check_at = now + context.setup.settings.checkpoint_interval / 2

    # Tombstones

    async def sweep_forever(self) -> None:
        """Remove old tombstones, now and then."""
        while True:
            with interrupting():
                await self._sweep()
            await asyncio.sleep(self._context.setup.settings.sweep_interval * random.uniform(0.8, 1.2))

    async def _sweep(self) -> None:
        context = self._context
        stored = context.writer.stored
        candidates = tombstones(stored)
        if not candidates:
            return
        # Before the question: what is published until its answer is here may not be in it.
        known = context.writer.high_sequence
        state = await stream_state(context.setup.connection, self._stream)
        if state.created != context.scoping.stream_created or state.last_sequence < known:
            # A sequence that is known here may be another message there.
            raise InterruptedSessionError(f"stream {self._stream} was recreated or restored")
        now = state.now
        surplus = len(candidates) - context.setup.settings.tombstones
        for number, (key, held) in enumerate(candidates):
            age = context.setup.settings.crowded_age if number < surplus else context.setup.settings.tombstone_age
            async with self._counting:
                if context.setup.guard() <= 0:
                    return
                swept = await sweep(context.setup.connection, self._stream, held, now=now, age=age)
                if swept is Swept.REMOVED:
                    context.progress.swept += 1
                    if stored.get(key) == held:
                        del stored[key]
            if swept is Swept.YOUNG:
                return
