"""A slice of the log of a real broker, in a file: it decides as the log does, and holds no credential."""

import gzip
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from support.cache_objects import widgets
from support.replay_log import EVERY, PART, Log, by_name, change_everything, first_red, last_red, verdicts
from typer.testing import CliRunner

from aim_cli.__main__ import app
from aim_cli.errors import UnreachableError, UnreadableError
from aim_cli.log import connecting
from aim_cli.log.exporting import export
from aim_cli.log.file import FileContents, FileHistory, documents, read, take, write
from controller_runtime import Key, Plan, Resource, View
from controller_runtime.log.history.reader import DecisionFilter, History
from controller_runtime.replay import Replayed, Verdict

WORD = "correct-horse-battery"


async def exported(log: Log, path: Path, wanted: DecisionFilter = EVERY) -> FileContents:
    write(path, documents(await take(History(log.bus, log.layout), wanted)))
    return read(path)


async def again(log: Log, held: FileContents, reconcile: object) -> list[Replayed]:
    return [one async for one in log.replayer(reconcile, FileHistory(held)).decisions()]  # type: ignore[arg-type]


@pytest.mark.spec("FW-619", "FW-620")
async def test_a_file_says_what_the_log_says(log: Log, tmp_path: Path) -> None:
    await log.decide("a", by_name)
    await log.decide("c", first_red)
    await change_everything(log)
    held = await exported(log, tmp_path / "all.aimlog")

    for code in (by_name, first_red, last_red):
        alive = await log.replay(code)
        assert [(one.verdict, one.differences, one.missing) for one in await again(log, held, code)] == [
            (one.verdict, one.differences, one.missing) for one in alive
        ]
    whole, file = History(log.bus, log.layout), FileHistory(held)
    for name in "abcd":
        assert await file.versions(PART.name, Key("ns", name)) == await whole.versions(PART.name, Key("ns", name))
    for decision in held.decisions:
        at = decision.record.at
        assert await file.state_at(at, [PART.name]) == await whole.state_at(at, [PART.name])


@pytest.mark.spec("FW-619")
async def test_only_what_is_wanted_is_in_it_with_all_that_it_was_decided_from(log: Log, tmp_path: Path) -> None:
    await log.decide("a", by_name)
    await log.decide("c", first_red)
    held = await exported(log, tmp_path / "one.aimlog", DecisionFilter(name="c"))
    assert [one.record.name for one in held.decisions] == ["c"]
    assert {one.key.name for one in held.versions} == {"a", "b", "c"}
    assert verdicts(await again(log, held, first_red)) == [Verdict.SAME]


@pytest.mark.spec("FW-620")
async def test_of_what_is_not_in_it_nothing_counts_as_absent(log: Log, tmp_path: Path) -> None:
    await log.decide("c", first_red)
    held = await exported(log, tmp_path / "one.aimlog")
    others = widgets("others")

    def curious(obj: Resource, view: View, now: datetime) -> Plan:
        return Plan(status={"d": view.get(others, "ns", "d").value is None})

    (one,) = await again(log, held, curious)
    assert (one.verdict, one.missing) == (
        Verdict.UNKNOWN,
        ("the file holds nothing of others: export the decision with a release that reads it",),
    )
    assert verdicts(await again(log, held, first_red)) == [Verdict.SAME], "and the others are told"


@pytest.mark.spec("FW-620")
async def test_a_file_that_lacks_what_was_read_is_refused(log: Log, tmp_path: Path) -> None:
    await log.decide("c", first_red)
    held = await exported(log, tmp_path / "one.aimlog")
    write(tmp_path / "less.aimlog", documents(replace(held, parts=frozenset())))
    with pytest.raises(UnreadableError, match="lacks what its decisions read"):
        read(tmp_path / "less.aimlog")


@pytest.mark.spec("FW-621")
async def test_no_credential_is_in_it(
    log: Log, nats_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.source.upsert("a", labels={"colour": "red"}, spec={"env": [{"name": "API_KEY", "value": WORD}]})
    await log.caught_up()

    def quoting(obj: Resource, view: View, now: datetime) -> Plan:
        return Plan(status={"message": f"refused {WORD}"})

    await log.decide("c", quoting)
    monkeypatch.setenv("AIM_NATS_ROOT", log.layout.root)
    path = tmp_path / "safe.aimlog"
    answer = await export(nats_server, path, DecisionFilter())
    assert (answer.code, answer.data["covered"]) == (0, 1)  # type: ignore[call-overload]
    assert WORD.encode() not in gzip.decompress(path.read_bytes())
    assert b"refused ***1" in gzip.decompress(path.read_bytes())


@pytest.mark.spec("FW-620", "FW-602")
@pytest.mark.parametrize(
    "content", [b"", b"text", gzip.compress(b"{}", mtime=0), gzip.compress(b'{"aimlog":9}', mtime=0), None]
)
def test_a_file_of_others_is_refused_in_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other.aimlog"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableError):
        read(path)
    ran = CliRunner().invoke(app, ["replay", str(path)])
    assert ran.exit_code == 2
    begun, refused = ran.stderr.splitlines()
    assert (begun, refused[:4]) == (f"taking decisions again, from {path}", "aim:")


@pytest.mark.spec("FW-619")
async def test_a_log_without_such_a_decision_makes_no_file(
    log: Log, nats_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIM_NATS_ROOT", log.layout.root)
    path = tmp_path / "none.aimlog"
    answer = await export(nats_server, path, DecisionFilter(name="nobody"))
    assert (answer.code, path.exists()) == (3, False)
    with pytest.raises(UnreadableError, match="end its name"):
        await export(nats_server, tmp_path / "x.txt", DecisionFilter())


@pytest.mark.spec("FW-620")
def test_a_file_needs_no_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise UnreachableError("nobody may be asked")

    monkeypatch.setattr(connecting, "connect", refused)
    path = tmp_path / "empty.aimlog"
    begins = datetime.fromisoformat("2026-11-23T00:00:00Z")
    write(path, documents(FileContents(frozenset(), (), (), (), {}, begins, {})))
    ran = CliRunner().invoke(app, ["timeline", "aimservice", "ns/chat", "--nats-url", str(path)])
    assert (ran.exit_code, ran.stderr) == (3, "the event log holds nothing about aimservice ns/chat\n")
