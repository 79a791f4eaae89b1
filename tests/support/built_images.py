"""Images as a builder made them, run as a node runs them: their own root, read-only, as their own user.

`python -m support.built_images` prints one line, and fails, where this machine cannot build or run them.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from aim_packaging.images.builders import ImagesError, find_builder
from aim_packaging.images.layout import Image, Layout

ROOT: Final = Path(__file__).parents[2]
_NEEDED: Final = {"mmdebstrap": "mmdebstrap", "unshare": "util-linux", "docker-registry": "docker-registry"}
"""Programs, with the Debian packages that have them."""
_ENTER: Final = """\
set -e
root=$1 layers=$2 user=$3
shift 3
mount -t overlay overlay -o "ro,lowerdir=$layers" "$root"
mount --rbind /proc "$root/proc"
mount --bind /dev/null "$root/dev/null"
mount --bind /dev/urandom "$root/dev/urandom"
mount -t tmpfs tmpfs "$root/tmp"
exec chroot --userspec="$user" --groups= "$root" "$@"
"""
"""Mounts are of a namespace of the process, and end with it."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An image whose layers are folders, and its settings.

    Attributes:
        root: an empty folder, over which a container's file system is mounted for its processes alone.
        layers: the topmost first.
    """

    root: Path
    layers: tuple[Path, ...]
    settings: dict[str, object]

    @property
    def user(self) -> str:
        """User and group, e.g. `65532:65532`."""
        return str(self.settings["User"])

    def command(self, *arguments: str, entrypoint: Sequence[str] | None = None) -> list[str]:
        """What becomes a container of it; needs root."""
        own = self.settings["Entrypoint"]
        assert isinstance(own, list)
        words = [*(own if entrypoint is None else entrypoint), *arguments]
        return [
            "unshare",
            "--mount",
            "--propagation=private",
            "sh",
            "-c",
            _ENTER,
            "enter",
            str(self.root),
            ":".join(str(one) for one in self.layers),
            self.user,
            *words,
        ]

    def env(self, **more: str) -> dict[str, str]:
        """The image's variables, with more."""
        own = self.settings["Env"]
        assert isinstance(own, list)
        return {**dict(one.split("=", 1) for one in own), **more}

    def run(
        self, *arguments: str, entrypoint: Sequence[str] | None = None, **env: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""
        command = self.command(*arguments, entrypoint=entrypoint)
        return subprocess.run(command, env=self.env(**env), capture_output=True, text=True, timeout=120, check=False)


class Unpacker:
    """Unpacks the layers of a layout into a folder, each once."""

    def __init__(self, layout: Layout, folder: Path) -> None:
        self._layout = layout
        self._folder = folder
        # What a container runtime brings.
        for name in ("proc", "tmp", "dev"):
            (folder / "runtime" / name).mkdir(parents=True)
        for name in ("null", "urandom"):
            (folder / "runtime/dev" / name).touch()
        # Each user of an image enters it.
        for path in (folder, folder / "runtime"):
            path.chmod(0o755)

    def unpack(self, image: Image) -> Unpacked:
        """An image that can be run."""
        root = self._folder / "roots" / image.config.digest.partition(":")[2]
        root.mkdir(parents=True, exist_ok=True)
        layers = (self._folder / "runtime", *(self._layer(one.digest) for one in reversed(image.layers)))
        return Unpacked(root, layers, settings(self._layout, image))

    def _layer(self, digest: str) -> Path:
        place = self._folder / digest.partition(":")[2][:16]
        if not place.exists():
            place.mkdir(mode=0o755)
            with tarfile.open(self._layout.blob(digest)) as archive:
                archive.extractall(place, filter="tar")
        return place


def settings(layout: Layout, image: Image) -> dict[str, object]:
    """What an image says of its containers."""
    found: dict[str, object] = layout.document(image.config.digest)["config"]
    return found


def files(layout: Layout, image: Image) -> Mapping[str, tarfile.TarInfo]:
    """Everything in an image, by its path without a slash before it."""
    found: dict[str, tarfile.TarInfo] = {}
    for layer in image.layers:
        found |= _entries(layout.blob(layer.digest))
    return found


@cache
def _entries(blob: Path) -> Mapping[str, tarfile.TarInfo]:
    with tarfile.open(blob) as archive:
        return {one.name.removeprefix("./").strip("/"): one for one in archive}


def images(*arguments: str) -> None:
    """Run `python -m aim_packaging images …` in this checkout."""
    subprocess.run([sys.executable, "-m", "aim_packaging", "images", *arguments], cwd=ROOT, check=True)


def problem() -> str:
    """Why this machine cannot do it; empty where it can."""
    if os.geteuid() != 0:
        return "not root: images are run with a root of their own; run `make test-built-images` as root"
    for program, package in _NEEDED.items():
        if shutil.which(program) is None:
            return f"{program} is not on the PATH; install the Debian package {package}"
    try:
        find_builder(os.environ.get("BUILDER", ""))
    except ImagesError as error:
        return str(error)
    return ""


def main() -> int:
    """Print what is missing; 1 if something is."""
    found = problem()
    if found:
        print(f"built images not tested: {found}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
