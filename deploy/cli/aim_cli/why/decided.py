"""What the event log adds: who decided the conditions of a way, when, from what, and what woke it (FW-606)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.cluster.targets import Where
from aim_cli.log.connecting import history
from aim_cli.log.targets import kind_name, target_of
from aim_cli.why.blockers import Link
from controller_runtime.log import DecisionRecord, History, StoredDecision

_MOST: Final = 6


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that says what a link says: the first one of the last unbroken row of them."""

    ref: Ref
    record: DecisionRecord

    @property
    def line(self) -> str:
        """For people."""
        read = [f"{kind_name(one.part)} {one.key}" for one in self.record.reads.objects if one.uid]
        saw = ", ".join(read[:_MOST]) + (f" and {len(read) - _MOST} more" if len(read) > _MOST else "")
        absent = sum(1 for one in self.record.reads.objects if not one.uid)
        missing = f"; {absent} absent" if absent else ""
        woken = self.record.woken_by or "nothing that changed (a start, a retry or a resync)"
        when = f"{self.record.at:%Y-%m-%d %H:%M:%S}"
        return f"{self.ref}: {self.record.service} at {when} from {saw or 'itself alone'}{missing}; woken by {woken}"

    @property
    def data(self) -> JsonObject:
        """For ``-o json``."""
        read = [
            {"kind": kind_name(one.part), "name": str(one.key), "uid": one.uid or "", "exists": bool(one.uid)}
            for one in self.record.reads.objects
        ]
        reported = {"service": self.record.service, "at": self.record.at.isoformat(), "wokenBy": self.record.woken_by}
        return {"object": self.ref.data, **reported, "decision": self.record.id, "read": read}


async def decided(links: Sequence[Link], nats_url: str, where: Where) -> list[Decided]:
    """Read it.

    Raises:
        UnreachableError: the log cannot be read.
    """
    async with history(nats_url, where) as log:
        found = [await _of_link(log, link) for link in links if link.blocker is not None and link.blocker.condition]
    return [one for one in found if one is not None]


async def _of_link(log: History, link: Link) -> Decided | None:
    where = target_of(link.ref)
    if where is None or link.blocker is None:
        return None
    reported = await log.decisions_of(where.part.name, where.key)
    record = deciding(reported, link.blocker.condition, link.blocker.reason)
    return None if record is None else Decided(link.ref, record)


def deciding(reported: Iterable[StoredDecision], condition: str, reason: str) -> DecisionRecord | None:
    """The decision since which a condition is as it is; ``None`` if the log does not hold it."""
    found: DecisionRecord | None = None
    for one in reported:
        said = _reason(one.record, condition)
        if said is not None:
            found = (found or one.record) if said == reason else None
    return found


def _reason(record: DecisionRecord, condition: str) -> str | None:
    """What a decision says of a condition; ``None`` if nothing."""
    conditions = (record.plan.get("status") or {}).get("conditions") or ()
    return next((str(one.get("reason") or "") for one in conditions if one.get("type") == condition), None)
