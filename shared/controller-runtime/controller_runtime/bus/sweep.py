"""Removes old tombstones from the state stream, each by its sequence.

By subject would be shorter and wrong: an object made again meanwhile would be deleted with its predecessor's tombstone.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from controller_runtime.bus.connection import BusConnection
from controller_runtime.bus.deleted import CROWDED_SECONDS
from controller_runtime.bus.judgement import Stored
from controller_runtime.bus.part import Key
from controller_runtime.bus.stored import delete_message, message_at

TOMBSTONE_AGE: Final = timedelta(hours=1)
"""How long a tombstone stays; worlds remember deletions as long."""

CROWDED_AGE: Final = timedelta(seconds=CROWDED_SECONDS)
"""How long those stay that are too many: the oldest beyond `MOST_DELETIONS`. Worlds do the same."""


def tombstones(stored: Mapping[Key, Stored]) -> list[tuple[Key, Stored]]:
    """What a sweep has to look at, the oldest first."""
    return sorted(((key, held) for key, held in stored.items() if held.deleted), key=lambda found: found[1].sequence)


class Swept(Enum):
    """The end of a tombstone."""

    REMOVED = "removed"
    GONE = "somebody else removed it"
    YOUNG = "it stays, and so do all later ones"


async def sweep(connection: BusConnection, stream: str, held: Stored, *, now: datetime, age: timedelta) -> Swept:
    """Remove a tombstone if it is old enough.

    Args:
        now: the broker's clock, as are the times of the messages.

    Raises:
        BusUnavailableError: no answer.
        BusApiError: the broker refused.
    """
    stored = held.stored
    if stored is None:
        message = await message_at(connection, stream, held.sequence)
        if message is None:
            return Swept.GONE
        stored = message.stored
    if now - stored < age:
        return Swept.YOUNG
    return Swept.REMOVED if await delete_message(connection, stream, held.sequence) else Swept.GONE
