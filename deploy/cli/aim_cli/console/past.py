"""The story of one object, and its decisions taken again, from the log (FW-631, FW-633)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from urllib.parse import quote

from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.cluster.resources import KNOWN
from aim_cli.console.access import Rights
from aim_cli.console.pages import href
from aim_cli.console.seen import is_shown, saw_all, shown
from aim_cli.log.targets import Target, located
from aim_cli.log.timeline import Moment, Reader, deeds, timeline
from aim_cli.log.waterfall import Bar, waterfall
from aim_cli.services import services
from controller_runtime import Key
from controller_runtime.bus.history import DecisionFilter, History
from controller_runtime.replay import Replayed, Replayer

MOST: Final = 300
"""Lines of a story, and decisions that are taken again; the newest."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A bar in hundredths of the picture's width.

    Attributes:
        strokes: where decisions wrote something.
    """

    name: str
    state: str
    after: str
    left: float
    width: float
    open: bool
    strokes: tuple[float, ...]


async def story(history: History, wanted: Target, rights: Rights) -> JsonObject:
    """Bars and moments of an object; of others only what the viewer may see."""
    wanted = await located(history, wanted)
    found = await waterfall(history, wanted, reader_of(rights))
    bars = [bar for bar in found if is_shown(bar.kind, bar.key, rights, bar.begun)]
    moments = await seen_moments(history, wanted, rights)
    return {
        "bars": drawn(bars),
        "moments": [told(one) for one in moments],
        "begun": bars[0].begun if bars else None,
        "span": _told_seconds(_scale(bars)[1]) if bars else "",
    }


async def seen_moments(history: History, wanted: Target, rights: Rights) -> list[Moment]:
    """The newest moments of an object's story, as far as the viewer may see them."""
    found = await timeline(history, await located(history, wanted), reader=reader_of(rights))
    return [one for one in found if is_shown(one.kind, one.key, rights, one.at)][-MOST:]


def reader_of(rights: Rights) -> Reader:
    """Who has these rights."""
    return Reader(
        lambda one: rights.since(one.part.kind.resource, one.key.namespace), lambda record: shown(record, rights)
    )


def drawn(bars: Sequence[Bar]) -> list[Drawn]:
    """Bars on one scale, from the first moment to the last."""
    if not bars:
        return []
    begun, span = _scale(bars)

    def share(moment: datetime) -> float:
        return max(0.0, min(100.0, 100 * (moment - begun).total_seconds() / span))

    return [
        Drawn(
            f"{bar.kind} {bar.key}",
            bar.state,
            "" if bar.ready is None else _told_seconds((bar.ready - begun).total_seconds()),
            share(bar.begun),
            (100.0 if bar.ready is None else share(bar.ready)) - share(bar.begun),
            bar.ready is None,
            tuple(map(share, bar.writes)),
        )
        for bar in bars
    ]


def _scale(bars: Sequence[Bar]) -> tuple[datetime, float]:
    """The first moment of all, and the seconds from there to the last."""
    begun = min(bar.begun for bar in bars)
    return begun, max((moment - begun).total_seconds() for bar in bars for moment in bar.moments) or 0.001


def _told_seconds(seconds: float) -> str:
    return f"{seconds:.2f} s"


def told(moment: Moment) -> JsonObject:
    """A row of a table."""
    row = {"at": moment.at, "who": moment.who, "about": moment.about, "what": moment.what, "trace": moment.trace}
    return {**row, "decision": _link(moment.kind, moment.key, moment.decision)}


def _link(kind: str, key: Key, decision: str) -> str:
    """Where the page of a decision about an object is; empty where there is none."""
    known = next((one for one in KNOWN if one.kind == kind), None)
    if known is None or not decision:
        return ""
    return f"{href(Ref(known, key.namespace, key.name))}/replay/{quote(decision, safe='')}"


async def replayed(history: History, wanted: Target, rights: Rights) -> JsonObject:
    """The newest decisions about an object, taken again by the code that is installed here.

    What is otherwise or missing names what the decision read, and is told only to who may see all of that.
    """
    key = wanted.key
    since = rights.since(wanted.part.kind.resource, key.namespace)
    if since is None:
        return {"decisions": [], "left_out": 0}
    about = DecisionFilter(part=wanted.part.name, namespace=key.namespace, name=key.name, since=since)
    left_out = 0
    if len(stored := await history.decisions(about)) > MOST:
        about, left_out = replace(about, since=stored[-MOST].record.at), len(stored) - MOST
    decisions = []
    async for one in Replayer(history, services()).decisions(about):
        decisions.append(_replayed(one, wanted, rights))
        # Whoever asks for another page meanwhile is answered.
        await asyncio.sleep(0)
    return {"decisions": decisions[-MOST:], "left_out": left_out}


def _replayed(one: Replayed, wanted: Target, rights: Rights) -> JsonObject:
    record = one.stored.record
    return {
        "at": record.at,
        "link": _link(wanted.part.kind.kind, wanted.key, record.id),
        "service": record.service,
        "did": deeds(shown(record, rights)),
        "verdict": one.verdict.value,
        "because": because(one, rights),
    }


def because(one: Replayed, rights: Rights) -> list[str]:
    """What is otherwise or missing, for who may see all that the decision read."""
    reasons = [*one.differences, *(f"missing: {what}" for what in one.missing)]
    if reasons and not saw_all(one.stored.record, rights):
        return ["it read objects that you may not see"]
    return reasons
