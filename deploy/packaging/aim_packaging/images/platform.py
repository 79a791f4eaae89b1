"""The images of the platform: which there are, how they are built, and whether two builds are the same."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from aim_packaging.images.bases import Bases
from aim_packaging.images.builders import Build, Builder
from aim_packaging.images.layout import Image, Layout
from aim_packaging.tree import PACKAGES

NAMES: Final = tuple(PACKAGES)
REPOSITORY: Final = "docker.io/amdenterpriseai/aim-engine"
_CONTAINERFILE: Final = "deploy/images/Containerfile"
_DOWNLOADER: Final = "downloader"


def name_of(image: str, repository: str, tag: str) -> str:
    """The name of an image, e.g. `docker.io/amdenterpriseai/aim-engine-serving:0.1.0`."""
    return f"{repository}-{image}:{tag}"


def build_of(image: str, source: Path, bases: Bases, name: str, *, fresh: bool = False) -> Build:
    """How an image is built of a checkout."""
    version = name.rpartition(":")[2]
    arguments = {
        "IMAGE": image,
        "BASE": bases.base,
        "BUILD_BASE": bases.build_base,
        "VERSION": version,
        "REVISION": revision(source),
    }
    target = _DOWNLOADER if image == _DOWNLOADER else "service"
    return Build(source / _CONTAINERFILE, source, name, target, arguments, fresh)


def revision(source: Path) -> str:
    """The commit of a checkout, with `-dirty` where files differ from it; empty where there is no repository."""
    command = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def build(
    builder: Builder, source: Path, images: Iterable[str], bases: Bases, layout: Layout, *, repository: str, tag: str
) -> Iterator[Image]:
    """Build images one after the other, and give each when it is in the layout.

    One after the other, because two builders on one storage wait for each other, and the first leaves the stages that
    all have in the cache.

    Raises:
        ImagesError: the builder failed.
    """
    for image in images:
        name = name_of(image, repository, tag)
        builder.build(build_of(image, source, bases, name))
        with layout.locked():
            builder.export(name, layout)
        yield layout.image(name)


def snapshot(source: Path, target: Path, umask: int) -> None:
    """Copy what a build is sent, with the times of now and the modes that a checkout has under a umask."""
    ignore = source / ".dockerignore"
    kept = [line[1:] for line in ignore.read_text(encoding="utf-8").splitlines() if line.startswith("!")]
    former = os.umask(umask)
    try:
        for name in (*kept, _CONTAINERFILE, ignore.name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            if (source / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(source / name, target / name, ignore=ignored, copy_function=shutil.copyfile)
            else:
                shutil.copyfile(source / name, target / name)
    finally:
        os.umask(former)


def difference(first: tuple[Layout, Image], second: tuple[Layout, Image]) -> list[str]:
    """What two builds of one image differ in; empty when they are the same."""
    (one_layout, one), (other_layout, other) = first, second
    if one.top.digest == other.top.digest:
        return []
    found = [f"manifest: {one.top.digest} and {other.top.digest}"]
    if one.config.digest != other.config.digest:
        found.append(f"settings: {one.config.digest} and {other.config.digest}")
    layers = zip(one_layout.layers_of(one), other_layout.layers_of(other), strict=False)
    for place, (left, right) in enumerate(layers):
        if left.diff_id != right.diff_id:
            found.append(f"layer {place}: {left.diff_id} and {right.diff_id}")
        elif left.blob.digest != right.blob.digest:
            found.append(f"layer {place}: the same content, compressed differently")
    return found
