"""What the demo says when there is no answer in time; all else of it is shown as a user runs it (tests/e2e)."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from support.controlplane import CRDS

from aim_local.demo import DemoError, DemoSettings, demo
from aim_local.stack import StackSettings


async def test_without_enough_time_it_says_what_is_missing(tmp_path: Path) -> None:
    settings = DemoSettings(StackSettings(tmp_path / "run", CRDS, services=()), seconds=0.3)

    with pytest.raises(DemoError) as raised:
        await demo(settings, Console(file=StringIO()))

    said = str(raised.value)
    assert "AIMService demo/qwen-chat is without a status after 0.3 s" in said
    assert "is the serving service at work?" in said
