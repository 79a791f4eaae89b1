"""The page about the command names every command, with options that there are."""

import re
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

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


@pytest.mark.spec("FW-600")
def test_the_summary_of_each_command_fits_a_terminal_of_80_columns() -> None:
    listed = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout.partition("Commands:")[2]
    lines = [line for line in listed.splitlines() if line.strip()]
    assert len(lines) >= 20
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []
