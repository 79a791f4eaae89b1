"""The packages of a former release, as the history of this repository has them."""

import asyncio
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PREVIOUS: Final = (Path(__file__).parent / "PREVIOUS").read_text(encoding="ascii").strip()
"""The commit that was released before; whoever releases writes the new one there."""
_FOLDERS: Final = ("services", "shared", "deploy/cli", "deploy/crds", "deploy/charts")


class NoHistoryError(Exception):
    """This checkout does not reach back to the former release."""


async def unpacked(revision: str, folder: Path) -> str:
    """Write the packages of a commit into a folder; returns the `PYTHONPATH` that puts them before those installed.

    Raises:
        NoHistoryError: the checkout has no such commit.
    """
    done = await asyncio.to_thread(
        subprocess.run, ["git", "archive", revision, *_FOLDERS], cwd=ROOT, check=False, capture_output=True
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise NoHistoryError(f"commit {revision} cannot be read ({said}); `git fetch --unshallow` brings the history")
    return await asyncio.to_thread(_extracted, done.stdout, folder)


def _extracted(archive: bytes, folder: Path) -> str:
    with tarfile.open(fileobj=BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return ":".join(str(one.parent) for one in sorted(folder.rglob("pyproject.toml")))
