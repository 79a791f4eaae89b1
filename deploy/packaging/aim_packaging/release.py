"""What a release consists of, in one folder: chart, command, images, bills of materials, notes, checksums (FW-887)."""

import gzip
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from aim_packaging.command import FOLDERS, PLATFORMS, Platform, digest, pex_options
from aim_packaging.image_packages import IMAGES
from aim_packaging.images.commands import name_of
from aim_packaging.images.layout import Image, Layout
from aim_packaging.sbom import sbom
from aim_packaging.tree import TIME, subset
from controller_runtime import JsonObject, __version__

VERSION_FILE: Final = "shared/controller-runtime/controller_runtime/__init__.py"
"""The one place of the version: packages and the chart take it from there."""
CHART: Final = "deploy/charts/aim-engine"
_SUMS: Final = "SHA256SUMS"
_UNRELEASED: Final = "Unreleased"


class ReleaseError(Exception):
    """A release cannot be made as it is asked for."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release of the checkout `source`, into `folder`, with the command for `platforms`."""

    version: str
    source: Path
    folder: Path
    platforms: tuple[Platform, ...] = PLATFORMS

    def check(self) -> None:
        """Look for what would make the release another one than its version says.

        Raises:
            ReleaseError: the version differs, files are not committed, or the folder is not empty.
        """
        if self.version != __version__:
            raise ReleaseError(f"VERSION {self.version} is not {__version__}; set it in {VERSION_FILE}, `make chart`")
        changed = self._git("status", "--porcelain").splitlines()
        if changed:
            raise ReleaseError(f"{changed[0][3:]} is not committed; a release is made of a commit")
        if self.folder.exists() and any(self.folder.iterdir()):
            raise ReleaseError(f"{self.folder} is not empty; delete it")

    def make(self, layout: Layout, repository: str, key: Path | None) -> Iterator[str]:
        """Write all of it, and name each part when it is there.

        Args:
            layout: the images that `make images` built; of another version they are left out.
            repository: what the names of the images begin with.
            key: private key of SSH that signs the checksums; ``None`` = no signature.

        Raises:
            ReleaseError: a part cannot be made.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        yield self.chart()
        yield from self._command()
        yield self._images(layout, repository)
        yield self._sboms()
        yield self._notes()
        yield self._sums()
        if key is not None:
            self._run("ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", str(key), str(self.folder / _SUMS))
            yield f"{_SUMS}.sig"

    def chart(self) -> str:
        """Write the chart's package; its name."""
        name, root = f"aim-engine-{self.version}.tgz", self.source / CHART
        files = ((f"aim-engine/{path.relative_to(root)}", path) for path in _files(root))
        buffer = io.BytesIO()
        _write_tar(buffer, files)
        (self.folder / name).write_bytes(gzip.compress(buffer.getvalue(), mtime=TIME))
        return name

    def _command(self) -> Iterator[str]:
        wheels = self.folder / "wheels"
        folders = [str(one) for pattern in FOLDERS for one in sorted(self.source.glob(pattern))]
        self._run(
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
            *("--disable-pip-version-check", "--wheel-dir", str(wheels), *folders),
        )
        yield "wheels/"
        lock = subset((self.source / "requirements.lock").read_text("utf-8"), self._image_packages()["cli"])
        (self.folder / "aim-requirements.txt").write_text(lock, encoding="utf-8")
        yield "aim-requirements.txt"
        for platform in self.platforms:
            file = str(self.folder / platform.file)
            with pex_options(lock, wheels, platform) as options:
                self._run(sys.executable, "-m", "pex", *options, "--output-file", file)
            yield platform.file

    def _images(self, layout: Layout, repository: str) -> str:
        images = images_of(layout, repository, self.version)
        build = f"run `make images TAG={self.version}` before"
        if missing := sorted(IMAGES.keys() - images.keys()):
            return f"no images: {layout.folder} has no {name_of(missing[0], repository, self.version)}; {build}"
        commit = self._git("rev-parse", "HEAD").strip()
        other = [one.name for one in images.values() if revision_of(layout, one) != commit]
        if other:
            return f"no images: {other[0]} is not of commit {commit[:12]}; {build}"
        with (self.folder / "images.tar").open("wb") as file:
            _write_tar(file, _layout_files(layout, images.values()))
        values = yaml.safe_dump(values_of(images, repository), sort_keys=False)
        (self.folder / "values-images.yaml").write_text(values, encoding="utf-8")
        return "images.tar, values-images.yaml"

    def _sboms(self) -> str:
        (self.folder / "sbom").mkdir()
        lock = (self.source / "requirements.lock").read_text("utf-8")
        for image, names in self._image_packages().items():
            text = sbom(image, names, lock, self.version)
            (self.folder / "sbom" / f"{image}.spdx.json").write_text(text, encoding="utf-8")
        return "sbom/"

    def _notes(self) -> str:
        text = notes((self.source / "CHANGELOG.md").read_text("utf-8"), self.version)
        (self.folder / "NOTES.md").write_text(text, encoding="utf-8")
        return "NOTES.md"

    def _sums(self) -> str:
        named = sorted(one.relative_to(self.folder) for one in self.folder.rglob("*") if one.is_file())
        lines = (f"{digest(self.folder / one)}  {one}\n" for one in named)
        (self.folder / _SUMS).write_text("".join(lines), encoding="utf-8")
        return _SUMS

    def _image_packages(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = json.loads((self.source / "deploy/images/packages.json").read_text("utf-8"))
        return found

    def _git(self, *words: str) -> str:
        return self._run("git", "-C", str(self.source), *words)

    def _run(self, *words: str) -> str:
        if shutil.which(words[0]) is None:
            raise ReleaseError(f"{words[0]} is not installed; install it")
        done = subprocess.run(words, check=False, capture_output=True, text=True)  # noqa: S603  # fixed programs
        if done.returncode != 0:
            raise ReleaseError(f"{Path(words[0]).name} {words[1]} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout


def images_of(layout: Layout, repository: str, version: str) -> dict[str, Image]:
    """The images of a version in a layout, by their short names; those that are missing are left out."""
    known = {one.name: one for one in layout.images()}
    wanted = {name: name_of(name, repository, version) for name in IMAGES}
    return {name: known[called] for name, called in wanted.items() if called in known}


def revision_of(layout: Layout, image: Image) -> str:
    """The commit that an image was built of; empty where it does not say."""
    labels = layout.document(image.config.digest).get("config", {}).get("Labels") or {}
    return str(labels.get("org.opencontainers.image.revision") or "")


def notes(changelog: str, version: str) -> str:
    """The part of the changelog about a version, or about what is not released yet.

    Raises:
        ReleaseError: it has neither.
    """
    parts = dict(re.findall(r"^## \[?([^\]\s]+)\]?[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL))
    found = parts.get(version) or parts.get(_UNRELEASED)
    if found is None:
        raise ReleaseError(f"CHANGELOG.md has no section {version}; add it")
    return f"# AIM Engine {version}\n\n{found.strip()}\n"


def values_of(images: dict[str, Image], repository: str) -> JsonObject:
    """The values by which the chart names each image by its digest."""

    def image(name: str) -> JsonObject:
        return {"image": {"repository": f"{repository}-{name}", "digest": images[name].top.digest}}

    services = {name: image(name) for name in images if name not in ("cli", "downloader")}
    return {
        "manager": {"image": {"repository": repository}},
        "services": {**services, "console": image("cli")},
        "check": image("cli"),
        "downloader": image("downloader"),
    }


def _layout_files(layout: Layout, images: Iterable[Image]) -> Iterator[tuple[str, Path | bytes]]:
    """The files of a layout that has these images alone."""
    some = list(images)
    yield "oci-layout", b'{"imageLayoutVersion": "1.0.0"}'
    entries = [{**one.top.entry(), "annotations": {"org.opencontainers.image.ref.name": one.name}} for one in some]
    yield "index.json", json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    blobs = {blob.digest for image in some for blob in (image.top, image.manifest, image.config, *image.layers)}
    for one in sorted(blobs):
        yield f"blobs/{one.replace(':', '/')}", layout.blob(one)


def _write_tar(file: io.BufferedIOBase, files: Iterable[tuple[str, Path | bytes]]) -> None:
    """The same files give the same archive at any time."""
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.mode = TIME, 0o644
            entry.size = len(content) if isinstance(content, bytes) else content.stat().st_size
            if isinstance(content, bytes):
                archive.addfile(entry, io.BytesIO(content))
            else:
                with content.open("rb") as source:
                    archive.addfile(entry, source)


def _files(root: Path) -> Iterator[Path]:
    """All files below a folder, also behind links, as those of the chart to the definitions."""
    for path in sorted(root.iterdir()):
        if path.is_dir():
            yield from _files(path)
        else:
            yield path
