"""Python programs as forks of a process that has imported what they need.

A program that a test starts is there at once, and costs what it does and not what it imports. It is a process of its
own in every respect: it leads a process group and can be asked, stopped, suspended and killed. Only their hashes have
one seed. That the real programs start is for `tests/local`, and for the demo in `tests/e2e`, to show.
"""

import asyncio
import io
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aim_local.processes import Child, end_with_parent
from aim_local.supervision.process import Program, spawn

_FORKSERVER: Final = multiprocessing.get_context("forkserver")
_FORKSERVER.set_forkserver_preload(
    [
        "uvloop",
        "aim_model_sync.service",
        "aim_discovery.service",
        "aim_artifacts.service",
        "aim_serving.service",
        "aim_routing.service",
        "aim_local.actors.cluster",
        "aim_local.actors.failures",
        "embedded_apiserver.controlplane",
        "aim_local.engine",
        "aim_local.gateway.server",
        "aim_local.registry.server",
        "controller_runtime.manager.run",
    ]
)
_MODULE: Final = [sys.executable, "-m"]


class Fork:
    """A running program.

    Args:
        module: what ``python -m`` would run.
        environment: all variables that it has.
        log: the file that it writes into.
        arguments: what follows the module on the command line.
    """

    def __init__(self, module: str, environment: Mapping[str, str], log: Path, arguments: Sequence[str] = ()) -> None:
        become = module, dict(environment), str(log), list(arguments)
        self._process = _FORKSERVER.Process(target=_become, args=become, daemon=True)

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

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    async def wait(self) -> int:
        """Wait for its end; the exit code."""
        while (code := self.returncode) is None:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.01)
        return code


class Spawned:
    """A running program that was not forked: one that loads a library before all else. As `Fork`."""

    def __init__(self, module: str, environment: Mapping[str, str], log: Path) -> None:
        self._command = (sys.executable, "-m", module)
        self._environment = environment
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, negative after a signal; None while it runs."""
        return None if self._process is None else self._process.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to it."""
        os.kill(self.pid, number)

    async def wait(self) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None
        return await self._process.wait()


async def fork(program: Program, log: Path) -> Child:
    """Start a program of a stack: as a fork if it is one in Python."""
    if list(program.command[: len(_MODULE)]) != _MODULE:
        return await spawn(program, log)
    module, *arguments = program.command[len(_MODULE) :]
    child = Fork(module, program.env, log, arguments)
    await child.start()
    return child


def _become(module: str, environment: Mapping[str, str], log: str, arguments: Sequence[str]) -> None:
    # Also one that is suspended.
    if not end_with_parent(os.getppid(), signal.SIGKILL):
        return
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    # As soon as somebody may look for it; a program itself is told so by PYTHONUNBUFFERED.
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
