"""What the pages show works as they show it: objects are applied, every AIMService of them runs, commands are run."""

import asyncio
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
import yaml
from support.old_objects import old_body
from support.shown import DOCS, PAGES, ROOT, commands, name_of, objects
from support.shown_commands import ELSEWHERE, is_elsewhere, reported_where
from support.stack import OWN, Platform, status_of

from aim_domain import API_VERSION
from aim_domain.kinds import OWN_KINDS
from aim_packaging.reference.reason_catalogue import REASONS
from aim_packaging.reference.reasons_page import conditions_of
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONCEPTS = sorted((DOCS / "concepts").glob("*.md"))
ELSEWHERE_TESTED = {DOCS / "cli.md", DOCS / "debugging.md", *CONCEPTS}
"""In `test_look_inside`, in `test_debugging_page`; those of the kinds together, below."""
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


def applied(page: Path) -> list[JsonObject]:
    """The objects that belong into namespaces of the page alone; those of the cluster would be for every other test."""
    return [obj for obj in objects(page) if obj["metadata"].get("namespace", "").startswith("guide-")]


async def namespaces(platform: Platform, shown: Sequence[JsonObject]) -> None:
    """Make those of some objects."""
    for namespace in sorted({obj["metadata"]["namespace"] for obj in shown}):
        await platform.namespace(namespace)


async def created_and(platform: Platform, shown: Sequence[JsonObject], ready: Collection[str]) -> None:
    """Make the objects, and wait until those of some kinds are ready."""
    paths = []
    for obj in shown:
        place = f"/apis/{obj['apiVersion']}/namespaces/{obj['metadata']['namespace']}"
        collection = f"{place}/{obj['kind'].lower()}s"
        await platform.api.created(collection, obj)
        if obj["kind"] in ready:
            paths.append(f"{collection}/{obj['metadata']['name']}")
    await asyncio.gather(*(platform.until(path, lambda obj: status_of(obj) in {"Ready", "Running"}) for path in paths))


async def demo_runs(platform: Platform) -> None:
    """The service of the demo, which pages without objects of their own look at, and the namespace of who migrates."""
    path = f"{OWN}/namespaces/demo/aimservices/qwen-chat"
    # Another test of this platform may have applied it.
    for namespace in ("demo", "ml-team"):
        if (await platform.api.get(f"/api/v1/namespaces/{namespace}")).status == 404:
            await platform.namespace(namespace)
    if (await platform.api.get(path)).status == 404:
        await platform.service("demo", "qwen-chat", model={"image": IMAGE})
    await platform.running(path)


def lay_out(folder: Path) -> None:
    """The files of the reader that pages take for granted."""
    (folder / "manifests").mkdir()
    older = old_body("AIMModel", "older", {"image": IMAGE})
    (folder / "manifests" / "model.yaml").write_text(yaml.safe_dump(older), encoding="utf-8")
    config = {
        "apiVersion": API_VERSION,
        "kind": "AIMClusterRuntimeConfig",
        "metadata": {"name": "default"},
        "spec": {"artifactStorageQuota": {"clusterLimit": "50Ti"}},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    shutil.copy(ROOT / "deploy/local/examples/second-service.yaml", folder / "service.yaml")


@pytest.mark.spec("FW-693")
async def test_only_what_pages_show_is_left_to_other_tests() -> None:
    shown = [command for page in PAGES for command in commands(page)]
    assert [one for one in ELSEWHERE if not any(is_elsewhere(command, [one]) for command in shown)] == []


@pytest.mark.spec("FW-693", "FW-694")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=name_of(page)) for page in PAGES if page not in ELSEWHERE_TESTED],
)
async def test_what_a_page_shows_runs(
    platform: Platform, page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown, typed = applied(page), commands(page)
    if not (shown or typed):
        return
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    shell = reported_where(platform, monkeypatch, tmp_path)
    await namespaces(platform, shown)
    await shell.prepared(typed)
    await created_and(platform, shown, {"AIMService"})
    if typed:
        await demo_runs(platform)
        lay_out(tmp_path)
        assert await shell.failures(typed) == {}


@pytest.mark.spec("FW-694", "FW-695")
async def test_what_the_pages_of_the_kinds_show_becomes_ready(platform: Platform) -> None:
    # One leads on to the next: a template to its model, a cache to its template.
    shown = [obj for page in CONCEPTS for obj in applied(page)]
    await namespaces(platform, shown)
    await created_and(platform, shown, {obj["kind"] for obj in shown} - {"AIMRuntimeConfig"})
    assert [command for page in CONCEPTS for command in commands(page)] == []


@pytest.mark.spec("FW-692")
async def test_what_the_objects_of_this_platform_say_is_explained(platform: Platform) -> None:
    known = {reason.name for reasons in REASONS.values() for reason in reasons}
    unknown = set()
    for kind in OWN_KINDS:
        for obj in (await platform.api.get(f"/apis/{kind.api_version}/{kind.plural}")).body["items"]:
            for reported in (obj.get("status") or {}).get("conditions", ()):
                if reported["type"] not in conditions_of(kind.kind) or reported["reason"] not in known:
                    unknown.add((kind.kind, reported["type"], reported["reason"]))
    assert unknown == set()
