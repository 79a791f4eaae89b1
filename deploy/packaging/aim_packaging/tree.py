"""Builds the layers of all images: `python tree.py libraries FOLDER`, then `python tree.py code FOLDER`, in a checkout.

The Containerfile runs this file as it is, in a stage that has Python and pip and nothing else, so it uses the standard
library alone. Everything that an image has beside its base comes from here, with or without a container:

    FOLDER/common           libraries of every image
    FOLDER/several/IMAGE    libraries of this image that at least three images have; empty for most
    FOLDER/shared           the packages of this repository that every image has
    FOLDER/own/IMAGE        the image's own libraries and packages, and its entry points

A layer's digest is that of its files with their modes and times, so both are fixed here: whatever builds it, on
whatever day, one commit gives one digest, and equal layers of two images are one layer for a registry and a node.
"""

import compileall
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final, NamedTuple

SHARED: Final = (
    "shared/controller-runtime/controller_runtime",
    "shared/oci-registry/oci_registry",
    "shared/domain/aim_domain",
    "shared/domain/controller_runtime_names",
)
MODULES: Final = {"downloader": "aim_artifacts.downloader"}
LIBRARIES: Final = "opt/aim/lib"
COMMON: Final = "common"
SEVERAL: Final = "several"
SHARED_CODE: Final = "shared"
OWN: Final = "own"
TIME: Final = 1735689600
"""Of every file, in seconds since 1970: a time of the commit would give each commit layers of its own."""
_BUILDERS: Final = ("setuptools",)
"""What builds the one library (nkeys, pure Python) that has no wheel. A base with Python 3.12 or newer has none."""
_IGNORED: Final = shutil.ignore_patterns("__pycache__", "*.pyc")


def packages_of(source: Path) -> dict[str, tuple[str, ...]]:
    """Image → folders of its packages beside the shared ones; the first is what it runs.

    Each service has an image, and each folder below `services` is one, as this runs where no package is installed.
    """
    found = sorted(one.parent.relative_to(source) for one in source.glob("services/*/aim_*/__main__.py"))
    services = {folder.parent.name: str(folder) for folder in found}
    return {
        **{image: (folder,) for image, folder in services.items()},
        "downloader": (services["artifacts"],),
        # Replay and plan decide by the code of the services.
        "cli": ("deploy/cli/aim_cli", "deploy/console/aim_console", *services.values()),
    }


def module_of(image: str, packages: Sequence[str]) -> str:
    """The module that an image of these packages runs."""
    return MODULES.get(image, Path(packages[0]).name)


def build_libraries(source: Path, layers: Path) -> None:
    """Install what the images have of others, as `requirements.lock` and `packages.json` list it.

    Raises:
        SystemExit: the folder is not empty, or pip fails.
    """
    if layers.exists() and any(layers.iterdir()):
        sys.exit(f"{layers} is not empty")
    images = json.loads((source / "deploy/images/packages.json").read_text(encoding="utf-8"))
    lock = (source / "requirements.lock").read_text(encoding="utf-8")
    parts = split(images)
    with tempfile.TemporaryDirectory() as builders:
        _pip(subset(lock, _BUILDERS), Path(builders))
        _install(subset(lock, parts.common), layers / COMMON, Path(builders))
        installed: dict[tuple[str, ...], Path] = {}
        for image in images:
            _install(subset(lock, parts.own[image]), layers / OWN / image, Path(builders))
            place, names = layers / SEVERAL / image, parts.several[image]
            if names in installed:
                # Links, as the stage that holds all of this is a layer as well, which the builder reads and writes.
                shutil.copytree(installed[names], place, copy_function=os.link)
            else:
                _install(subset(lock, names), place, Path(builders))
                installed[names] = place
    _normalize(layers)


def build_code(source: Path, layers: Path) -> None:
    """Add the packages of this repository, and the entry points, to the layers with the libraries.

    Raises:
        SystemExit: there are no libraries yet.
    """
    if not (layers / COMMON).is_dir():
        sys.exit(f"{layers} has no libraries; run `python tree.py libraries {layers}` first")
    _copy_packages(source, SHARED, layers / SHARED_CODE)
    for image, packages in packages_of(source).items():
        root = layers / OWN / image
        _copy_packages(source, packages, root)
        _start_script(root / "opt/aim/start", module_of(image, packages))
        if image == "downloader":
            _scripts_of_downloader(source, root)
    _normalize(layers)


class Parts(NamedTuple):
    """Names of libraries by the layer that they go into; of an image where they are not common to all."""

    common: tuple[str, ...]
    several: Mapping[str, tuple[str, ...]]
    own: Mapping[str, tuple[str, ...]]


def split(images: Mapping[str, Iterable[str]]) -> Parts:
    """Which library goes into which layer.

    A layer costs a node a mount and a registry a request, so there is one for what at least three images have, not one
    for each combination of images: what two have is in both, and it is small.
    """
    counted = Counter(name for names in images.values() for name in names)
    common = {name for name, count in counted.items() if count == len(images)}
    several = {name for name, count in counted.items() if 3 <= count < len(images)}
    found = {image: set(names) for image, names in images.items()}
    return Parts(
        tuple(sorted(common)),
        {image: tuple(sorted(names & several)) for image, names in found.items()},
        {image: tuple(sorted(names - several - common)) for image, names in found.items()},
    )


def entries(lock: str) -> dict[str, str]:
    """Each requirement of a lock with its hashes, by its name in small letters with hyphens."""
    found = re.split(r"\n(?=[^\s#])", lock.strip())
    return {re.split(r"[=\[ ;]", entry, maxsplit=1)[0].lower().replace("_", "-"): entry for entry in found}


def subset(lock: str, names: Iterable[str]) -> str:
    """What a lock says of some packages."""
    known = entries(lock)
    return "".join(f"{known[name]}\n" for name in names)


def _compile(root: Path) -> None:
    """For a file system that is read-only: nothing in it depends on when and where it was compiled (FW-721)."""
    compileall.compile_dir(
        root / LIBRARIES,
        quiet=2,
        stripdir=str(root),
        prependdir="/",
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )


def _normalize(layers: Path) -> None:
    """Give everything the modes and the time that it has wherever it is built: a checkout has those of its umask.

    What has them is left alone: a container's file system copies each file of a former step that is touched.
    """
    for path in (layers, *layers.rglob("*")):
        found = path.lstat()
        mode = 0o755 if path.is_dir() or found.st_mode & 0o100 else 0o644
        if not path.is_symlink() and stat.S_IMODE(found.st_mode) != mode:
            path.chmod(mode)
        if found.st_mtime != TIME:
            os.utime(path, (TIME, TIME), follow_symlinks=False)


def _copy_packages(source: Path, packages: Iterable[str], root: Path) -> None:
    for package in packages:
        shutil.copytree(source / package, root / LIBRARIES / Path(package).name, ignore=_IGNORED)
    _compile(root)


def _install(lock: str, root: Path, builders: Path) -> None:
    root.mkdir(parents=True)
    if not lock:
        return
    libraries = root / LIBRARIES
    libraries.mkdir(parents=True)
    _pip(lock, libraries, PYTHONPATH=str(builders))
    # Programs of libraries are not needed, and start with the path of the Python that installed them.
    shutil.rmtree(libraries / "bin", ignore_errors=True)
    _compile(root)


def _pip(lock: str, target: Path, **env: str) -> None:
    """Install all that a lock has, by hash; what has to be built is built with what is there."""
    options = (
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
        "--no-compile",
        "--root-user-action=ignore",
        "--prefer-binary",
        "--no-build-isolation",
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "image.lock")
        file.write_text(lock, encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), "-r", str(file)]
        done = subprocess.run(command, check=False, env={**os.environ, **env})  # noqa: S603  # pip, with this lock
    if done.returncode != 0:
        sys.exit("pip could not install what requirements.lock has for the images")


def _start_script(path: Path, module: str) -> None:
    text = f"import runpy\n\nrunpy.run_module({module!r}, run_name='__main__', alter_sys=True)\n"
    path.write_text(text, encoding="utf-8")


def _scripts_of_downloader(source: Path, root: Path) -> None:
    """The other entry points of its contract (AR-700)."""
    for name, place in (("check-size.sh", ""), ("initializer-entrypoint", "storage-initializer/scripts")):
        folder = root / place
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / "deploy/images/bin" / name, folder / name)
        (folder / name).chmod(0o755)


def main(arguments: list[str]) -> None:
    """Build what the command line says.

    Raises:
        SystemExit: it says something else, or building fails.
    """
    match arguments:
        case ["libraries", folder]:
            build_libraries(Path.cwd(), Path(folder))
        case ["code", folder]:
            build_code(Path.cwd(), Path(folder))
        case _:
            sys.exit("usage: python tree.py libraries|code FOLDER")


if __name__ == "__main__":
    main(sys.argv[1:])
