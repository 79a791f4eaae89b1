"""Builds what the Containerfile says, without a builder: its context, its COPY and its RUN lines.

It understands no more than the Containerfile uses: a COPY of files and folders of the context, a RUN in exec form.
"""

import asyncio
import fnmatch
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_CONTAINERFILE: Final = ROOT / "deploy/images/Containerfile"
_LAYERS: Final = "/layers"
_IMAGE: Final = "${IMAGE}"


def stage(name: str) -> list[tuple[str, str]]:
    """The instructions of a stage."""
    text = re.sub(r"\\\n\s*", " ", _CONTAINERFILE.read_text(encoding="utf-8"))
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    parts = re.split(r"^FROM ", text, flags=re.MULTILINE)
    stages = {one.partition("\n")[0].rpartition(" AS ")[2]: one for one in parts}
    lines = (line.partition(" ") for line in stages[name].splitlines()[1:] if line)
    return [(word, rest.strip()) for word, _, rest in lines]


async def build_layers(folder: Path, python: str = sys.executable) -> None:
    """The layers of all images, from what the stage `build` copies and by what it runs.

    Args:
        folder: where to, in place of the stage's `/layers`.
        python: the interpreter of the base.

    Raises:
        AssertionError: a command of the stage fails.
    """
    with tempfile.TemporaryDirectory() as place:
        copy_context(Path(place))
        for command in commands():
            words = [{"python": python, _LAYERS: str(folder)}.get(word, word) for word in command]
            env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **_pip_settings()}
            process = await asyncio.create_subprocess_exec(*words, cwd=place, env=env)
            assert await process.wait() == 0, f"{command} fails"


def assemble(image: str, layers: Path, tree: Path) -> None:
    """The tree of an image: the layers that its stage copies, one over the other."""
    for source in layers_of(image):
        shutil.copytree(layers / source, tree, dirs_exist_ok=True, symlinks=True)


def layers_of(image: str) -> list[str]:
    """The layers that the stage of an image copies to its root, by their paths below `/layers`."""
    found = []
    for word, rest in stage(target_of(image)):
        if word == "COPY":
            origin, source, target = rest.split()
            assert (origin, target) == ("--from=build", "/"), f"{image} has a COPY that is no layer: {rest}"
            found.append(source.replace(_IMAGE, image).removeprefix(f"{_LAYERS}/"))
    return found


def target_of(image: str) -> str:
    """The stage of an image."""
    return "downloader" if image == "downloader" else "service"


def commands() -> list[list[str]]:
    """The programs that the stage `build` runs, without a shell."""
    return [json.loads(rest) for word, rest in stage("build") if word == "RUN"]


def copy_context(place: Path) -> None:
    """What the stage `build` copies, as far as .dockerignore lets it see it."""
    for word, rest in stage("build"):
        if word == "COPY":
            source, target = rest.split()
            _copy(ROOT / source, place / target)


def _copy(source: Path, target: Path) -> None:
    assert source.exists(), f"there is no {source} to copy"
    files = [source] if source.is_file() else [one for one in source.rglob("*") if one.is_file()]
    for file in files:
        if not is_ignored(file.relative_to(ROOT)):
            goal = target if file == source else target / file.relative_to(source)
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, goal)


def is_ignored(path: Path) -> bool:
    """Whether .dockerignore keeps a file out of the context: the last pattern that fits says so."""
    ignored = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        kept, pattern = line.startswith("!"), line.removeprefix("!")
        if any(_fits(one.parts, tuple(pattern.split("/"))) for one in (path, *path.parents)):
            ignored = not kept
    return ignored


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return any(_fits(parts[skipped:], pattern[1:]) for skipped in range(len(parts)))
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _pip_settings() -> dict[str, str]:
    """Where pip finds packages on this machine."""
    return dict(_named(("PIP_", "HTTP", "http", "SSL_", "REQUESTS_", "NO_PROXY", "no_proxy")))


def _named(starts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in os.environ.items() if name.startswith(starts))
