"""What `aim import` tells of a file, before anybody relies on it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from aim_cli.errors import Exit, UnreadableError
from aim_cli.log.file import Held, documents, write
from aim_cli.log.importing import examined
from controller_runtime import JsonObject
from controller_runtime.bus.decision import DecisionRecord
from controller_runtime.bus.history import StoredDecision

AT = datetime(2026, 11, 24, 3, 0, tzinfo=UTC)


def file_with(folder: Path, plan: JsonObject) -> Path:
    record = DecisionRecord(
        id="1", service="serving", controller="service", part="aimservices", namespace="a", name="b", at=AT, plan=plan
    )
    held = Held(frozenset({("aimservices", "")}), (), (), (StoredDecision(record, AT, 1),), {}, AT, {})
    write(folder / "night.aimlog", documents(held))
    return folder / "night.aimlog"


@pytest.mark.spec("FW-688")
def test_it_tells_what_is_in_the_file_and_how_to_read_it(tmp_path: Path) -> None:
    file = file_with(tmp_path, {})
    told = examined(file)
    assert (told.code, told.remarks) == (Exit.WELL, ())
    assert told.lines[0] == f"{file}: 1 decision (1 of serving), 2026-11-24 03:00:00 to 03:00:00 UTC"
    assert f"aim replay {file}" in told.lines[2]
    assert isinstance(told.data, dict)
    assert (told.data["decisions"], told.data["parts"]) == ({"serving": 1}, ["aimservices"])


@pytest.mark.spec("FW-688", "FW-621")
@pytest.mark.parametrize(("value", "code"), [("s3cr3t-word", Exit.FOUND), ("***1", Exit.WELL)])
def test_it_warns_of_a_credential_that_is_not_covered_without_showing_it(
    tmp_path: Path, value: str, code: Exit
) -> None:
    told = examined(file_with(tmp_path, {"status": {"env": [{"name": "HF_TOKEN", "value": value}]}}))
    assert told.code is code
    assert "s3cr3t-word" not in str(told)
    assert bool(told.remarks) is (code is Exit.FOUND)


@pytest.mark.spec("FW-688", "FW-687")
def test_what_is_no_such_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"none\.aimlog cannot be read"):
        examined(tmp_path / "none.aimlog")
