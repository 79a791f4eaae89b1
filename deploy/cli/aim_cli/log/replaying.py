"""``aim replay``: recorded decisions, taken again with today's code."""

import json
from collections import Counter
from typing import Final

from aim_cli.answer import Answer, Form, complain, counted, tell
from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.targets import Where
from aim_cli.errors import Exit
from aim_cli.log.connecting import history, tell_dropped
from aim_cli.log.targets import decisions_of, kind_name
from aim_cli.log.timeline import deeds
from aim_cli.output import OUT, safe
from aim_cli.services import services
from controller_runtime.bus.history import DecisionFilter
from controller_runtime.replay import Replayed, Replayer, Verdict

_STYLES: Final = {Verdict.SAME: "green", Verdict.DIFFERENT: "bold red", Verdict.UNKNOWN: "yellow"}


async def replay(kind: str | None, name: str | None, where: Where, nats_url: str, form: Form) -> Exit:
    """Print each decision as it was taken again; the code by how they turned out."""
    wanted = decisions_of(kind, name, where)
    code = services()
    async with history(nats_url) as log:
        await tell_dropped(log)
        return await replayed(Replayer(log, code), wanted, form, f" about {kind} {name}" if kind else "")


async def replayed(replayer: Replayer, wanted: DecisionFilter, form: Form, about: str = "") -> Exit:
    """Print each decision as soon as it was taken again; data at the end."""
    counts: Counter[Verdict] = Counter()
    found: list[JsonObject] = []
    async for one in replayer.decisions(wanted):
        counts[one.verdict] += 1
        if form is Form.TABLE:
            _print_replayed(one, of_many=wanted.name is None)
        else:
            found.append(replayed_data(one))
    if replayer.unreadable:
        counts[Verdict.UNKNOWN] += replayer.unreadable
        what = counted(replayer.unreadable, "decision record")
        complain(f"{what} cannot be read by this release: look with the one that wrote the log")
    tell(Answer({"decisions": found, **{verdict.value: counts[verdict] for verdict in Verdict}}, (_sum(counts),)), form)
    if not counts:
        complain(f"the event log holds no decision{about}")
    if counts[Verdict.DIFFERENT]:
        return Exit.FOUND
    if not counts and about:
        return Exit.ABSENT
    return Exit.WORDS if counts[Verdict.UNKNOWN] or not counts else Exit.WELL


def _sum(counts: Counter[Verdict]) -> str:
    each = f"{counts[Verdict.SAME]} same, {counts[Verdict.DIFFERENT]} different, {counts[Verdict.UNKNOWN]} undetermined"
    return f"{counted(counts.total(), 'decision')}: {each}"


def _print_replayed(one: Replayed, *, of_many: bool) -> None:
    record = one.stored.record
    reads = record.reads.objects
    absent = sum(read.uid is None for read in reads)
    objects = len(reads) - absent + sum(group.count for group in record.reads.groups if group.index is None)
    look_ups = len(record.reads.indexes) + sum(group.count for group in record.reads.groups if group.index is not None)
    saw = f"saw {counted(objects, 'object')}, {absent} absent, {counted(look_ups, 'look-up')}"
    verdict = f"[{_STYLES[one.verdict]}]{one.verdict.value}[/]"
    when = record.at.strftime("%H:%M:%S.%f")[:-3]
    about = f"{safe(f'{kind_name(record.part)} {record.key}')}  " if of_many else ""
    OUT.print(f"{when}  {record.service:10}  {about}{saw:45}  {safe(deeds(record))}  {verdict}")
    why = (
        *(f"found otherwise: {what}" for what in one.otherwise),
        *(f"asked beyond the record: {what}" for what in one.beyond),
    )
    shown = () if one.verdict is Verdict.SAME else why
    for line in (*one.differences, *(f"missing: {what}" for what in one.missing), *shown):
        OUT.print(f"              {safe(line)}", style="dim")


def replayed_data(one: Replayed) -> JsonObject:
    """For ``-o json``, which other releases read as well (FW-624)."""
    record = one.stored.record
    told: JsonObject = json.loads(record.to_json())
    named = {key: told.get(key, "") for key in ("id", "service", "namespace", "name", "at", "outcome")}
    because = {
        "differences": list(one.differences),
        "missing": list(one.missing),
        "beyond": list(one.beyond),
        "otherwise": list(one.otherwise),
    }
    return {**named, "kind": kind_name(record.part), "did": deeds(record), "verdict": one.verdict.value, **because}
