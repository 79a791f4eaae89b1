"""``aim timeline``: what the event log says of an object."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shutil import get_terminal_size
from typing import Final

from aim_cli.answer import Answer, Form, counted, plain
from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.targets import Where
from aim_cli.errors import Exit
from aim_cli.log.connecting import history, tell_dropped
from aim_cli.log.targets import located, target
from aim_cli.log.timeline import Everywhere, Moment, is_paused_now, timeline
from aim_cli.log.waterfall import bar_data, drawn, waterfall
from aim_cli.log.waterfall_page import page_of

_WIDEST_NAME: Final = 60
_NAMES_FOLLOWED: Final = 40


@dataclass(frozen=True, slots=True)
class Told:
    """What of a story is told.

    Attributes:
        trace: also what its traces did in other namespaces.
        since: nothing from before.
        form: how each moment is printed by who follows them.
    """

    trace: bool = False
    since: datetime | None = None
    form: Form = Form.TABLE

    @property
    def everywhere(self) -> Everywhere | None:
        """What is read of other namespaces."""
        return Everywhere(self.since) if self.trace else None


async def story(kind: str, name: str | None, where: Where, nats_url: str, wish: Told) -> Answer:
    """The story of an object."""
    wanted = target(kind, name, where)
    async with history(nats_url) as log:
        await tell_dropped(log)
        wanted = await located(log, wanted)
        paused = await is_paused_now(log, wanted)
        moments = await timeline(log, wanted, everywhere=wish.everywhere)
    some = [moment for moment in moments if wish.since is None or moment.at >= wish.since]
    return told(f"{kind} {wanted.key}", some, wish, paused=paused)


async def picture(kind: str, name: str | None, where: Where, nats_url: str, page: Path | None) -> Answer:
    """The life of an object as bars; also written to a page if one is named."""
    wanted = target(kind, name, where)
    async with history(nats_url) as log:
        await tell_dropped(log)
        wanted = await located(log, wanted)
        bars = await waterfall(log, wanted)
    about = f"{kind} {wanted.key}"
    if not bars:
        return Answer([], (), Exit.ABSENT, (f"the event log holds nothing about {about}",))
    lines = drawn(bars, get_terminal_size().columns)
    if page is not None:
        await asyncio.to_thread(page.write_text, page_of(about, bars), "utf-8")
        lines = [f"written to {page}"]
    return Answer([bar_data(bar) for bar in bars], tuple(lines))


def told(about: str, moments: Sequence[Moment], wish: Told, *, paused: bool) -> Answer:
    """Moments, as data and as lines."""
    if not moments:
        since = f" since {wish.since:%Y-%m-%d %H:%M:%S} UTC" if wish.since else ""
        return Answer([], (), Exit.ABSENT, (f"the event log holds nothing about {about}{since}",))
    width = min(_WIDEST_NAME, max(len(moment.about) for moment in moments))
    lines = [f"{about} is paused: nothing is decided about it"] if paused else []
    lines += [_moment(moment, width) for moment in moments]
    traces = list(_traces(moments))
    if traces and not wish.trace:
        traces.append("Of these traces this is what is near; --trace shows what they did elsewhere.")
    return Answer([_moment_data(moment) for moment in moments], (*lines, *traces))


async def followed(kind: str, name: str | None, where: Where, nats_url: str, wish: Told) -> Exit:
    """Print the story of an object as it goes on, a line or a JSON object each, until somebody interrupts it."""
    wanted = target(kind, name, where)
    known: set[Moment] = set()
    async with history(nats_url) as log, aclosing(log.stirred(wanted.key.namespace)) as wakes:
        await tell_dropped(log)
        async for _ in wakes:
            moments = await timeline(log, await located(log, wanted), everywhere=wish.everywhere)
            news = [one for one in moments if one not in known and (wish.since is None or one.at >= wish.since)]
            known.update(moments)
            for one in news:
                told_now = _moment(one, _NAMES_FOLLOWED) if wish.form is Form.TABLE else json.dumps(_moment_data(one))
                print(plain(told_now), flush=True)
    return Exit.WELL


def _traces(moments: Sequence[Moment]) -> Iterable[str]:
    for one, _ in Counter(moment.trace for moment in moments if moment.trace).most_common():
        of_trace = [moment for moment in moments if moment.trace == one]
        services = ", ".join(sorted({moment.who for moment in of_trace}))
        yield f"trace {one} of {of_trace[0].about}: {counted(len(of_trace), 'moment')}, in {services}"


def _moment(moment: Moment, width: int) -> str:
    when = moment.at.strftime("%H:%M:%S.%f")[:-3]
    return f"{when}  {moment.trace[:6]:6}  {moment.who:10}  {moment.about:{width}}  {moment.what}"


def _moment_data(moment: Moment) -> JsonObject:
    at = moment.at.isoformat()
    return {"at": at, "who": moment.who, "about": moment.about, "what": moment.what, "trace": moment.trace}
