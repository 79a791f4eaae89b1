"""One supervised process: its log, its readiness, its end."""

import asyncio
import re
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, final

from aim_local.processes import Child, dying_with_parent, stop_process
from aim_local.supervision.logs import informative, last_lines

_RETRY: Final = 0.02
_RESIDENT: Final = re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)

Probe: TypeAlias = Callable[[], Awaitable[str]]
"""Asks a process whether it is ready; empty when it is, else what is missing."""


class StackError(Exception):
    """Something could not be started, or ended by itself; the message names it and quotes its log."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run.

    Attributes:
        name: for people and for the log file.
        command: program and arguments.
        env: the whole environment.
        probe: its readiness.
        url: where it answers HTTP; empty if it does not.
    """

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    probe: Probe
    url: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One process in a report.

    Attributes:
        name: of the service, or of another program.
        pid: its number; empty where it does not run, or is in a pod.
        start_seconds: from its start to readiness.
        memory: bytes that it holds; None where that is unknown.
    """

    name: str
    pid: str
    start_seconds: float
    memory: int | None


Spawn: TypeAlias = Callable[[Program, Path], Awaitable[Child]]
"""Starts a program that appends to a log. Raises `StackError` where it cannot be run."""


async def spawn(program: Program, log: Path) -> Child:
    """Start the program as its command says; the kernel ends it with us."""
    with await asyncio.to_thread(log.open, "ab") as output:
        try:
            return await asyncio.create_subprocess_exec(
                *program.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(program.env),
                start_new_session=True,
                preexec_fn=dying_with_parent(signal.SIGKILL),
            )
        except OSError as error:
            raise StackError(f"{program.name} cannot be run: {error}; command {program.command[0]}") from error


@final
class Supervised:
    """A program that can be started, stopped, killed and started again; never more than one process at a time."""

    def __init__(
        self, program: Program, log: Path, *, start_timeout: float, stop_patience: float, spawn: Spawn = spawn
    ) -> None:
        self.program = program
        self.log = log
        self.start_seconds = 0.0
        """From the last start to readiness."""
        self._start_timeout = start_timeout
        self._stop_patience = stop_patience
        self._spawn = spawn
        self._process: Child | None = None

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.program.name

    @property
    def url(self) -> str:
        """Where it answers HTTP."""
        return self.program.url

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Process id.

        Raises:
            StackError: it is not running.
        """
        if self._process is None or not self.running:
            raise StackError(f"{self.name} is not running; start it first")
        return self._process.pid

    @property
    def resident_bytes(self) -> int | None:
        """Memory that it holds now; None where the system does not tell."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        except (OSError, StackError):
            return None
        found = _RESIDENT.search(status)
        return int(found[1]) * 1024 if found else None

    @property
    def row(self) -> Row:
        """What a report says of it."""
        return Row(self.name, str(self.pid) if self.running else "", self.start_seconds, self.resident_bytes)

    async def start(self) -> None:
        """Start it and wait until it is ready.

        Raises:
            StackError: it ended or was not ready in time; it does not run then.
        """
        if self.running:
            return
        begun = time.monotonic()
        self._process = await self._spawn(self.program, self.log)
        try:
            await self._ready()
        except BaseException:
            await self.kill()
            raise
        self.start_seconds = time.monotonic() - begun

    async def stop(self) -> None:
        """Ask it to end, and end it if it does not."""
        if self._process is not None:
            await stop_process(self._process, self._stop_patience)

    async def kill(self) -> None:
        """End it at once with SIGKILL, as a crash does."""
        if self._process is None:
            return
        if self.running:
            self._process.kill()
            await self._process.wait()
        # What it started lives in its process group; after a crash nothing else ends that.
        await stop_process(self._process, 0)

    async def restart(self) -> None:
        """Stop and start."""
        await self.stop()
        await self.start()

    async def wait_ended(self) -> None:
        """Wait until the process ends."""
        if self._process is not None:
            await self._process.wait()

    @property
    def ending(self) -> str:
        """How the process ended, such as "exited with code 1"; empty while it lives and before its first start."""
        code = self._process.returncode if self._process else None
        if code is None:
            return ""
        return (
            f"exited with code {code}" if code >= 0 else f"was killed by signal {-code} ({signal.Signals(-code).name})"
        )

    def failure(self, what: str) -> StackError:
        """An error about this process that quotes what its log tells."""
        quoted = "\n".join(informative(last_lines(self.log)))
        return StackError(f"{self.name} {what}\nfrom {self.log}:\n{quoted or '(nothing)'}")

    async def _ready(self) -> None:
        missing = ""
        try:
            async with asyncio.timeout(self._start_timeout):
                while missing := await self.program.probe():
                    if not self.running:
                        break
                    await asyncio.sleep(_RETRY)
        except TimeoutError:
            raise self.failure(f"was not ready after {self._start_timeout:g} s: {missing}") from None
        if not self.running:
            raise self.failure(f"{self.ending} before it was ready")
