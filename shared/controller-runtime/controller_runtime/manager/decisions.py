"""Where decision records go: to the recorder, except while there is nothing they could refer to (FW-402)."""

import asyncio
import hashlib
from dataclasses import replace
from typing import Final

import structlog

from controller_runtime.bus.connection import BusConnection
from controller_runtime.bus.decision import DecisionRecord
from controller_runtime.bus.feed import WorldFeed
from controller_runtime.bus.recorder import Recorder, RecorderStatistics
from controller_runtime.json import JsonObject, canonical

_log = structlog.get_logger(__name__)

FLUSH_SECONDS: Final = 3.0
"""How long the end of the process waits for records; it has to be over nine seconds after the signal (FW-287)."""

SETTINGS_RECORDS: Final = 100
"""Records after which the settings are told again."""
SETTINGS_SECONDS: Final = 600.0
"""Seconds after which they are told again, if anything was recorded since."""


class DecisionLog:
    """Passes records on while the world is fed by the bus, and counts those that are not written.

    The log forgets its beginning first. So the settings are told before the first record that refers to them, and again
    behind the last one: then no record outlives them (FW-436).

    Args:
        settings: the effective ones, without secrets.
        again: seconds after which settings are told again, if anything was recorded since.
    """

    def __init__(
        self,
        recorder: Recorder,
        feed: WorldFeed,
        bus: BusConnection,
        settings: JsonObject,
        again: float = SETTINGS_SECONDS,
    ) -> None:
        self._recorder = recorder
        self._feed = feed
        self._bus = bus
        self._settings = canonical(settings)
        self._digest = hashlib.blake2b(self._settings, digest_size=12).hexdigest()
        self._again = again
        self._told = False
        self._behind = 0
        self._silent = False
        self._unwritten = 0

    @property
    def statistics(self) -> RecorderStatistics:
        """Numbers of the recorder; what was never given to it counts as lost."""
        recorder = self._recorder.statistics
        return replace(recorder, lost=recorder.lost + self._unwritten)

    async def run(self) -> None:
        """Write records until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            while True:
                await asyncio.sleep(self._again)
                if self._behind:
                    self._tell()

    async def close(self) -> None:
        """Write what was taken, for a moment, and tell what is lost; for when nobody records any more (FW-450)."""
        ends = asyncio.get_running_loop().time() + FLUSH_SECONDS
        await self._recorder.flush(FLUSH_SECONDS)
        left = ends - asyncio.get_running_loop().time()
        # Once more, even if they were told a moment ago: records are written several at a time, in no order.
        if self._told and left > 0:
            self._tell()
            await self._recorder.flush(left)

    def record(self, record: DecisionRecord) -> None:
        """Take a record; never waits."""
        if not self._bus.connected and self._feed.statistics.direct:
            self._skip()
            return
        self._silent = False
        if not self._told:
            self._tell()
        told = record.model_copy(update={"settings": self._digest})
        headers = {"Nats-Msg-Id": record.id, **({"traceparent": record.traceparent} if record.traceparent else {})}
        self._recorder.record(record.part, record.key, told.to_json(), headers)
        self._behind += 1
        if self._behind >= SETTINGS_RECORDS:
            self._tell()

    def _tell(self) -> None:
        self._recorder.record_settings(self._digest, self._settings)
        self._told, self._behind = True, 0

    def _skip(self) -> None:
        self._unwritten += 1
        if not self._silent:
            self._silent = True
            _log.warning("decisions are not recorded while the message broker is unavailable")
