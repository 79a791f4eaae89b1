"""Sees to how much the streams keep: one service decides, whoever is of another mind says so (FW-448).

Limits are the one setting of a stream that destroys something when it changes. So they are no side effect of a
publisher's session: the service that publishes the AIMServices applies its settings, telling beforehand what will be
dropped, and the others only compare.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from aim_shared.bus.connection import BusApiError, BusConnection, BusUnavailableError
from aim_shared.bus.stored import STREAM_NOT_FOUND, broker_time
from aim_shared.bus.streams import LIMITS, StreamLimits, configs, differences
from aim_shared.bus.subjects import DEFAULT_LAYOUT, Layout
from aim_shared.json import JsonObject

log = structlog.get_logger(__name__)

INTERVAL: Final = 60.0
"""Seconds between two looks at the streams."""

_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Contents:
    """What a stream holds.

    Attributes:
        size: bytes, as the broker counts them.
        oldest: the broker's time of the first message; ``None`` if there is none.
        now: the broker's clock.
    """

    messages: int
    size: int
    oldest: datetime | None
    now: datetime

    @classmethod
    def of(cls, info: JsonObject) -> "Contents":
        """Read an answer to ``STREAM.INFO``."""
        state = info["state"]
        messages = int(state["messages"])
        oldest = broker_time(state["first_ts"]) if messages else None
        return cls(messages, int(state["bytes"]), oldest, broker_time(info["ts"]))


def dropped_by(wanted: JsonObject, held: Contents) -> str | None:
    """What a stream loses when it gets other limits, in words; ``None`` if it loses nothing. Pure."""
    losses = []
    size, age = int(wanted["max_bytes"]), timedelta(seconds=int(wanted["max_age"]) / _NANOSECONDS)
    if 0 < size < held.size:
        losses.append(f"the oldest {held.size - size} of {held.size} bytes")
    if age and held.oldest is not None and held.oldest < held.now - age:
        losses.append(f"everything from {held.oldest:%Y-%m-%d %H:%M} to {held.now - age:%Y-%m-%d %H:%M}")
    return " and ".join(losses) or None


class StreamKeeper:
    """Keeps the limits of the streams as one service's settings say.

    Args:
        governs: whether this process is that service; else it only tells where its settings differ.
    """

    def __init__(
        self,
        connection: BusConnection,
        limits: StreamLimits,
        *,
        governs: bool,
        layout: Layout = DEFAULT_LAYOUT,
        interval: float = INTERVAL,
    ) -> None:
        self._connection = connection
        self._wanted = configs(layout, limits)
        self._governs = governs
        self._interval = interval
        self._told: dict[str, str] = {}

    async def run(self) -> None:
        """Look at the streams again and again until cancelled; a broker that is away or refuses is survived."""
        while True:
            await self._connection.wait_connected()
            for wanted in self._wanted:
                try:
                    await self._look(wanted)
                except (BusUnavailableError, BusApiError) as error:
                    self._tell(wanted["name"], f"The limits of a stream could not be seen to: {error}")
            await asyncio.sleep(self._interval)

    async def _look(self, wanted: JsonObject) -> None:
        name = wanted["name"]
        try:
            info = await self._connection.api(f"STREAM.INFO.{name}")
        except BusApiError as error:
            if error.code == STREAM_NOT_FOUND:
                # The publishers make it.
                return
            raise
        found = {key: value for key, value in differences(info["config"], wanted).items() if key in LIMITS}
        if not found:
            self._told.pop(name, None)
        elif self._governs:
            await self._apply(info, wanted, found)
        else:
            here = {key: wanted[key] for key in found}
            self._tell(
                name,
                f"A stream has other limits ({found}) than the settings of this service ({here}), which do not count; "
                "AIM_NATS_* should be the same for all services",
            )

    async def _apply(self, info: JsonObject, wanted: JsonObject, found: JsonObject) -> None:
        name, new = wanted["name"], {key: wanted[key] for key in found}
        if lost := dropped_by(wanted, Contents.of(info)):
            log.warning("Smaller limits of a stream drop what it holds", stream=name, dropped=lost, was=found, now=new)
        else:
            log.info("Changing the limits of a stream", stream=name, was=found, now=new)
        await self._connection.api(f"STREAM.UPDATE.{name}", {**info["config"], **new})

    def _tell(self, stream: str, what: str) -> None:
        if self._told.get(stream) != what:
            self._told[stream] = what
            log.warning(what, stream=stream)
