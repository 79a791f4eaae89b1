"""Where decision records go: to the recorder, except while there is nothing they could refer to (FW-402)."""

import hashlib
from dataclasses import replace
from typing import Final

import structlog

from aim_shared.bus.connection import BusConnection
from aim_shared.bus.decision import DecisionRecord
from aim_shared.bus.feed import WorldFeed
from aim_shared.bus.recorder import Recorder, RecorderStatistics
from aim_shared.json import JsonObject, canonical

_log = structlog.get_logger(__name__)

FLUSH_SECONDS: Final = 3.0
"""How long the end of the process waits for records; it has to be over nine seconds after the signal (FW-287)."""

SETTINGS_EVERY: Final = 100
"""Records after which the settings are told again: the log forgets its beginning, and they with it."""


class DecisionLog:
    """Passes records on while the world is fed by the bus, and counts those that are not written.

    Args:
        settings: the effective ones, without secrets; each record refers to them (FW-436).
    """

    def __init__(self, recorder: Recorder, feed: WorldFeed, bus: BusConnection, settings: JsonObject) -> None:
        self._recorder = recorder
        self._feed = feed
        self._bus = bus
        self._settings = canonical(settings)
        self._digest = hashlib.blake2b(self._settings, digest_size=12).hexdigest()
        self._taken = 0
        self._silent = False
        self._unwritten = 0

    @property
    def statistics(self) -> RecorderStatistics:
        """Numbers of the recorder; what was never given to it counts as lost."""
        recorder = self._recorder.statistics
        return replace(recorder, lost=recorder.lost + self._unwritten)

    async def run(self) -> None:
        """Write records until cancelled."""
        await self._recorder.run()

    async def close(self) -> None:
        """Write what was taken, for a moment, and tell what is lost; for when nobody records any more (FW-450)."""
        await self._recorder.flush(FLUSH_SECONDS)

    def record(self, record: DecisionRecord) -> None:
        """Take a record; never waits."""
        if not self._bus.connected and self._feed.statistics.direct:
            self._skip()
            return
        self._silent = False
        if self._taken % SETTINGS_EVERY == 0:
            self._recorder.record_settings(self._digest, self._settings)
        self._taken += 1
        told = record.model_copy(update={"settings": self._digest})
        headers = {"Nats-Msg-Id": record.id, **({"traceparent": record.traceparent} if record.traceparent else {})}
        self._recorder.record(record.part, record.key, told.to_json(), headers)

    def _skip(self) -> None:
        self._unwritten += 1
        if not self._silent:
            self._silent = True
            _log.warning("decisions leave no record while the message broker is away")
