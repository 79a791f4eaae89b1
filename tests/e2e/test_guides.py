"""What the guides show works as they show it: their objects are applied, and every AIMService of them runs."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml
from support.stack import OWN, Platform

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

GUIDES = sorted((Path(__file__).parents[2] / "docs" / "guides").glob("*.md"))
_OBJECTS = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def objects_of(guide: Path) -> list[JsonObject]:
    """The objects of a namespace that a guide shows; those of the cluster would be for every other test as well."""
    blocks = _OBJECTS.findall(guide.read_text(encoding="utf-8"))
    shown = [obj for block in blocks for obj in yaml.safe_load_all(block) if "apiVersion" in obj]
    return [obj for obj in shown if "namespace" in obj["metadata"]]


async def secrets(platform: Platform, namespace: str) -> None:
    """Those that guides name."""
    credentials = '{"auths": {"ghcr.io": {"auth": "cm9ib3Q6c2VjcmV0"}}}'
    for name, kind, data in (
        ("registry-pull", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": credentials}),
        ("hugging-face", "Opaque", {"token": "hf_0"}),
    ):
        body = {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name}, "stringData": data}
        await platform.api.created(f"/api/v1/namespaces/{namespace}/secrets", body)


@pytest.mark.parametrize("guide", [pytest.param(guide, id=guide.stem) for guide in GUIDES])
async def test_what_a_guide_shows_runs(platform: Platform, guide: Path) -> None:
    objects = objects_of(guide)
    for namespace in sorted({obj["metadata"]["namespace"] for obj in objects}):
        await platform.namespace(namespace)
        await secrets(platform, namespace)
    services = []
    for obj in objects:
        collection = f"{OWN}/namespaces/{obj['metadata']['namespace']}/{obj['kind'].lower()}s"
        await platform.api.created(collection, obj)
        if obj["kind"] == "AIMService":
            services.append(platform.running(f"{collection}/{obj['metadata']['name']}"))
    await asyncio.gather(*services)
