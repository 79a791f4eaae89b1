"""The commands `python -m aim_packaging images …`, which `make images` and its like call."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
import yaml

from aim_packaging.images import table
from aim_packaging.images.bases import LOCAL, bases_for, local_bases
from aim_packaging.images.builders import ImagesError, cache_folder, find_builder
from aim_packaging.images.layout import Layout, MissingImageError
from aim_packaging.images.platform import NAMES, REPOSITORY, build_of, difference, name_of, snapshot
from aim_packaging.images.platform import build as build_images
from aim_packaging.images.registry import Registry
from controller_runtime import __version__

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
        name = bases_for(found, base, mirror=mirror).base
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
