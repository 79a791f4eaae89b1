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
from pathlib import Path
from typing import Final

from aim_packaging.images.builders import ImagesError, find_builder
from aim_packaging.images.layout import Image, Layout

ROOT: Final = Path(__file__).parents[2]
_NEEDED: Final = {"mmdebstrap": "mmdebstrap", "unshare": "util-linux", "docker-registry": "docker-registry"}
"""Programs, with the Debian packages that have them."""
_ENTER: Final = """\
set -e
mount --bind "$1" "$1"
mount --rbind /proc "$1/proc"
mount --bind /dev/null "$1/dev/null"
mount --bind /dev/urandom "$1/dev/urandom"
mount -t tmpfs tmpfs "$1/tmp"
mount -o remount,bind,ro "$1"
root=$1 user=$2
shift 2
exec chroot --userspec="$user" --groups= "$root" "$@"
"""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The files of an image in a folder, and its settings."""

    root: Path
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


def unpack(layout: Layout, image: Image, root: Path) -> Unpacked:
    """Put an image's layers over each other, as a container runtime does."""
    for layer in image.layers:
        with tarfile.open(layout.blob(layer.digest)) as archive:
            archive.extractall(root, filter="tar")
    for name in ("dev/null", "dev/urandom"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    root.chmod(0o755)
    for name in ("proc", "tmp"):
        (root / name).mkdir(exist_ok=True)
    return Unpacked(root, settings(layout, image))


def settings(layout: Layout, image: Image) -> dict[str, object]:
    """What an image says of its containers."""
    found: dict[str, object] = layout.document(image.config.digest)["config"]
    return found


def files(layout: Layout, image: Image) -> Mapping[str, tarfile.TarInfo]:
    """Everything in an image, by its path without a slash before it."""
    found: dict[str, tarfile.TarInfo] = {}
    for layer in image.layers:
        with tarfile.open(layout.blob(layer.digest)) as archive:
            found |= {one.name.removeprefix("./").strip("/"): one for one in archive}
    return found


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
