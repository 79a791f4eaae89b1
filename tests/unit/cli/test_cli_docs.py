"""The page about the command names every command, with options that there are."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from aim_cli.__main__ import app

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


def written() -> list[str]:
    """The commands in the page's blocks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if line.startswith("aim ")]


@pytest.mark.spec("FW-602")
def test_every_command_is_reported_of() -> None:
    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    reported = {line.split()[1] for line in written()}
    assert known == reported | {"migrate", "version"}
