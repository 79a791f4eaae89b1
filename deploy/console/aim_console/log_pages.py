"""An object at an earlier moment, as a page with a slider through its story (FW-670)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.log.past import members
from aim_cli.log.targets import Target, target_of
from aim_cli.log.timeline import Moment
from aim_cli.units import age, moment
from aim_console.access import Rights
from aim_console.pages import ref_at
from aim_console.past import Present, address, seen_moments, then
from controller_runtime.log import History, Knowledge

_NOT_COMPARED: Final = frozenset({"metadata.generation"})
"""It only counts changes of the spec, which are shown themselves."""
_ZONE: Final = re.compile(r"(T\S+) (\d\d:?\d\d)$")
"""A zone of which the plus became a space, as it does in a typed address."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A moment of an object's story at which one can look.

    Attributes:
        what: happened then, in one line.
    """

    at: datetime
    what: str


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Who wants to see what.

    Attributes:
        stop: number of a moment, from the first; without a script forms say no more.
        at: a moment as `aim state --at` takes it; empty = the last one.
    """

    ref: Ref
    target: Target
    rights: Rights
    stop: str = ""
    at: str = ""

    def may_see(self, at: datetime) -> bool:
        """Whether they may see how it was at a moment."""
        return self.rights.admitted(self.ref.kind.resource, self.ref.namespace, at)


def request_of(path: Mapping[str, str], query: Mapping[str, str], rights: Rights) -> PageRequest | None:
    """What an address asks for; ``None`` if it names no object that the viewer may see.

    One that is gone still has a past.
    """
    ref = ref_at(path["plural"], path["namespace"], path["name"])
    target = None if ref is None or not rights.admits(ref.kind.resource, ref.namespace) else target_of(ref)
    if ref is None or target is None:
        return None
    return PageRequest(ref, target, rights, query.get("stop", ""), _ZONE.sub(r"\1+\2", query.get("at", "")))


async def past_page(log: History, present: Present, wanted: PageRequest, now: datetime) -> JsonObject | None:
    """An object as it was; ``None`` of a moment that the viewer may not see.

    Raises:
        TargetError: the moment is none.
        BusError: the log cannot be read.
    """
    stops = stops_of(await seen_moments(log, wanted.target, wanted.rights))
    at = chosen(stops, wanted, now)
    if not wanted.may_see(at):
        return None
    found = await then(log, present, wanted.rights, wanted.ref, at)
    number = max((place for place, one in enumerate(stops) if one.at <= at), default=None)
    content = found.content or {"ref": wanted.ref, "state_word": "", "mark": "rest"}
    return {
        **content,
        "unasked": found.unasked,
        "absent": "" if found.content else _absent(found.knowledge),
        "past": {
            "at": at,
            "age": age(at.isoformat(), now),
            "number": number,
            "stops": [{"at": one.at.isoformat(), "what": one.what} for one in stops],
            "what": "" if number is None else stops[number].what,
            "earlier": _address(wanted.ref, [one.at for one in stops if one.at < at][-1:]),
            "later": _address(wanted.ref, [one.at for one in stops if one.at > at][:1]),
            "changes": None if found.body is None else changes_since(found.body, present.object(wanted.ref)),
        },
    }


def changes_since(then: JsonObject, now: JsonObject | None) -> list[JsonObject] | None:
    """Members that differ today, with both values; ``None`` where there is no such object any more (FW-874)."""
    if now is None:
        return None
    return [
        {"member": path, "then": _value(was), "now": _value(value)}
        for path, was, value in members(then, now)
        if path not in _NOT_COMPARED
    ]


def _value(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True)


def stops_of(moments: Sequence[Moment]) -> list[Stop]:
    """Each moment once; of what happened at the same time the last."""
    reported = {one.at: f"{one.who}: {one.about}: {one.what}" for one in moments}
    return [Stop(at, what) for at, what in sorted(reported.items())]


def chosen(stops: Sequence[Stop], wanted: PageRequest, now: datetime) -> datetime:
    """The moment that is asked for.

    Raises:
        TargetError: what is asked for is none.
    """
    if wanted.at:
        return moment(wanted.at, now)
    # Python refuses to read numbers of thousands of digits.
    is_number = wanted.stop.isdecimal() and len(wanted.stop) <= len(str(len(stops)))
    if is_number and int(wanted.stop) < len(stops):
        return stops[int(wanted.stop)].at
    return stops[-1].at if stops else now


def _absent(knowledge: Knowledge) -> str:
    if knowledge is Knowledge.ABSENT:
        return "It was not there."
    return "How it was is not known: the event log does not hold it any more."


def _address(ref: Ref, at: Sequence[datetime]) -> str:
    return address(ref, at[0]) if at else ""
