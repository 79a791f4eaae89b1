"""``aim replay``: recorded decisions, taken again with today's code or that of another release."""

import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aim_cli.answer import Answer, Form, complain, count_of, print_answer
from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.targets import Where
from aim_cli.errors import Exit, UnreadableError
from aim_cli.log.connecting import SUFFIX, history, report_dropped
from aim_cli.log.file import FileContents, FileHistory, documents, take, write
from aim_cli.log.targets import decisions_of, kind_name
from aim_cli.log.timeline import deeds
from aim_cli.output import OUT, safe
from aim_cli.services import services
from controller_runtime.log import DecisionFilter
from controller_runtime.replay import Replayed, Replayer, Verdict

_STYLES: Final = {Verdict.SAME: "green", Verdict.DIFFERENT: "bold red", Verdict.UNKNOWN: "yellow"}


async def replay(kind: str | None, name: str | None, where: Where, nats_url: str, form: Form) -> Exit:
    """Print each decision as it was taken again; the code by how they turned out."""
    wanted = decisions_of(kind, name, where)
    code = services()
    async with history(nats_url) as log:
        await report_dropped(log)
        return await replayed(Replayer(log, code), wanted, form, f" about {kind} {name}" if kind else "")


async def replayed(replayer: Replayer, wanted: DecisionFilter, form: Form, about: str = "") -> Exit:
    """Print each decision as soon as it was taken again; data at the end."""
    counts: Counter[Verdict] = Counter()
    found: list[JsonObject] = []
    async for one in replayer.decisions(wanted):
        counts[one.verdict] += 1
        if form.of_lines:
            _print_replayed(one, of_many=wanted.name is None)
        else:
            found.append(replayed_data(one))
    if replayer.unreadable:
        counts[Verdict.UNKNOWN] += replayer.unreadable
        what = count_of(replayer.unreadable, "decision record")
        complain(f"{what} cannot be read by this release: look with the one that wrote the log")
    print_answer(
        Answer({"decisions": found, **{verdict.value: counts[verdict] for verdict in Verdict}}, (_sum(counts),)), form
    )
    if not counts:
        complain(f"the event log holds no decision{about}")
    if counts[Verdict.DIFFERENT]:
        return Exit.FOUND
    if not counts and about:
        return Exit.ABSENT
    return Exit.WORDS if counts[Verdict.UNKNOWN] or not counts else Exit.WELL


def _sum(counts: Counter[Verdict]) -> str:
    each = f"{counts[Verdict.SAME]} same, {counts[Verdict.DIFFERENT]} different, {counts[Verdict.UNKNOWN]} undetermined"
    return f"{count_of(counts.total(), 'decision')}: {each}"


def _print_replayed(one: Replayed, *, of_many: bool) -> None:
    record = one.stored.record
    reads = record.reads.objects
    absent = sum(read.uid is None for read in reads)
    objects = len(reads) - absent + sum(group.count for group in record.reads.groups if group.index is None)
    look_ups = len(record.reads.indexes) + sum(group.count for group in record.reads.groups if group.index is not None)
    saw = f"saw {count_of(objects, 'object')}, {absent} absent, {count_of(look_ups, 'look-up')}"
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
    reported: JsonObject = json.loads(record.to_json())
    named = {key: reported.get(key, "") for key in ("id", "service", "namespace", "name", "at", "outcome")}
    because = {
        "differences": list(one.differences),
        "missing": list(one.missing),
        "beyond": list(one.beyond),
        "otherwise": list(one.otherwise),
    }
    return {**named, "kind": kind_name(record.part), "did": deeds(record), "verdict": one.verdict.value, **because}


_VERDICTS: Final = (Exit.WELL, Exit.FOUND, Exit.WORDS)


async def against(nats_url: str, wanted: DecisionFilter, other: Path) -> Answer:
    """Decisions on which the two releases do not agree.

    Args:
        other: the other release's Python, or the virtual environment that has it.

    Raises:
        UnreachableError: the log cannot be read.
        UnreadableError: the other release cannot be run, or cannot read the log.
    """
    async with history(nats_url) as log:
        held = await take(log, wanted)
    if not held.decisions:
        return Answer({}, (), Exit.WORDS, ("the event log holds no such decision",))
    here = [replayed_data(one) async for one in Replayer(FileHistory(held), services()).decisions()]
    return compared(here, await _there(_python(other), held), str(other))


def compared(here: Sequence[JsonObject], there: Sequence[JsonObject], other: str) -> Answer:
    """What comes out otherwise by one of the two than by the other one. Pure."""
    by_id = {one["id"]: one for one in there}
    pairs = [(one, by_id.get(one["id"])) for one in here]
    otherwise = [(one, two) for one, two in pairs if two is None or _outcome(one) != _outcome(two)]
    unknown = [one for pair in pairs for one in pair if one is not None and one["verdict"] == Verdict.UNKNOWN]
    lines = [line for pair in otherwise for line in _difference_lines(*pair)]
    alike = len(pairs) - len(otherwise)
    lines.append(f"{count_of(len(pairs), 'decision')}: {alike} alike, {len(otherwise)} otherwise by {other}")
    code = Exit.FOUND if otherwise else Exit.WORDS if unknown else Exit.WELL
    data = {"alike": alike, "otherwise": [{"here": one, "there": two} for one, two in otherwise]}
    return Answer(data, tuple(lines), code)


def _outcome(one: JsonObject) -> tuple[str, list[str]]:
    return str(one["verdict"]), list(one["differences"])


def _difference_lines(here: JsonObject, there: JsonObject | None) -> list[str]:
    about = f"{here['at']}  {here['service']:10}  {here['kind']} {here['namespace']}/{here['name']}  {here['did']}"
    return [about, *_lines("here", here), *_lines("there", there)]


def _lines(where: str, one: JsonObject | None) -> list[str]:
    if one is None:
        return [f"    {where}: cannot be read"]
    because = [*one["differences"], *(f"missing: {what}" for what in one["missing"])]
    return [f"    {where}: {one['verdict']}", *(f"        {line}" for line in because)]


def _python(other: Path) -> Path:
    return other / "bin" / "python" if other.is_dir() else other


async def _there(python: Path, held: FileContents) -> list[JsonObject]:
    with tempfile.TemporaryDirectory(prefix="aim-") as folder:
        file = Path(folder, f"log{SUFFIX}")
        await asyncio.to_thread(write, file, documents(held))
        code, out, errors = await _run(python, ["-m", "aim_cli", "replay", str(file), "-o", "json"])
    try:
        decisions: list[JsonObject] = json.loads(out)["decisions"]
    except (ValueError, KeyError, TypeError):
        said = (errors.strip().splitlines() or [f"it ended with {code}"])[-1]
        raise UnreadableError(
            f"{python} cannot take the decisions again: {said}; name that of a release whose `aim replay` reads files"
        ) from None
    if code not in _VERDICTS:
        raise UnreadableError(f"{python} ended with {code}: {errors.strip()[-300:]}")
    return decisions


async def _run(python: Path, arguments: Sequence[str]) -> tuple[int, str, str]:
    # Ours would come before what is installed there.
    env: Mapping[str, str] = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        process = await asyncio.create_subprocess_exec(
            str(python), *arguments, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise UnreadableError(
            f"{python} cannot be run: {error.strerror}; name the other release's Python, as {sys.executable} is ours"
        ) from error
    out, errors = await process.communicate()
    return process.returncode or 0, out.decode(errors="replace"), errors.decode(errors="replace")
