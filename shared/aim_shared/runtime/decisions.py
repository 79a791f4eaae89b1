"""Where decision records go: to the recorder, except while there is nothing they could refer to (FW-402)."""

from dataclasses import replace

import structlog

from aim_shared.bus.connection import BusConnection
from aim_shared.bus.decision import DecisionRecord
from aim_shared.bus.feed import WorldFeed
from aim_shared.bus.recorder import Recorder, RecorderStatistics

_log = structlog.get_logger(__name__)


class DecisionLog:
    """Passes records on while the world is fed by the bus, and counts those that are not written."""

    def __init__(self, recorder: Recorder, feed: WorldFeed, bus: BusConnection) -> None:
        self._recorder = recorder
        self._feed = feed
        self._bus = bus
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

    def record(self, record: DecisionRecord) -> None:
        """Take a record; never waits."""
        if not self._bus.connected and self._feed.statistics.direct:
            self._skip()
            return
        self._silent = False
        headers = {"Nats-Msg-Id": record.id, **({"traceparent": record.traceparent} if record.traceparent else {})}
        self._recorder.record(record.part, record.key, record.to_json(), headers)

    def _skip(self) -> None:
        self._unwritten += 1
        if not self._silent:
            self._silent = True
            _log.warning("decisions leave no record while the message broker is away")
