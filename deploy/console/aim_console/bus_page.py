"""The event log as a page: parts with their epochs, streams, and holes for who asks (FW-673)."""

from collections.abc import Iterable
from datetime import datetime

from aim_cli.cluster.refs import JsonObject
from aim_cli.installation.bus_state import history_holes, stream_row, stream_states
from aim_console.mirror import Mirror, PartLine
from controller_runtime.log import BusError, epoch_time


async def bus_page(mirror: Mirror, *, holes: bool) -> JsonObject:
    """What is in memory of the parts, and what the broker tells of its streams.

    Args:
        holes: also read the whole history for places where it is not whole.

    Raises:
        BusError: the history cannot be read.
    """
    try:
        streams = [stream_row(one) for one in await stream_states(mirror.connection)]
    except BusError:
        # The page says since when the broker is away.
        streams = []
    found = await history_holes(mirror.history) if holes else ()
    by_part = {part: (count, objects) for part, count, objects in found}
    return {"parts": part_rows(mirror.parts, by_part), "streams": streams, "asked": holes, "holes": list(found)}


def part_rows(parts: Iterable[PartLine], holes: dict[str, tuple[int, int]]) -> list[JsonObject]:
    """A row for each part."""
    return [{"line": one, "since": _since(one.epoch), "holes": holes.get(one.name)} for one in parts]


def _since(epoch: str) -> datetime | None:
    try:
        return epoch_time(epoch)
    except ValueError:
        return None
