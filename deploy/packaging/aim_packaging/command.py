"""The command as its users install it: wheels with a lock, and one file per platform (FW-887)."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from packaging.tags import compatible_tags, cpython_tags, mac_platforms

from controller_runtime import JsonObject

FOLDERS: Final = ("shared/*", "services/*", "deploy/cli", "deploy/console")
"""The packages that the command needs, with its pages: it decides by the code of the services."""
_GLIBC: Final = range(28, 16, -1)
"""Minor versions of glibc 2 whose wheels are taken: what enterprise distributions of 2019 have."""
_MACOS: Final = (13, 0)


@dataclass(frozen=True, slots=True)
class Platform:
    """Where a single file of the command runs.

    Attributes:
        system: ``linux`` or ``macos``.
        machine: as ``uname -m`` prints it.
        pythons: minor versions of Python 3 that can run the file.
    """

    system: str
    machine: str
    pythons: tuple[int, ...] = (11, 12, 13)

    @property
    def file(self) -> str:
        """Name of the file in a release."""
        return f"aim-{self.system}-{self.machine}"

    def complete(self, python: int) -> JsonObject:
        """What pip knows of an interpreter on this platform, in the form of ``pex --complete-platform``."""
        linux = self.system == "linux"
        if linux:
            known = [*(f"manylinux_2_{one}_{self.machine}" for one in _GLIBC), f"linux_{self.machine}"]
        else:
            known = list(mac_platforms(_MACOS, self.machine))
        tags = (*cpython_tags((3, python), platforms=known), *compatible_tags((3, python), f"cp3{python}", known))
        markers = {
            "implementation_name": "cpython",
            "implementation_version": f"3.{python}.0",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux" if linux else "Darwin",
            "platform_version": "",
            "python_full_version": f"3.{python}.0",
            "python_version": f"3.{python}",
            "sys_platform": "linux" if linux else "darwin",
        }
        return {"marker_environment": markers, "compatible_tags": [str(one) for one in tags]}


PLATFORMS: Final = (Platform("linux", "x86_64"), Platform("linux", "aarch64"), Platform("macos", "arm64"))


@contextmanager
def pex_options(lock: str, wheels: Path, platform: Platform) -> Iterator[tuple[str, ...]]:
    """The words after ``pex`` that make the file of a platform.

    Args:
        lock: the libraries with their hashes.
        wheels: the folder of the packages of this repository.
    """
    own = "".join(
        f"{one.name.partition('-')[0]} @ {one.absolute().as_uri()} --hash=sha256:{digest(one)}\n"
        for one in sorted(wheels.glob("*.whl"))
    )
    with TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(lock + own, encoding="utf-8")
        targets = {Path(folder) / f"{one}.json": platform.complete(one) for one in platform.pythons}
        yield (
            *("--requirement", str(requirements), "--script", "aim", "--venv"),
            *("--python-shebang", "/usr/bin/env python3"),
            *(word for file in _write(targets) for word in ("--complete-platform", file)),
        )


def _write(documents: Mapping[Path, JsonObject]) -> Iterator[str]:
    for file, document in documents.items():
        file.write_text(json.dumps(document), encoding="utf-8")
        yield str(file)


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
