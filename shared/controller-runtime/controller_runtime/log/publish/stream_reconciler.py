"""Watches the configuration of the streams, and reports how far back they reach (FW-448, FW-449, FW-767)."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from controller_runtime.json import JsonObject
from controller_runtime.log.broker.address import BusApiError, BusUnavailableError
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.reading import STREAM_NOT_FOUND, count_messages
from controller_runtime.log.broker.retention import SHORTEST_WINDOW, Contents, Pace, dropped_by, shortfall
from controller_runtime.log.broker.streams import (
    StreamFault,
    StreamLimits,
    StreamMismatchError,
    chosen_limits,
    differences,
    ensure_streams,
    repair_stream,
    stream_configs,
    stream_fault,
)
from controller_runtime.log.publish.checkpoint import CHECKPOINT_INTERVAL
from controller_runtime.log.publish.state import Alarm
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT, Layout

_log = structlog.get_logger(__name__)

INTERVAL: Final = CHECKPOINT_INTERVAL
"""Seconds between two looks at the streams."""


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """A stream, for metrics.

    Attributes:
        limit_bytes: 0 = none.
        dropped: messages that gave way to newer ones or to age since the stream was made.
        reach_seconds: age of the oldest message.
        short: 1 when, at the pace of the last hour, size will cut it before age does.
    """

    bytes: int
    limit_bytes: int
    messages: int
    dropped: int
    reach_seconds: float
    short: int


@dataclass(slots=True)
class _ReconciledStream:
    """A stream that is reconciled."""

    wanted: JsonObject
    pace: Pace
    reported: str = ""
    fault: StreamFault | None = None
    announced: JsonObject | None = None
    short: bool = False
    statistics: StreamStatistics | None = None


class StreamReconciler:
    """Keeps the limits of the streams as one service's settings say.

    Args:
        governs: whether this process is that service; else it only tells where its settings differ.
        interval: seconds between two looks.
        window: over how long a pace is taken at least.
        alarm: sounds when a stream is found changed in a way that loses, hides or forges messages.
    """

    def __init__(
        self,
        connection: BusConnection,
        limits: StreamLimits,
        *,
        governs: bool,
        layout: Layout = DEFAULT_LAYOUT,
        interval: float = INTERVAL,
        window: timedelta = SHORTEST_WINDOW,
        alarm: Alarm | None = None,
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._limits = limits
        self._alarm = alarm or Alarm()
        self._streams = {
            str(wanted["name"]): _ReconciledStream(wanted, Pace(window)) for wanted in stream_configs(layout, limits)
        }
        self._governs = governs
        self._interval = interval

    @property
    def statistics(self) -> dict[str, StreamStatistics]:
        """Each stream as last seen, by name; empty for a service that does not govern."""
        return {name: kept.statistics for name, kept in self._streams.items() if kept.statistics is not None}

    @property
    def faults(self) -> tuple[StreamFault, ...]:
        """The streams whose configuration is not as the bus needs it, as last seen."""
        return tuple(kept.fault for kept in self._streams.values() if kept.fault is not None)

    async def run(self) -> None:
        """Look at the streams again and again until cancelled; a broker that is away or refuses is survived."""
        while True:
            await self._connection.wait_connected()
            for name, kept in self._streams.items():
                try:
                    await self._look(name, kept)
                except (BusUnavailableError, BusApiError, StreamMismatchError) as error:
                    _log_once(kept, name, f"limits of a stream cannot be maintained: {error}")
            await asyncio.sleep(self._interval)

    async def _look(self, name: str, kept: _ReconciledStream) -> None:
        try:
            info = await self._connection.api(f"STREAM.INFO.{name}")
        except BusApiError as error:
            if error.code != STREAM_NOT_FOUND:
                raise
            if self._governs:
                await ensure_streams(self._connection, self._layout, self._limits)
            return
        if await self._judge(kept, info["config"]):
            # What was just repaired is not in this answer.
            return
        chosen = chosen_limits(name, self._layout)
        differing = differences(info["config"], kept.wanted)
        found = {key: found for key, (found, _) in differing.items() if key in chosen}
        if not found:
            kept.reported, kept.announced = "", None
        elif self._governs:
            await self._apply(kept, info, found)
        if self._governs:
            await self._measure(name, kept, Contents.of(info))
        elif found:
            here = {key: kept.wanted[key] for key in found}
            what = f"limits of a stream ({found}) differ from the settings of this service ({here}), which are ignored"
            _log_once(kept, name, f"{what}; the --nats-* settings should be the same for all services")

    async def _judge(self, kept: _ReconciledStream, config: JsonObject) -> bool:
        """Compare a stream with what the bus needs, and repair it where this process may; whether it did."""
        name = str(kept.wanted["name"])
        before, kept.fault = kept.fault, stream_fault(config, kept.wanted, chosen_limits(name, self._layout))
        if kept.fault is None:
            return False
        if kept.fault != before:
            _log.warning("a stream was changed", stream=name, found=kept.fault.cause, remedy=kept.fault.remedy)
            if kept.fault.is_breaking:
                self._alarm.sound(str(kept.fault))
        if not self._governs or not kept.fault.repair:
            return False
        await repair_stream(self._connection, config, kept.fault)
        return True

    async def _apply(self, kept: _ReconciledStream, info: JsonObject, found: JsonObject) -> None:
        name, new = kept.wanted["name"], {key: kept.wanted[key] for key in found}
        # A broker that refuses is asked again and again; what it would drop meanwhile changes with every look.
        if kept.announced != found:
            kept.announced = found
            self._announce(kept.wanted, info, found, new)
        await self._connection.api(f"STREAM.UPDATE.{name}", {**info["config"], **new})

    @staticmethod
    def _announce(wanted: JsonObject, info: JsonObject, found: JsonObject, new: JsonObject) -> None:
        name = wanted["name"]
        if lost := dropped_by(wanted, Contents.of(info)):
            _log.warning(
                "lowering the limits of a stream; what exceeds them is deleted",
                stream=name,
                dropped=lost,
                was=found,
                now=new,
            )
        else:
            _log.info("changing the limits of a stream", stream=name, was=found, now=new)

    async def _measure(self, name: str, kept: _ReconciledStream, held: Contents) -> None:
        reach = shortfall(kept.wanted, kept.pace.observe(held))
        kept.statistics = StreamStatistics(
            bytes=held.size,
            limit_bytes=max(0, int(kept.wanted["max_bytes"])),
            messages=held.messages,
            dropped=max(0, held.first - 1),
            reach_seconds=0.0 if held.oldest is None else (held.now - held.oldest).total_seconds(),
            short=int(reach is not None),
        )
        if reach is not None and not kept.short:
            await self._warn(name, kept.wanted, reach)
        kept.short = reach is not None

    async def _warn(self, name: str, wanted: JsonObject, reach: timedelta) -> None:
        most: dict[str, int] = {}
        # The rest is worth a warning without the count.
        with suppress(BusUnavailableError, BusApiError):
            most = await self._largest(name)
        _log.warning(
            "stream reaches its size limit before its age limit; raise the size or lower the age (--nats-*)",
            stream=name,
            reaches_hours=round(reach.total_seconds() / 3600, 1),
            wanted_hours=round(int(wanted["max_age"]) / 3.6e12, 1),
            most_messages=most,
        )

    async def _largest(self, name: str) -> dict[str, int]:
        """The parts, or the services whose decisions, have the most messages in a stream.

        Counted by the broker: a list of all subjects is as long as there are objects.
        """
        state = await self._connection.api(
            f"STREAM.INFO.{self._layout.state_stream}", {"subjects_filter": self._layout.sync(">")}
        )
        checkpoints = [subject.split(".")[2:] for subject in state["state"].get("subjects") or {}]
        parts, services = {one[0] for one in checkpoints}, {one[1] for one in checkpoints if len(one) > 1}
        subjects = {part: f"{self._layout.root}.log.{part}.>" for part in parts}
        if name == self._layout.decisions_stream:
            subjects = {service: f"{self._layout.root}.decision.{service}.>" for service in services}
        counts = {one: await count_messages(self._connection, name, subject) for one, subject in subjects.items()}
        return dict((+Counter(counts)).most_common(3))


def _log_once(kept: _ReconciledStream, stream: str, what: str) -> None:
    if kept.reported != what:
        kept.reported = what
        _log.warning(what, stream=stream)
