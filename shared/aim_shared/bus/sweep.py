"""Removes old tombstones from the state stream, each by its sequence.

By subject would be shorter and wrong: an object made again meanwhile would be deleted with its predecessor's tombstone.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from aim_shared.bus.connection import BusConnection
from aim_shared.bus.deleted import CROWDED_SECONDS
from aim_shared.bus.judgement import Stored
from aim_shared.bus.part import Key
from aim_shared.bus.stored import delete_message, message_at

TOMBSTONE_AGE: Final = timedelta(hours=1)
"""How long a tombstone stays; worlds remember deletions as long."""

CROWDED_AGE: Final = timedelta(seconds=CROWDED_SECONDS)
"""How long those stay that are too many: the oldest beyond `MOST_DELETIONS`. Worlds do the same."""


def tombstones(stored: Mapping[Key, Stored]) -> list[tuple[Key, Stored]]:
    """What a sweep has to look at, the oldest first."""
    return sorted(((key, held) for key, held in stored.items() if held.deleted), key=lambda found: found[1].sequence)


async def sweep(connection: BusConnection, stream: str, held: Stored, *, now: datetime, age: timedelta) -> bool:
    """Remove a tombstone if it is old enough; whether it was.

    Args:
        now: the broker's clock, as are the times of the messages.

    Raises:
        BusUnavailableError: no answer.
        BusApiError: the broker refused.
    """
    stored = held.stored
    if stored is None:
        message = await message_at(connection, stream, held.sequence)
        stored = message.stored if message else None
    if stored is None or now - stored < age:
        return False
    return await delete_message(connection, stream, held.sequence)
