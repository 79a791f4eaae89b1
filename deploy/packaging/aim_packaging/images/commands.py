"""The commands `python -m aim_packaging images …`, which `make images` and its like call."""

import http.client
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlencode, urlsplit

import typer
import yaml

from aim_packaging.image_packages import IMAGES
from aim_packaging.images import table
from aim_packaging.images.bases import LOCAL, Bases, bases_for, local_bases
from aim_packaging.images.builders import Build, Builder, ImagesError, cache_folder, find_builder
from aim_packaging.images.layout import INDEX, MANIFEST, Descriptor, Image, Layout, MissingImageError
from controller_runtime import __version__

_SECONDS: Final = 60.0
_ACCEPT: Final = f"{INDEX}, {MANIFEST}"
_REDIRECT_OR_WORSE: Final = 300


@dataclass(frozen=True, slots=True)
class Pushed:
    """What became of an image.

    Attributes:
        sent: bytes of blobs that were uploaded; None when the registry had the image already.
    """

    image: Image
    sent: int | None


@dataclass(slots=True)
class Registry:
    """A registry at `host:port`."""

    address: str
    _places: dict[str, str] = field(default_factory=dict)
    """Digest of a blob → a repository that has it, from where the registry takes it over without a transfer."""

    def push(self, layout: Layout, images: Iterable[Image]) -> Iterator[Pushed]:
        """Push images, and give each when it is there; only what is missing is sent.

        Raises:
            ImagesError: the registry cannot be reached, or refuses.
        """
        for image in images:
            repository, tag = path_of(image.name)
            if self._digest_of(repository, tag) == image.top.digest:
                self._places.update({one.digest: repository for one in (*image.layers, image.config)})
                yield Pushed(image, None)
                continue
            sent = sum(self._push_blob(layout, repository, blob) for blob in (*image.layers, image.config))
            if image.top != image.manifest:
                self._put_manifest(layout, repository, image.manifest.digest, image.manifest)
            self._put_manifest(layout, repository, tag, image.top)
            yield Pushed(image, sent)

    def _digest_of(self, repository: str, tag: str) -> str:
        """Of what a tag stands for; empty when there is no such tag."""
        status, headers = self._send("HEAD", f"/v2/{repository}/manifests/{tag}", headers={"Accept": _ACCEPT})
        return headers.get("Docker-Content-Digest") or "" if status == 200 else ""

    def _push_blob(self, layout: Layout, repository: str, blob: Descriptor) -> int:
        """Bring a blob into a repository; returns the bytes that were sent."""
        status, _ = self._send("HEAD", f"/v2/{repository}/blobs/{blob.digest}")
        source = self._places.setdefault(blob.digest, repository)
        if status == 200:
            return 0
        mount = "" if source == repository else "?" + urlencode({"mount": blob.digest, "from": source})
        status, headers = self._expect("POST", f"/v2/{repository}/blobs/uploads/{mount}")
        if status == 201:
            return 0
        target = urlsplit(headers["Location"])
        query = f"{target.query}&{urlencode({'digest': blob.digest})}".lstrip("&")
        file = layout.blob(blob.digest)
        self._expect("PUT", f"{target.path}?{query}", file, {"Content-Type": "application/octet-stream"})
        return blob.size

    def _put_manifest(self, layout: Layout, repository: str, reference: str, manifest: Descriptor) -> None:
        headers = {"Content-Type": manifest.media_type}
        self._expect("PUT", f"/v2/{repository}/manifests/{reference}", layout.blob(manifest.digest), headers)

    def _expect(
        self, method: str, path: str, body: Path | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, http.client.HTTPMessage]:
        status, found = self._send(method, path, body, headers)
        if status >= _REDIRECT_OR_WORSE:
            raise ImagesError(f"registry {self.address} refused {method} {path.partition('?')[0]}: status {status}")
        return status, found

    def _send(
        self, method: str, path: str, body: Path | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, http.client.HTTPMessage]:
        size = {"Content-Length": str(body.stat().st_size if body else 0)} if method in {"POST", "PUT"} else {}
        try:
            with closing(http.client.HTTPConnection(self.address, timeout=_SECONDS)) as connection:
                if body is None:
                    connection.request(method, path, headers={**size, **(headers or {})})
                else:
                    with body.open("rb") as content:
                        connection.request(method, path, content, {**size, **(headers or {})})
                answer = connection.getresponse()
                answer.read()
                return answer.status, answer.headers
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ImagesError(
                f"registry {self.address} not reachable by plain HTTP: {error}; check the address, or start it"
            ) from error


def path_of(name: str) -> tuple[str, str]:
    """Repository and tag of a name without its host: mirrors of a registry have its paths."""
    path, _, tag = name.rpartition(":")
    host, _, rest = path.partition("/")
    is_host = "." in host or ":" in host or host == "localhost"
    return (rest if is_host else path), tag


NAMES: Final = tuple(IMAGES)
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


def build_images(
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


app = typer.Typer(no_args_is_help=True, help="Build, measure and push the images.")

LAYOUT: Final = Path(".run/oci")
_VALUES: Final = Path("deploy/charts/aim-engine/values.yaml")

_Builder = Annotated[str, typer.Option(help="buildah, podman, docker or a path of one; the first that works")]
_Base = Annotated[str, typer.Option(help="base of the images, or `local` for one of Debian's packages")]
_BuildBase = Annotated[str, typer.Option(help="base of the build stage, where it is another one")]
_Layout = Annotated[Path, typer.Option(help="folder of the images, an OCI image layout")]
_Mirror = Annotated[str, typer.Option(help="mirror of Debian for the base `local`")]


@contextmanager
def _lines() -> Iterator[None]:
    """End with one line where images cannot be built or pushed."""
    try:
        yield
    except (ImagesError, MissingImageError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(1)


@app.command()
def build(
    images: Annotated[list[str] | None, typer.Argument(help="which; without any, all")] = None,
    *,
    builder: _Builder = "",
    base: _Base = "",
    build_base: _BuildBase = "",
    mirror: _Mirror = "",
    repository: Annotated[str, typer.Option(help="of the images, before `-` and the name of each")] = REPOSITORY,
    tag: Annotated[str, typer.Option(help="of the images")] = __version__,
    layout: _Layout = LAYOUT,
) -> None:
    """Build the images of the platform and put them into the layout."""
    wanted = tuple(images or NAMES)
    unknown = [one for one in wanted if one not in NAMES]
    with _lines():
        if unknown:
            raise ImagesError(f"image {unknown[0]} unknown; there are {', '.join(NAMES)}")
        found = find_builder(builder)
        bases = bases_for(found, base, build_base, mirror=mirror)
        place = Layout(layout.absolute())
        begun = time.monotonic()
        for image in build_images(found, Path.cwd(), wanted, bases, place, repository=repository, tag=tag):
            typer.echo(f"{image.name} built ({time.monotonic() - begun:.0f} s): {image.top.digest}")
            begun = time.monotonic()
        with place.locked():
            place.prune()
        names = {name_of(one, repository, tag) for one in wanted}
        for line in table.lines(one for one in place.images() if one.name in names):
            typer.echo(line)


@app.command()
def engines(
    builder: _Builder = "",
    base: _Base = "",
    mirror: _Mirror = "",
    layout: _Layout = LAYOUT,
) -> None:
    """Put the simulated AIM images and the broker into the layout, for demos and tests on a node."""
    from aim_packaging.images.simulated import put_aim_images, put_broker  # noqa: PLC0415  # imports the simulation

    with _lines():
        place = Layout(layout.absolute())
        found = find_builder(builder)
        name = bases_for(found, base, mirror=mirror).engine_base
        with place.locked():
            found.export(name, place)
            for image in (*put_aim_images(place, name), put_broker(place, broker_name(_VALUES))):
                typer.echo(f"{image.name} built: {image.top.digest}")
            place.prune()


def broker_name(values: Path) -> str:
    """The broker's image as the chart's values name it."""
    named = yaml.safe_load(values.read_text(encoding="utf-8"))["nats"]["image"]
    return f"{named['repository']}:{named['tag']}"


@app.command("table")
def show_table(layout: _Layout = LAYOUT) -> None:
    """Print size, own and shared bytes, and layers of each image in the layout."""
    with _lines():
        for line in table.lines(Layout(layout.absolute()).images()):
            typer.echo(line)


@app.command()
def check(
    image: Annotated[str, typer.Argument(help="which")] = "routing",
    builder: _Builder = "",
    base: _Base = "",
    build_base: _BuildBase = "",
    mirror: _Mirror = "",
) -> None:
    """Build an image twice, each time from nothing, and fail where the two have different digests.

    The second build is of a copy with other modes and times. Both are of one state of the checkout.
    """
    place = Path(tempfile.mkdtemp(prefix="aim-images-"))
    with _lines():
        found = find_builder(builder)
        snapshot(Path.cwd(), place / "0", 0o022)
        snapshot(place / "0", place / "1", 0o077)
        name = f"localhost/aim-engine-check-{image}:check"
        built = []
        for turn in ("0", "1"):
            bases = bases_for(found, base, build_base, mirror=mirror)
            if base == LOCAL:
                # The base again as well, of the same archive of packages.
                bases = local_bases(found, cache_folder(), mirror, fresh=True)
            layout = Layout(place / f"layout-{turn}")
            found.build(build_of(image, place / turn, bases, name, fresh=True))
            found.export(name, layout)
            built.append((layout, layout.image(name)))
            typer.echo(f"build {turn} of {image}: {built[-1][1].top.digest}")
        differing = difference(*built)
        for line in differing:
            typer.echo(line, err=True)
        if differing:
            raise ImagesError(f"image {image} not reproducible: two builds differ; compare them in {place}")
    shutil.rmtree(place)


@app.command()
def push(
    to: Annotated[str, typer.Option(help="host:port of a registry that speaks plain HTTP")],
    layout: _Layout = LAYOUT,
) -> None:
    """Push every image of the layout to a registry, except for those that it has."""
    with _lines():
        place = Layout(layout.absolute())
        images = [one for one in place.images() if not one.name.startswith("localhost/")]
        if not images:
            raise ImagesError(f"no images in {layout}; run `make images` first")
        for pushed in Registry(to).push(place, images):
            what = "is there already" if pushed.sent is None else f"pushed, {table.megabytes(pushed.sent)} sent"
            typer.echo(f"{pushed.image.name} {what}")
