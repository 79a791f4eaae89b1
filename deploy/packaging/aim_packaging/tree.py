"""Builds the file tree of an image into an empty folder: `IMAGE=serving python tree.py FOLDER`, in a checkout.

The Containerfile runs this file as it is, in a stage that has Python and pip and nothing else; so it uses the standard
library alone. Everything that the image has beside its base comes from here, with or without a container.
"""

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

SHARED: Final = (
    "shared/controller-runtime/controller_runtime",
    "shared/oci-registry/oci_registry",
    "shared/domain/aim_domain",
)
_SERVICES: Final = {
    "model-sync": "services/model-sync/aim_model_sync",
    "discovery": "services/discovery/aim_discovery",
    "artifacts": "services/artifacts/aim_artifacts",
    "serving": "services/serving/aim_serving",
    "routing": "services/routing/aim_routing",
}
PACKAGES: Final = {
    **{image: (folder,) for image, folder in _SERVICES.items()},
    "downloader": (_SERVICES["artifacts"],),
    # Replay and plan decide by the code of the services.
    "cli": ("deploy/cli/aim_cli", *_SERVICES.values()),
}
"""Image → folders of its packages beside the shared ones; the first is what it runs."""
MODULES: Final = {"downloader": "aim_artifacts.downloader"}
LIBRARIES: Final = "opt/aim/lib"
_BUILDERS: Final = ("setuptools",)
"""What builds the one library (nkeys, pure Python) that has no wheel. A base with Python 3.12 or newer has none."""
_IGNORED: Final = shutil.ignore_patterns("__pycache__", "*.pyc")


def module_of(image: str) -> str:
    """The module that an image runs."""
    return MODULES.get(image, Path(PACKAGES[image][0]).name)


def build(image: str, source: Path, root: Path) -> None:
    """Put everything of an image below an empty folder.

    Raises:
        SystemExit: there is no such image, the folder is not empty, or pip fails.
    """
    if image not in PACKAGES:
        sys.exit(f"there is no image {image!r}; there are {', '.join(PACKAGES)}")
    if root.exists() and any(root.iterdir()):
        sys.exit(f"{root} is not empty")
    libraries = root / LIBRARIES
    libraries.mkdir(parents=True)
    names = json.loads((source / "deploy/images/packages.json").read_text(encoding="utf-8"))[image]
    _install((source / "requirements.lock").read_text(encoding="utf-8"), names, libraries)
    for package in (*SHARED, *PACKAGES[image]):
        shutil.copytree(source / package, libraries / Path(package).name, ignore=_IGNORED)
    _start_script(root / "opt/aim/start", module_of(image))
    if image == "downloader":
        _scripts_of_downloader(source, root)
    _compile(libraries, root)


def entries(lock: str) -> dict[str, str]:
    """Each requirement of a lock with its hashes, by its name in small letters with hyphens."""
    found = re.split(r"\n(?=[^\s#])", lock.strip())
    return {re.split(r"[=\[ ;]", entry, maxsplit=1)[0].lower().replace("_", "-"): entry for entry in found}


def subset(lock: str, names: Iterable[str]) -> str:
    """What a lock says of some packages."""
    known = entries(lock)
    return "".join(f"{known[name]}\n" for name in names)


def _compile(libraries: Path, root: Path) -> None:
    """For a file system that is read-only: nothing in it depends on when and where it was compiled (FW-721)."""
    compileall.compile_dir(
        libraries,
        quiet=2,
        stripdir=str(root),
        prependdir="/",
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )


def _install(lock: str, names: Iterable[str], libraries: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        builders = Path(folder, "builders")
        _pip(subset(lock, _BUILDERS), builders)
        _pip(subset(lock, names), libraries, PYTHONPATH=str(builders))
    # Programs of libraries are not needed, and start with the path of the Python that installed them.
    shutil.rmtree(libraries / "bin", ignore_errors=True)


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
        sys.exit("pip could not install what requirements.lock has for the image")


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


if __name__ == "__main__":
    build(os.environ["IMAGE"], Path.cwd(), Path(sys.argv[1]))
