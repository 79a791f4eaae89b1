"""The page about troubles tells of every reason for which the command knows a remedy, and of no other."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from aim_cli.__main__ import app
from aim_cli.why.remedies import REMEDIES

TEXT = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text("utf-8")


@pytest.mark.spec("FW-622")
def test_every_reason_is_told_of_once() -> None:
    told = re.findall(r"^\| `(\w+)` \| ", TEXT, re.MULTILINE)
    assert sorted(told) == sorted(REMEDIES)


@pytest.mark.spec("FW-622")
def test_every_command_exists() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    blocks = re.findall(r"^```\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    lines = [line.split()[1:] for block in blocks for line in block.splitlines()]
    lines += [words.split()[1:] for words in re.findall(r"`(aim [^`]+)`", TEXT)]
    for name, *words in lines:
        known = {option for parameter in commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known, (name, words)
