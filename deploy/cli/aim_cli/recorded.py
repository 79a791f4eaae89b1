"""What tests made by ``aim replay --as-test`` import: decisions out of a file, each to be taken again (FW-625)."""

import asyncio
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from aim_cli.log.file import FileContents, FileHistory, read
from aim_cli.log.targets import kind_name
from aim_cli.services import services
from controller_runtime.log import DecisionFilter, StoredDecision
from controller_runtime.replay import Replayed, Replayer

_read = cache(read)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One decision of a file."""

    log: Path
    stored: StoredDecision

    def __str__(self) -> str:
        record = self.stored.record
        return f"{record.service} {kind_name(record.part)} {record.key} {record.at:%H:%M:%S.%f}"

    def taken_again(self) -> Replayed:
        """What today's code makes of it."""
        return asyncio.run(_again(_read(self.log), self.stored))


def recorded(log: Path) -> list[Recorded]:
    """All decisions of a file, in the order in which they were taken.

    Raises:
        UnreadableError: there is no such file, or it is none of ours.
    """
    return [Recorded(log, one) for one in _read(log).decisions]


async def _again(held: FileContents, stored: StoredDecision) -> Replayed:
    record = stored.record
    about = DecisionFilter(record.service, record.part, record.namespace, record.name)
    results = [one async for one in Replayer(FileHistory(held), services()).decisions(about)]
    return next(one for one in results if one.stored.sequence == stored.sequence)
