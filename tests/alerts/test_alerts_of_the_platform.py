"""Alerts that need services of the platform: a source that fails, and storage that is full."""

from pathlib import Path

import pytest
from support.prometheus import watching
from support.stack import OWN, Platform

from aim_local.ports import free_port

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.spec("FW-563")
async def test_a_registry_that_is_not_there(platform: Platform, tmp_path: Path) -> None:
    thresholds = {"AIMEngineModelSyncFails": 0.0, "AIMEngineObjectsFailed": 0.0}
    async with watching(tmp_path, {"model-sync": platform.stack["model-sync"].url}, thresholds) as prometheus:
        await prometheus.is_calm(1, *thresholds)
        source = {
            "apiVersion": "aim.eai.amd.com/v1alpha1",
            "kind": "AIMClusterModelSource",
            "metadata": {"name": "nowhere"},
            "spec": {"registry": f"127.0.0.1:{free_port()}", "filters": [{"image": "a/b", "versions": [">=1.0.0"]}]},
        }
        await platform.api.created(f"{OWN}/aimclustermodelsources", source)
        await prometheus.fires("AIMEngineModelSyncFails", namespace="aim-system")
        await prometheus.fires("AIMEngineObjectsFailed", controller="cluster-model-source")


@pytest.mark.spec("FW-563")
async def test_a_namespace_whose_storage_is_taken(platform: Platform, tmp_path: Path) -> None:
    thresholds = {"AIMEngineStorageFull": 0.95}
    async with watching(tmp_path, {"artifacts": platform.stack["artifacts"].url}, thresholds) as prometheus:
        await prometheus.is_calm(1, *thresholds)
        await platform.namespace("full", **{"aim.eai.amd.com/artifact-storage-quota": "1Gi"})
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "weights", "labels": {"aim.eai.amd.com/cache.name": "weights"}},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await platform.api.created("/api/v1/namespaces/full/persistentvolumeclaims", claim)
        await prometheus.fires("AIMEngineStorageFull", exported_namespace="full")
