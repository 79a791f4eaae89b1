"""Which lines of a process's log tell why it ended."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from controller_runtime import loads

_TAIL_BYTES: Final = 16 * 1024
_MOST: Final = 15
"""Lines quoted when they complain; a traceback of Python needs about that many."""
_OTHERWISE: Final = 3
_ROUTINE_LEVELS: Final = frozenset({"debug", "info"})
_ROUTINE_OF_BROKER: Final = re.compile(r"\[(?:INF|DBG|TRC)\]")


def last_lines(log: Path) -> list[str]:
    """The end of a log; empty if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def informative(lines: Sequence[str]) -> list[str]:
    """The last lines that complain; without any, the very last lines."""
    complaints = [line for line in lines if line.strip() and not _is_routine(line)]
    return complaints[-_MOST:] or list(lines[-_OTHERWISE:])


def _is_routine(line: str) -> bool:
    """Whether it is a line of everyday work; what is no log record, such as a traceback, is not."""
    if not line.startswith("{"):
        return _ROUTINE_OF_BROKER.search(line) is not None
    try:
        record = loads(line)
    except ValueError:
        return False
    return record.get("level") in _ROUTINE_LEVELS
