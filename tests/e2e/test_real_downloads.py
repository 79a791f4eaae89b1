"""Weights from a Hub and from a real S3 store, by the downloader that the image runs."""

import os
from pathlib import Path

import pytest
from support.downloads import FakeHub, serving
from support.object_store import ObjectStore, object_store
from support.stack import OWN, Platform, status_of

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

MIB = 1 << 20


def env(variables: dict[str, str]) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in variables.items()]


async def make_artifact(
    platform: Platform, namespace: str, name: str, uri: str, variables: dict[str, str], **spec: object
) -> str:
    """Make an artifact; returns its path."""
    body: JsonObject = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMArtifact",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"sourceUri": uri, "env": env(variables), **spec},
    }
    collection = f"{OWN}/namespaces/{namespace}/aimartifacts"
    await platform.api.created(collection, body)
    return f"{collection}/{name}"


def files_of(platform: Platform, artifact: JsonObject) -> dict[str, bytes]:
    volumes = platform.stack.settings.folder / "data" / "volumes"
    folder = volumes / artifact["metadata"]["namespace"] / artifact["status"]["persistentVolumeClaim"]
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if not name.startswith(".cache/")}


def reasons(artifact: JsonObject) -> dict[str, str]:
    return {one["type"]: one["reason"] for one in artifact["status"]["conditions"]}


@pytest.mark.spec("AR-155", "AR-302", "AR-309", "AR-735", "AR-756", "SC-055", "AR-350", "AR-362")
async def test_from_a_real_store(platform: Platform, tmp_path: Path) -> None:
    await platform.namespace("bucket")
    files = {"config.json": b"{}", "weights/a.safetensors": os.urandom(3 * MIB), "weights/b.bin": os.urandom(MIB)}
    async with object_store(tmp_path / "store") as store:
        for name, content in files.items():
            store.put(f"org/tiny/{name}", content)
        path = await make_artifact(platform, "bucket", "from-s3", "s3://models/org/tiny", store.variables)
        made = await platform.until(path, lambda obj: status_of(obj) == "Ready")
        await _refused_then_repaired(platform, store, files)
    assert files_of(platform, made) == files
    total = sum(map(len, files.values()))
    assert made["status"]["discoveredSizeBytes"] == total
    assert made["status"]["progress"]["downloadedBytes"] == made["status"]["progress"]["totalBytes"] == total
    assert made["status"]["download"]["protocol"] == "S3"


async def _refused_then_repaired(platform: Platform, store: ObjectStore, files: dict[str, bytes]) -> None:
    wrong = store.variables | {"AWS_SECRET_ACCESS_KEY": "of-somebody-else"}
    path = await make_artifact(platform, "bucket", "refused", "s3://models/org/tiny", wrong, size="1Gi")
    failed = await platform.until(path, lambda obj: status_of(obj) == "Failed")
    assert reasons(failed)["AuthValid"] == "AuthError"
    assert "of-somebody-else" not in str(failed["status"])
    await platform.api.merge(path, {"spec": {"env": env(store.variables)}})
    made = await platform.until(path, lambda obj: status_of(obj) == "Ready")
    assert files_of(platform, made) == files


@pytest.mark.spec("AR-155", "AR-403", "AR-755", "AR-757", "SC-029", "SC-050", "SC-054")
async def test_from_a_hub_that_sends_other_bytes_at_first(platform: Platform) -> None:
    await platform.namespace("hub")
    hub = FakeHub(
        files={"config.json": b"{}", "model.safetensors": os.urandom(2 * MIB), "original/extra.pth": b"x" * MIB},
        large={"model.safetensors"},
    )
    hub.faults.corrupt = {"model.safetensors"}
    async with serving(hub):
        path = await make_artifact(platform, "hub", "from-hub", "hf://org/model", {"HF_ENDPOINT": hub.url})
        made = await platform.until(path, lambda obj: status_of(obj) == "Ready")
    expected = {name: content for name, content in hub.files.items() if not name.startswith("original/")}
    assert files_of(platform, made) == expected
    assert made["status"]["discoveredSizeBytes"] == sum(map(len, expected.values()))
    assert hub.downloads.count("model.safetensors") == 2, "the second pod fetched what was wrong, and only that"
    assert hub.downloads.count("config.json") == 1
