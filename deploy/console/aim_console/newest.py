"""The newest decisions of all services, for the page that one opens first (FW-736)."""

import asyncio
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from aim_cli.cluster.refs import JsonObject
from aim_cli.log.targets import kind_name
from aim_cli.log.timeline import of_records
from aim_console.access import Rights, is_shown, redact
from aim_console.past import moment_json
from controller_runtime.log import DecisionRecord, History, RecordedReads

NEWEST: Final = 10
_KEPT: Final = 500
"""Decisions in memory: a viewer of one namespace looks for theirs among those of all."""


class Newest:
    """Keeps them, and reads only what came since the last look."""

    def __init__(self, log: History) -> None:
        self._log = log
        self._kept: deque[DecisionRecord] = deque(maxlen=_KEPT)
        self._known = 0
        self._reading = asyncio.Lock()

    async def decisions(self) -> tuple[DecisionRecord, ...]:
        """Those that did something, the newest first.

        Raises:
            BusError: the log cannot be read.
        """
        async with self._reading:
            found, last = await self._log.newest_decisions(_KEPT, self._known)
            if last < self._known:
                self._kept.clear()
            self._known = last
            self._kept.extend(_redacted(one.record) for one in found if _did_something(one.record))
        return tuple(reversed(self._kept))


def _redacted(record: DecisionRecord) -> DecisionRecord:
    """Without what a row does not tell, which is most of it."""
    plan = {member: record.plan[member] for member in ("status", "effects") if member in record.plan}
    return record.model_copy(update={"reads": RecordedReads(), "plan": plan})


def _did_something(record: DecisionRecord) -> bool:
    return bool(record.writes or record.plan.get("effects")) or record.outcome not in ("", "done")


def visible_rows(records: Iterable[DecisionRecord], rights: Rights) -> list[JsonObject]:
    """As much of the first of them as a viewer may see, a row each. Pure."""
    theirs = (one for one in records if is_shown(kind_name(one.part), one.key, rights, one.at))
    return [moment_json(moment) for one in islice(theirs, NEWEST) for moment in of_records([redact(one, rights)])]
