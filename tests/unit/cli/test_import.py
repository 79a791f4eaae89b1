"""What `aim import` tells of a file, before anybody relies on it."""

import gzip
import subprocess
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aim_cli.errors import Exit, UnreadableError
from aim_cli.log.connecting import SUFFIX
from aim_cli.log.exporting import examined
from aim_cli.log.file import FileContents, documents, read, write
from controller_runtime import JsonObject
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.history.reader import StoredDecision

AT = datetime(2026, 11, 24, 3, 0, tzinfo=UTC)


def file_with(folder: Path, plan: JsonObject) -> Path:
    record = DecisionRecord(
        id="1", service="serving", controller="service", part="aimservices", namespace="a", name="b", at=AT, plan=plan
    )
    held = FileContents(frozenset({("aimservices", "")}), (), (), (StoredDecision(record, AT, 1),), {}, AT, {})
    write(folder / "night.aimlog", documents(held))
    return folder / "night.aimlog"


@pytest.mark.spec("FW-688")
def test_it_tells_what_is_in_the_file_and_how_to_read_it(tmp_path: Path) -> None:
    file = file_with(tmp_path, {})
    reported = examined(file)
    assert (reported.code, reported.remarks) == (Exit.WELL, ())
    assert reported.lines[0] == f"{file}: 1 decision (1 of serving), 2026-11-24 03:00:00 to 03:00:00 UTC"
    assert f"aim replay {file}" in reported.lines[2]
    assert isinstance(reported.data, dict)
    assert (reported.data["decisions"], reported.data["parts"]) == ({"serving": 1}, ["aimservices"])


@pytest.mark.spec("FW-688", "FW-621")
@pytest.mark.parametrize(("value", "code"), [("s3cr3t-word", Exit.FOUND), ("***1", Exit.WELL)])
def test_it_warns_of_a_credential_that_is_not_covered_without_showing_it(
    tmp_path: Path, value: str, code: Exit
) -> None:
    reported = examined(file_with(tmp_path, {"status": {"env": [{"name": "HF_TOKEN", "value": value}]}}))
    assert reported.code is code
    assert "s3cr3t-word" not in str(reported)
    assert bool(reported.remarks) is (code is Exit.FOUND)


@pytest.mark.spec("FW-688", "FW-687")
def test_what_is_no_such_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"none\.aimlog cannot be read"):
        examined(tmp_path / "none.aimlog")


@pytest.mark.spec("FW-741")
def test_a_file_that_unpacks_to_too_much_is_refused_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_with(tmp_path, {})
    head, decision = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    monkeypatch.setattr("aim_cli.log.file._MOST_LINES", 2000)
    file.write_bytes(gzip.compress(head + decision * 1999))
    tracemalloc.start()
    reported = examined(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "1999 decisions" in reported.lines[0]
    # Ten lines' worth: nothing of a line is kept.
    assert peak < 2 << 20
    file.write_bytes(gzip.compress(head + decision * 2000))
    for reader in (examined, read):
        with pytest.raises(UnreadableError, match=r"more than 2000 lines .*; export less"):
            reader(file)
    with pytest.raises(UnreadableError, match=r"cannot be written: more than 2000 lines"):
        write(tmp_path / "large.aimlog", ({"is": "settings"} for _ in range(2001)))
    assert not (tmp_path / "large.aimlog").exists(), "half of a log reads like a whole one"


@pytest.mark.spec("FW-741", "FW-620")
@pytest.mark.parametrize("name", ["night.aimlog", "night.gz", "my night.aimlog", "a b"])
def test_the_suggestion_names_a_file_that_is_read_in_place(tmp_path: Path, name: str) -> None:
    file = file_with(tmp_path, {}).rename(tmp_path / name)
    command = examined(file).lines[3].removeprefix("look at them: ")
    script = command.replace("aim timeline KIND NAME", "printenv AIM_NATS_URL")
    shown = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout.strip()
    assert shown.endswith(SUFFIX)
    assert Path(shown).exists()
