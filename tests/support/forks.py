"""Python programs as forks of a process that has imported what they need.

A program that a test starts is there at once, and costs what it does and not what it imports. It is a process of its
own in every respect: it can be asked, stopped, suspended and killed. That the real programs start is for
`tests/e2e` and `tests/integration/local` to show.
"""

import asyncio
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aim_local.processes import end_with_parent

_FORKSERVER: Final = multiprocessing.get_context("forkserver")
_FORKSERVER.set_forkserver_preload(
    ["uvloop", "aim_domain.kinds", "aim_domain.parts", "aim_domain.settings", "controller_runtime.manager.run"]
)


class Fork:
    """A running program.

    Args:
        module: what ``python -m`` would run.
        environment: all variables that it has.
        log: the file that it writes into.
    """

    def __init__(self, module: str, environment: Mapping[str, str], log: Path) -> None:
        self._process = _FORKSERVER.Process(target=_become, args=(module, dict(environment), str(log)), daemon=True)

    async def start(self) -> None:
        """Start it."""
        # The first one waits for all that is imported beforehand.
        await asyncio.to_thread(self._process.start)

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, negative after a signal; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to it."""
        os.kill(self.pid, number)

    async def wait(self) -> int:
        """Wait for its end; the exit code."""
        while (code := self.returncode) is None:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.01)
        return code


def _become(module: str, environment: Mapping[str, str], log: str) -> None:
    if not end_with_parent(os.getppid()):
        return
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module]
    sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
