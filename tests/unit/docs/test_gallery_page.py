"""The page about troubles lists each failure of the gallery by its symptom, with the cause that `aim why` names."""

import re
from pathlib import Path

import pytest
from gallery.failures import FAILURES, Failure

TEXT = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text("utf-8")
_ROW = re.compile(r"^\| ([^|`]+) \| (\S+ `\w+`|\S+ does not exist) \|$", re.MULTILINE)


def row(failure: Failure) -> tuple[str, str]:
    kind, reason = failure.cause
    return failure.symptom, f"{kind} {reason if ' ' in reason else f'`{reason}`'}"


@pytest.mark.spec("FW-622")
def test_each_failure_is_found_by_its_symptom() -> None:
    assert _ROW.findall(TEXT) == [row(one) for one in FAILURES.values()]
