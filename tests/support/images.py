"""Images as their file trees: what the Containerfile says about each, and containers that run from them.

`python -m support.images FOLDER` builds all trees; `python -m support.images --check` fails with a line on a
machine that lets no process change its root (`support.pod_root`).
"""

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.containerfile import ROOT, assemble, build_layers, stage, target_of
from support.pod_root import Container, Mount, is_allowed

from aim_packaging import tree

_PYTHON: Final = os.path.realpath(sys.executable)
_PATH: Final = f"{Path(_PYTHON).parent}:/usr/bin:/bin"
# A base image has no packages of its own.
_HIDDEN: Final = (
    "/usr/lib/python3/dist-packages",
    f"/usr/local/lib/python3.{sys.version_info.minor}/dist-packages",
    f"{sys.base_prefix}/lib/python3.{sys.version_info.minor}/site-packages",
)


@dataclass(frozen=True, slots=True)
class Image:
    """One image.

    Attributes:
        tree: what it has beside its base.
        user: number of the user, and of the group.
    """

    tree: Path
    env: Mapping[str, str]
    user: int
    entrypoint: tuple[str, ...]

    def container(
        self,
        root: Path,
        env: Mapping[str, str],
        mounts: Sequence[Mount],
        *,
        command: Sequence[str] = (),
        arguments: Sequence[str] = (),
        hosts: Mapping[str, str] | None = None,
    ) -> Container:
        """A container of it; ``command`` is run in place of its entry point.

        Args:
            root: an empty folder, which only the container sees filled.
        """
        entry = [str(_PYTHON) if one == "python" else one for one in command or self.entrypoint]
        own = [Mount(str(one), f"/{one.name}") for one in sorted(self.tree.iterdir())]
        return Container(
            str(root),
            (*entry, *arguments),
            {"PATH": _PATH, **self.env, **env},
            (*own, *mounts),
            self.user,
            dict(hosts or {}),
            _HIDDEN,
        )


def image(trees: Path, name: str) -> Image:
    """An image whose tree was built.

    Raises:
        AssertionError: it was not.
    """
    folder = trees / name
    assert (folder / tree.LIBRARIES).is_dir(), f"{folder}: no tree; `python -m support.images {trees}` builds it"
    lines = stage(target_of(name))
    env = dict(re.findall(r"(\w+)=(\S+)", " ".join(text for word, text in lines if word == "ENV")))
    reported = dict(lines)
    return Image(folder, env, int(reported["USER"].partition(":")[0]), tuple(json.loads(reported["ENTRYPOINT"])))


def wrapped(container: Container) -> list[str]:
    """The command that becomes the container; it needs `wrapped_env`."""
    return [sys.executable, "-m", "support.pod_root", container.to_json()]


def wrapped_env() -> dict[str, str]:
    """What the wrapping command needs; the container sees nothing of it."""
    return {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT / "tests")}


def given(path: Path, owner: int) -> None:
    """Let the user of a container have a file or folder, as a kubelet does with volumes; only root has to."""
    if os.geteuid() == 0:
        for one in (path, *path.rglob("*")) if path.is_dir() else (path,):
            os.chown(one, owner, owner)


def _build(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        layers = Path(place, "layers")
        asyncio.run(build_layers(layers))
        for name in tree.packages_of(ROOT):
            assemble(name, layers, folder / name)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if is_allowed() else "this machine lets no process change its root")
    _build(Path(sys.argv[1]).absolute())
