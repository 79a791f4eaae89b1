"""`python -m aim_packaging chart`: writes the generated files of the charts, or checks them."""

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from aim_packaging.images.commands import LAYOUT, REPOSITORY
from aim_packaging.images.commands import app as images_app
from aim_packaging.images.layout import Layout as ImageLayout
from controller_runtime.log import DEFAULT_ROOT, Layout

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(images_app, name="images")


@app.callback()
def _main() -> None:
    """What installs the platform on a cluster."""


def _refuse(outdated: Collection[Path], command: str) -> None:
    for path in outdated:
        typer.echo(f"{path} is not up to date; run `{command}`", err=True)
    if outdated:
        sys.exit(1)


@app.command()
def chart(
    folder: Annotated[Path, typer.Argument(help="folder of the charts")] = Path("deploy/charts"),
    check: Annotated[bool, typer.Option(help="only tell what is not up to date")] = False,
) -> None:
    """Write permissions and broker users into the chart."""
    from aim_packaging.chart import outdated, write  # noqa: PLC0415  # imports all services

    if not check:
        write(folder)
    else:
        _refuse(outdated(folder), "make chart")


@app.command()
def reference(
    folder: Annotated[Path, typer.Argument(help="folder of the pages")] = Path("docs/reference"),
    check: Annotated[bool, typer.Option(help="only tell what is not up to date")] = False,
) -> None:
    """Write the reference pages and pictures of the documentation."""
    from aim_packaging.reference.pages import outdated, write  # noqa: PLC0415  # imports all services

    if not check:
        write(folder)
    else:
        _refuse(outdated(folder), "make reference")


@app.command()
def manifests(
    helm: Annotated[Path, typer.Option(help="the helm to render with")],
    folder: Annotated[Path, typer.Argument(help="where to write")] = Path("deploy/manifests"),
    chart: Annotated[Path, typer.Option(help="the chart")] = Path("deploy/charts/aim-engine"),
) -> None:
    """Write plain manifests for `kubectl apply -k`."""
    from aim_packaging.manifests import manifests as rendered  # noqa: PLC0415

    for name, text in rendered(helm, chart).items():
        (folder / name).write_text(text, encoding="utf-8")


@app.command()
def image_packages(
    file: Annotated[Path, typer.Argument(help="where it is written")] = Path("deploy/images/packages.json"),
    check: Annotated[bool, typer.Option(help="only tell whether it is up to date")] = False,
) -> None:
    """Write which packages of the lock go into each image."""
    from aim_packaging.image_packages import packages_json  # noqa: PLC0415

    if not check:
        file.write_text(packages_json(), encoding="utf-8")
    elif not file.is_file() or file.read_text(encoding="utf-8") != packages_json():
        _refuse([file], "make image-packages")


@app.command()
def sbom(
    folder: Annotated[Path, typer.Argument(help="where to write a file per image")],
    lock: Annotated[Path, typer.Option(help="the lock of everything")] = Path("requirements.lock"),
    images: Annotated[Path, typer.Option(help="which packages each image has")] = Path("deploy/images/packages.json"),
) -> None:
    """Write the bill of materials (SPDX) of each image."""
    from aim_packaging.sbom import sbom as document  # noqa: PLC0415
    from controller_runtime import __version__  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    text = lock.read_text(encoding="utf-8")
    for image, names in json.loads(images.read_text(encoding="utf-8")).items():
        (folder / f"{image}.spdx.json").write_text(document(image, names, text, __version__), encoding="utf-8")


@app.command()
def release(
    version: Annotated[str, typer.Argument(help="that of the checkout")],
    folder: Annotated[Path, typer.Option(help="where to write it; a folder of the version is made in it")] = Path(
        "dist"
    ),
    repository: Annotated[str, typer.Option(help="what names of images begin with")] = REPOSITORY,
    key: Annotated[Path | None, typer.Option(help="private SSH key that signs the checksums")] = None,
) -> None:
    """Make everything that a release has, of the commit that is checked out."""
    from aim_packaging.release import Release, ReleaseError  # noqa: PLC0415

    made = Release(version, Path.cwd(), folder / version)
    try:
        made.check()
        for part in made.make(ImageLayout(LAYOUT.absolute()), repository, key):
            typer.echo(f"{made.folder}: {part}")
    except ReleaseError as error:
        typer.echo(f"release {version} not made: {error}", err=True)
        sys.exit(1)


@app.command()
def site(
    built: Annotated[Path, typer.Argument(help="the site that `make docs` built")],
    folder: Annotated[Path, typer.Argument(help="where the documentation of all releases is")],
) -> None:
    """Put the documentation of this release beside that of others."""
    from aim_packaging.site import publish  # noqa: PLC0415
    from controller_runtime import __version__  # noqa: PLC0415

    typer.echo(f"{folder}: {', '.join(publish(built, folder, __version__))}")


@app.command()
def nats_keys(
    folder: Annotated[Path, typer.Argument(help="where to write secrets.yaml and values.yaml")],
    namespace: Annotated[str, typer.Option(help="of the release")] = "aim-system",
    root: Annotated[str, typer.Option(help="of all names on the broker: the value nats.root")] = DEFAULT_ROOT,
    account: Annotated[str, typer.Option(help="for your own broker: also write the account as accounts.conf")] = "",
) -> None:
    """Make an NKey for each user of the broker: Secrets to apply, and values for the chart with the public keys."""
    from aim_packaging.broker import account as account_of  # noqa: PLC0415
    from aim_packaging.broker import reader, user_of  # noqa: PLC0415
    from aim_packaging.keys import manifests as made  # noqa: PLC0415
    from aim_packaging.keys import new_key  # noqa: PLC0415
    from aim_packaging.services import definitions  # noqa: PLC0415  # imports all services

    layout = Layout(root)
    users = [reader(layout), *(user_of(one, layout) for one in definitions())]
    keys = {user.name: new_key() for user in users}
    secrets, values = made("aim-engine-nats-", namespace, keys)
    folder.mkdir(parents=True, exist_ok=True)
    if account:
        block = account_of(account, ((user, keys[user.name].public) for user in users))
        (folder / "accounts.conf").write_text(f"accounts: {json.dumps(block, indent=2)}\n", encoding="utf-8")
    file = folder / "secrets.yaml"
    file.touch(mode=0o600, exist_ok=False)
    file.write_text(secrets, encoding="utf-8")
    (folder / "values.yaml").write_text(values, encoding="utf-8")


if __name__ == "__main__":
    app()
