"""What a publisher does regularly while a session lasts: prove its own side, vouch for the part, sweep tombstones."""

import asyncio
import random
from itertools import chain, repeat
from typing import Final

from controller_runtime.bus.interruption import InterruptedSessionError, interrupting
from controller_runtime.bus.marker_writer import Vouched
from controller_runtime.bus.publisher_context import PublisherContext
from controller_runtime.bus.pump import Pump
from controller_runtime.bus.stored import state_of, stream_info, stream_state
from controller_runtime.bus.stream_faults import fault_of
from controller_runtime.bus.streams import chosen_limits, state_config
from controller_runtime.bus.sweep import Swept, sweep, tombstones
from controller_runtime.bus.tasks import within
from controller_runtime.kube.reflector_state import ListFrom

FIRST_PAUSES: Final = (0.5, 1.0, 2.0)
"""Seconds between the first markers of a session: consumers that reconnect a moment later than this process believe
only markers written since, and should not have to wait a whole interval for one."""

_AFTER_CHANGE: Final = 0.1
"""Part of the interval after which a change is vouched for, because a marker can be compared only by whoever was told
nothing since: a consumer that starts between a change and the next marker waits for that marker."""


class CompareDueError(InterruptedSessionError):
    """The session ends because it is time to compare again."""


class Vouching:
    """Vouches for one part. One object per session.

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

    # Markers

    async def vouch_forever(self) -> None:
        """Write markers: one every interval, and sooner after a change."""
        regular = self._context.setup.settings.marker_interval
        for pause in chain(FIRST_PAUSES, repeat(regular)):
            self._pump.published.clear()
            loop = asyncio.get_running_loop()
            began = loop.time()
            await self._vouch()
            # Nothing is published meanwhile; that must stay a small part of the time, however slow the broker is.
            rest = (loop.time() - began) / _AFTER_CHANGE
            if await within(min(pause, regular), self._pump.published.wait()):
                await asyncio.sleep(min(regular, max(_AFTER_CHANGE * regular, rest)))

    async def _vouch(self) -> None:
        context = self._context
        if context.intake.relisted.is_set():
            raise CompareDueError("a list must be compared with the stream first")
        # What comes while this waits may or may not lie before the marker.
        version = context.intake.source.version
        async with self._pump.still(), self._counting:
            if (doubt := self._doubt()) is not None:
                context.progress.withheld = doubt
                return
            with interrupting():
                await self._prove()
                logbook = context.writer.logged_since(context.progress.logbook)
                sequence = await context.markers.write(
                    context.scoping.scope,
                    Vouched(context.writer.stored.proof, version, logbook),
                    context.scoping.stream_created,
                    context.writer.high_sequence,
                )
        context.writer.high_sequence = max(context.writer.high_sequence, sequence)
        context.progress.withheld = None

    def _doubt(self) -> str | None:
        """Why this process cannot vouch for the part although all it could publish is; ``None`` if it can."""
        context = self._context
        # A fact that nobody else can read is gathered again by whoever leads next.
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

        A purge, a limit that somebody set and a deleted message change neither the stream's sequence nor its identity.
        As there is one message per subject, their number tells. What changes them later is in the configuration, which
        the same answer has (FW-767).

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
        fault = fault_of(info["config"], self._config, chosen_limits(self._stream, context.setup.layout))
        if fault is not None and fault.is_breaking:
            raise InterruptedSessionError(str(fault))
        self._check_at = now + context.setup.settings.marker_interval / 2

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
