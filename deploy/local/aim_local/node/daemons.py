"""Programs of a node: detached from the command that starts them, found again by what they left in a folder.

A process is known by its number and its start time, so that a number that the kernel has given away again is never
taken for it.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from aim_local.node.requirements import NodeError
from aim_local.supervision.logs import informative, last_lines

_POLL: Final = 0.1
_PATIENCE: Final = 10.0


@dataclass(frozen=True, slots=True)
class Daemon:
    """One program.

    Attributes:
        name: for people, and of its log.
        command: program and arguments.
        ready: empty once it is ready, else what is missing.
        env: variables beside PATH and HOME; nothing else is inherited.
        retried: whether it is started again where it ends before it is ready, as systemd does.
    """

    name: str
    command: Sequence[str]
    ready: Callable[[], str]
    env: Mapping[str, str]
    retried: bool = False


@final
class Daemons:
    """All programs of one node."""

    def __init__(self, pids: Path, logs: Path) -> None:
        """``pids`` has a file for each that was started, ``logs`` their output."""
        self._pids = pids
        self._logs = logs

    def start(self, daemon: Daemon, seconds: float = 180.0) -> None:
        """Start it unless it runs, and wait until it is ready.

        Raises:
            NodeError: it ended, or was not ready in time.
        """
        if self.pid(daemon.name) is None:
            self._spawn(daemon)
        deadline = time.monotonic() + seconds
        while missing := daemon.ready():
            if self.pid(daemon.name) is None:
                if not daemon.retried or time.monotonic() > deadline:
                    raise self._failure(daemon.name, "ended before it was ready")
                self._spawn(daemon)
            if time.monotonic() > deadline:
                raise self._failure(daemon.name, f"not ready after {seconds:g} s: {missing}")
            time.sleep(_POLL)

    def pid(self, name: str) -> int | None:
        """Number of the process; None where it does not run."""
        try:
            record = json.loads((self._pids / name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        # A program that ended at once has no start time, and none that runs is without.
        pid, started = int(record["pid"]), _started(int(record["pid"]))
        return pid if started is not None and started == record["started"] else None

    def names(self) -> list[str]:
        """All that were started and not stopped since, the newest first."""
        if not self._pids.is_dir():
            return []
        files = sorted(self._pids.iterdir(), key=lambda one: one.stat().st_mtime_ns, reverse=True)
        return [one.name for one in files]

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP, SIGCONT or SIGKILL.

        Raises:
            NodeError: it does not run.
        """
        pid = self.pid(name)
        if pid is None:
            raise NodeError(f"{name} not running: it has no process; start the node with `make node`")
        os.kill(pid, number)

    def stop(self, name: str, patience: float = _PATIENCE) -> None:
        """Ask it to end, and end it if it does not; it is forgotten."""
        if (pid := self.pid(name)) is not None:
            _end(pid, lambda: self.pid(name) is None, patience)
        (self._pids / name).unlink(missing_ok=True)

    def _spawn(self, daemon: Daemon) -> None:
        self._pids.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{daemon.name}.log"
        env = {"PATH": _path(), "HOME": str(self._pids.parent), **daemon.env}
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - the table of programs alone
                list(daemon.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        # Its end is seen in /proc: a child that is not waited for would stay there.
        _forgotten.append(process)
        record = {"pid": process.pid, "started": _started(process.pid)}
        (self._pids / daemon.name).write_text(json.dumps(record), encoding="ascii")

    def _failure(self, name: str, what: str) -> NodeError:
        log = self._logs / f"{name}.log"
        quoted = "\n".join(informative(last_lines(log)))
        return NodeError(f"{name} {what}; its log {log} ends with:\n{quoted or '(nothing)'}")


_forgotten: Final[list["subprocess.Popen[bytes]"]] = []
"""Children of this process."""


def _started(pid: int) -> int | None:
    """Start time of a living process in ticks since boot; None for one that has ended."""
    for child in _forgotten:
        if child.pid == pid:
            child.poll()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    # After SIGKILL the first thread may have ended before others, which still hold files and ports.
    has_ended = fields[0] in {"Z", "X"} and int(fields[17]) <= 1
    return None if has_ended else int(fields[19])


def _end(pid: int, has_ended: Callable[[], bool], patience: float) -> None:
    for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, _PATIENCE)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            # A stopped process takes no SIGTERM until it goes on.
            os.kill(pid, signal.SIGCONT)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if has_ended():
                return
            time.sleep(_POLL)


def _path() -> str:
    return ":".join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
