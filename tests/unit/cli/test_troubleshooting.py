"""The page about troubles tells of every reason for which the command knows a remedy, and of no other."""

import re
from pathlib import Path

import pytest

from aim_cli.why.remedies import REMEDIES

TEXT = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text("utf-8")


@pytest.mark.spec("FW-622")
def test_every_reason_is_reported_of_once() -> None:
    reported = re.findall(r"^\| `(\w+)` \| ", TEXT, re.MULTILINE)
    assert sorted(reported) == sorted(REMEDIES)
