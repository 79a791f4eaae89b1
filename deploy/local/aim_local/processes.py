"""Child processes that cannot outlive their parent, not even one that was killed with SIGKILL."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
# Loaded before any fork: a child between fork and exec must not take locks.
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


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


def end_with_parent(parent: int) -> bool:
    """Get SIGTERM when our parent ends, however it ends; False if that has happened already.

    Only Linux can do this. Elsewhere we live on.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    return os.getppid() == parent


async def stop_process(process: asyncio.subprocess.Process, patience: float) -> None:
    """Ask the child's whole process group to end, and end what does not within ``patience`` seconds.

    The child must lead a process group of its own (``start_new_session``).
    """
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await process.wait()
    kill_group(process)
    await process.wait()


def kill_group(process: asyncio.subprocess.Process) -> None:
    """End the child and all that it left behind in its process group, at once."""
    _signal_group(process.pid, signal.SIGKILL)


def _signal_group(pid: int, how: signal.Signals) -> None:
    # The group is gone with its last member; it keeps its number as long as one lives.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, how)
