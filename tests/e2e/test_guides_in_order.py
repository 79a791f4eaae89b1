"""The guides one after the other on one platform, in two orders: none takes away what another one made."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from support.shown import DOCS, commands, objects
from support.shown_commands import is_elsewhere, reported_where
from support.stack import OWN, Platform, started_platform, status_of

from controller_runtime import JsonObject

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

_MENU: Final = re.search(r":caption: Guides\n(?::.*\n)*\n([^`]*)```", (DOCS / "index.md").read_text("utf-8"))
_WRITE: Final = re.compile(r"^kubectl (annotate|label|patch|scale|delete) ")
_CONFIG: Final = f"{OWN}/aimclusterruntimeconfigs/default"
_PATIENCE: Final = 60


def menu() -> list[Path]:
    """The pages of the menu *Guides* but the last, which takes over objects of another operator."""
    assert _MENU is not None
    named = [re.sub(r".*<(.*)>", r"\1", line) for line in _MENU[1].split("\n") if line]
    return [DOCS / f"{name}.md" for name in named if name != "migrating"]


def shown_in(page: Path) -> list[JsonObject]:
    """Its objects in namespaces of its own."""
    return [obj for obj in objects(page) if obj["metadata"].get("namespace", "").startswith("guide-")]


def writes_of(page: Path) -> list[str]:
    """Its commands that change its namespaces, or the config of the cluster."""
    own = (" guide-", "/guide-", "aimclusterruntimeconfig default")
    return [
        one
        for one in commands(page)
        if _WRITE.match(one) and not is_elsewhere(one) and any(place in one for place in own)
    ]


def service_path(obj: JsonObject) -> str:
    metadata = obj["metadata"]
    return f"{OWN}/namespaces/{metadata['namespace']}/aimservices/{metadata['name']}"


def left_by(page: Path) -> list[str]:
    """The AIMServices that are there at the end of it."""
    deleted = " ".join(one for one in writes_of(page) if one.startswith("kubectl delete "))
    return [
        service_path(obj)
        for obj in shown_in(page)
        if obj["kind"] == "AIMService" and f" {obj['metadata']['name']} " not in deleted
    ]


async def follow(platform: Platform, page: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Do what a page says, and wait until its services run before its commands change them."""
    shell, shown = reported_where(platform, monkeypatch, folder), shown_in(page)
    for namespace in sorted({obj["metadata"]["namespace"] for obj in shown}):
        await platform.namespace(namespace)
    await shell.prepared(commands(page))
    for obj in shown:
        await platform.api.created(f"{OWN}/namespaces/{obj['metadata']['namespace']}/{obj['kind'].lower()}s", obj)
    for obj in shown:
        if obj["kind"] == "AIMService":
            await platform.running(service_path(obj), _PATIENCE)
    for command in writes_of(page):
        # The mirror of the guide is not here: downloads that follow would rightly fail.
        code, said = await shell.typed(command.replace('"HF_ENDPOINT"', '"HF_ENDPOINT_OF_THE_GUIDE"'))
        assert code == 0, (page.name, command, said)


async def walk(platform: Platform, pages: Sequence[Path], monkeypatch: pytest.MonkeyPatch, folder: Path) -> JsonObject:
    """Follow the pages; the cluster's config at the end, when every service that should be there runs."""
    for page in pages:
        await follow(platform, page, monkeypatch, folder)
    for path in [path for page in pages for path in left_by(page)]:
        await platform.until(path, lambda obj: status_of(obj) == "Running", _PATIENCE)
    config: JsonObject = (await platform.api.get(_CONFIG)).body["spec"]
    return config


@pytest.mark.spec("FW-693", "FW-694")
async def test_no_guide_takes_away_what_another_one_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    pages = menu()
    assert len(pages) >= 9, pages
    assert sum(len(left_by(page)) for page in pages) >= 5
    found = []
    for name, order in (("menu", pages), ("backwards", pages[::-1])):
        folder = tmp_path / name
        folder.mkdir()
        async with started_platform(folder) as platform:
            found.append(await walk(platform, order, monkeypatch, folder))
    assert found[0] == found[1], "the config of the cluster does not depend on the order"
    written = " ".join(
        command for page in pages for command in writes_of(page) if " patch aimclusterruntimeconfig " in command
    )
    fields = {name for name in ("env", "artifactStorageQuota", "gpus") if f'"{name}"' in written}
    assert fields <= found[0].keys()
    assert fields == {"env", "artifactStorageQuota", "gpus"}
