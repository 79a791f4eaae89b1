"""Programs of Debian packages that tests run against.

Nothing is installed: without the program on the PATH its package is downloaded and unpacked in a cache folder.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

_APT_SECONDS: Final = 180.0


class UnavailableError(RuntimeError):
    """The program is not there, and it cannot be had."""


def cache_folder(package: str) -> Path:
    """Where the programs of a package stay between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "aim-engine" / package


def obtain(package: str, name: str = "") -> Path:
    """A program, from the PATH, the cache folder, or the package index of this Debian.

    Args:
        name: of the program; default is that of its package.

    Raises:
        UnavailableError: with the reason in one line.
    """
    name = name or package
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    program = cache_folder(package) / name
    if not program.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise UnavailableError("it is not on the PATH, and without apt-get its package cannot be downloaded")
        _unpack(package, program)
    return program


def obtain_library(package: str, name: str) -> Path:
    """A shared library, of this system, the cache folder, or the package index of this Debian.

    Args:
        name: below the folder of the libraries of this machine's architecture.

    Raises:
        UnavailableError: with the reason in one line.
    """
    inside = Path("usr/lib/x86_64-linux-gnu", name)
    if Path("/", inside).exists():
        return Path("/", inside)
    library = cache_folder(package) / inside.name
    if not library.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise UnavailableError("it is not installed, and without apt-get its package cannot be downloaded")
        _unpack(package, library, inside)
    return library


def _unpack(package: str, program: Path, inside: Path | None = None) -> None:
    """Put the program of the package there, at once and whole: what an interruption leaves is not taken for it."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        folder = Path(scratch)
        _run(["dpkg", "-x", str(_package(package, folder)), str(folder)], folder)
        (folder / (inside or Path("usr/bin", program.name))).replace(program)


def _package(package: str, folder: Path) -> Path:
    """Download the package; with lists of our own where those of the system are missing or too old."""
    (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    own = ["-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache"]
    try:
        _run(["apt-get", "download", package], folder)
    except UnavailableError:
        _run(["apt-get", *own, "update"], folder)
        _run(["apt-get", *own, "download", package], folder)
    return next(folder.glob(f"{package}_*.deb"))


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=_APT_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        raise UnavailableError(f"`{' '.join(command)}` failed: {said[-1] if said else error}") from error
