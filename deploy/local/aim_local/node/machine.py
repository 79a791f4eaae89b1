"""`Machine`: where the kernel and its tools show what there is. Tests give a folder and answers of their own."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol


class Run(Protocol):
    """Runs a program of the machine."""

    def __call__(self, name: str, *arguments: str, given: str | None = None) -> str:
        """What it prints; nothing where it is not there or fails."""


def run_program(name: str, *arguments: str, given: str | None = None) -> str:
    """What a program prints; nothing where it is not there or fails.

    What is removed with it is looked for afterwards, so that a failure shows as something that is left.
    """
    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        return ""
    ran = subprocess.run(  # noqa: S603 - names and arguments are this package's
        (path, *arguments), check=False, capture_output=True, text=True, input=given
    )
    return ran.stdout if ran.returncode == 0 else ""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine.

    Attributes:
        root: folder above ``proc``, ``sys``, ``run`` and ``var``.
        run: runs a program.
        kill: sends a signal to a process.
    """

    root: Path = Path("/")
    run: Run = run_program
    kill: Callable[[int, int], None] = os.kill

    def path(self, place: str | Path) -> Path:
        """Where an absolute path is."""
        return self.root / str(place).lstrip("/")

    def lines(self, place: str | Path) -> Sequence[str]:
        """Lines of a file; none where it can't be read."""
        return read_lines(self.path(place))


def read_lines(file: Path) -> Sequence[str]:
    """Lines of a file; none where it can't be read, as one of a process that has ended."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


THIS: Final = Machine()
"""The machine that this runs on."""
