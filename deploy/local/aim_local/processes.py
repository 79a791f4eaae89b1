"""Child processes that cannot outlive their parent, not even one that was killed with SIGKILL."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final, Protocol

_PR_SET_PDEATHSIG: Final = 1
# Loaded before any fork: a child between fork and exec must not take locks.
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


class Child(Protocol):
    """A child process that leads a process group of its own (``start_new_session``)."""

    @property
    def pid(self) -> int:
        """Process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """Exit code, negative after a signal; None while it runs."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    async def wait(self) -> int:
        """Wait for its end; the exit code."""
        ...


def dying_with_parent(how: signal.Signals) -> Callable[[], None]:
    """What a child has to run before it becomes the program (`preexec_fn`): the kernel sends it ``how`` when we die.

    Only Linux can do this. Elsewhere children of a parent killed with SIGKILL live on.
    """
    parent = os.getpid()

    def prepare() -> None:
        if _LIBC is None:
            return
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(how), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def end_with_parent(parent: int, how: signal.Signals = signal.SIGTERM) -> bool:
    """Get a signal when our parent ends, however it ends; False if that has happened already.

    Only Linux can do this. Elsewhere we live on.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(how), 0, 0, 0)
    return os.getppid() == parent


async def stop_process(process: Child, patience: float) -> None:
    """Ask the child's whole process group to end, and end what does not within ``patience`` seconds."""
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await process.wait()
    kill_group(process)
    await process.wait()


def kill_group(process: Child) -> None:
    """End the child and all that it left behind in its process group, at once."""
    _signal_group(process.pid, signal.SIGKILL)


def _signal_group(pid: int, how: signal.Signals) -> None:
    # The group is gone with its last member; it keeps its number as long as one lives.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, how)
