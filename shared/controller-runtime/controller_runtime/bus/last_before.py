"""The last message of many subjects as of some time, by a few requests: the broker's batched direct get.

A direct get may be answered by a replica that is behind. So what it gives is a beginning: whoever reads on from it has
to see that the next message names it as its predecessor (`chain`).
"""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from controller_runtime.bus.connection import REQUEST_TIMEOUT, BusConnection, Message
from controller_runtime.bus.in_order import DeliveryLostError
from controller_runtime.bus.stored import rfc3339
from controller_runtime.bus.tasks import within
from controller_runtime.json import dumps

_SUBJECTS_AT_ONCE: Final = 256
"""Few enough for the broker to match quickly; it takes up to 1024."""
_BYTES_AT_ONCE: Final = 8 << 20
"""Far below what the broker lets wait for a connection."""
_COMPLETE, _NOTHING = "204", "404"
_SUBJECT: Final = "Nats-Subject"
_PENDING: Final = "Nats-Num-Pending"


async def last_messages(
    connection: BusConnection, stream: str, subjects: Iterable[str], before: datetime
) -> list[Message]:
    """The last message of each subject that was stored before a time; none of a subject without one.

    Args:
        before: by the broker's clock.

    Raises:
        BusUnavailableError: no connection.
        DeliveryLostError: the answer was incomplete, or the broker refused.
    """
    left = sorted(subjects)
    found: list[Message] = []
    while left:
        some, left = left[:_SUBJECTS_AT_ONCE], left[_SUBJECTS_AT_ONCE:]
        got, more = await _some(connection, stream, some, before)
        found += got
        if more:
            have = {message.subject for message in got}
            left = [*(one for one in some if one not in have), *left]
    return found


async def _some(
    connection: BusConnection, stream: str, subjects: list[str], before: datetime
) -> tuple[list[Message], bool]:
    """As many as one answer holds, and whether there are more."""
    arrived: list[Message] = []
    ended = asyncio.Event()

    async def take(message: Message) -> None:
        arrived.append(message)
        if message.status:
            ended.set()

    inbox = connection.inbox()
    subscription = await connection.subscribe(inbox, take)
    try:
        request = {"multi_last": subjects, "up_to_time": rfc3339(before), "max_bytes": _BYTES_AT_ONCE}
        await connection.send(connection.api_subject(f"DIRECT.GET.{stream}"), dumps(request), reply=inbox)
        if not await within(REQUEST_TIMEOUT, ended.wait()):
            raise DeliveryLostError(f"the broker did not return the last messages of {stream} in time")
    finally:
        await subscription.close()
    *messages, end = arrived
    if end.status == _NOTHING:
        return [], False
    counted = [int(message.headers.get(_PENDING, "-1")) for message in (*messages, end)]
    # Each tells how many follow it; the end repeats what the last one told.
    falls_by_one = counted[:-1] == list(range(counted[0], counted[0] - len(messages), -1))
    if end.status != _COMPLETE or not messages or not falls_by_one or counted[-1] != counted[-2]:
        raise DeliveryLostError(f"the last messages of {stream} are incomplete: {end.status} {end.description}")
    named = [message._replace(subject=message.headers[_SUBJECT]) for message in messages]
    return named, counted[-1] > 0
