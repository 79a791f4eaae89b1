"""Processes of the demo are started again when they end, but not without end."""

import itertools
import os
import signal
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from support.controlplane import CRDS, eventually

from aim_local.demo.keeping import while_kept_alive
from aim_local.stack import Stack, StackError, StackSettings


async def test_what_is_killed_again_and_again_ends_the_story(tmp_path: Path) -> None:
    reported = StringIO()

    async def kill_once_ready(stack: Stack, restarts: int) -> None:
        await eventually(lambda: reported.getvalue().count("is ready again") == restarts, 60)
        os.kill(stack["registry"].pid, signal.SIGKILL)

    async def kill_for_ever(stack: Stack) -> None:
        for restarts in itertools.count():
            await kill_once_ready(stack, restarts)

    async with Stack(StackSettings(tmp_path / "run", CRDS, services=())) as stack:
        with pytest.raises(StackError, match=r"registry was killed by signal 9 \(SIGKILL\), 6 times within 60 s"):
            await while_kept_alive(stack, Console(file=reported, width=200), kill_for_ever(stack))

    assert reported.getvalue().count("registry was killed by signal 9 (SIGKILL); starting it again") == 5


async def test_an_error_of_the_story_is_raised_as_it_is(tmp_path: Path) -> None:
    async def failing() -> None:
        raise LookupError("no answer")

    with pytest.raises(LookupError, match="no answer"):
        await while_kept_alive(Stack(StackSettings(tmp_path / "run", CRDS)), Console(file=StringIO()), failing())
