"""``aim export``: decisions with all that they were taken from, in a file that can be given away (FW-619, FW-621)."""

import asyncio
from pathlib import Path

from aim_cli.answer import Answer, counted
from aim_cli.errors import Exit, UnreadableError
from aim_cli.log.connecting import SUFFIX, history
from aim_cli.log.credentials import Cover
from aim_cli.log.file import documents, taken, write
from controller_runtime.bus.history import DecisionFilter


async def export(nats_url: str, path: Path, wanted: DecisionFilter) -> Answer:
    """Write a file, and tell what is in it.

    Raises:
        UnreachableError: the log cannot be read.
        UnreadableError: the file cannot be written.
    """
    if path.suffix != SUFFIX:
        raise UnreadableError(f"{path} would not be known as a log; end its name with {SUFFIX}")
    async with history(nats_url) as log:
        held = await taken(log, wanted)
    if not held.decisions:
        return Answer({}, (), Exit.ABSENT, ("the event log holds no such decision; nothing was written",))
    lines = list(documents(held))
    cover = Cover(lines)
    await asyncio.to_thread(write, path, map(cover.over, lines))
    namespaces = sorted({one.key.namespace for one in (*held.versions, *held.present) if one.key.namespace})
    data = {
        "file": str(path),
        "decisions": len(held.decisions),
        "versions": len(held.versions),
        "parts": sorted({part for part, _ in held.parts}),
        "namespaces": namespaces,
        "covered": len(cover.known),
    }
    holds = f"{counted(len(held.decisions), 'decision')}, {counted(len(held.versions), 'version')}"
    told = (f"{path}: {holds} of objects in {', '.join(namespaces) or 'no namespace'}", f"try it: aim replay {path}")
    covered = f"{counted(len(cover.known), 'credential')} covered; what is made from a hash of one comes out otherwise"
    remarks = (covered,) if cover.known else ()
    return Answer(data, told, Exit.WELL, remarks)
