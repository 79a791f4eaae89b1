"""Fixtures for tests of whole services: ``from support.runtime_fixtures import api, controlplane, stage``."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from support.controlplane import RawApi, api, controlplane
from support.services import Platform, platform

from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane

__all__ = ["api", "controlplane", "stage"]

MODELS = "/apis/aim.eai.amd.com/v1alpha1/namespaces/default/aimmodels"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest_asyncio.fixture
async def stage(controlplane: ControlPlane, tmp_path: Path) -> AsyncIterator[Platform]:
    """A broker and a control plane, ready for services."""
    async with platform(tmp_path, controlplane) as running:
        yield running


def model(name: str, image: str, **annotations: str) -> JsonObject:
    """An AIMModel."""
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMModel",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"image": image},
    }


async def seen(api: RawApi, name: str, image: str, within: float = 60.0) -> JsonObject:
    """Wait until the ConfigMap of a model says what was seen; the ConfigMap."""
    reply = await api.until(f"{MAPS}/{name}", lambda r: r.status == 200 and r.body["data"]["seen"] == image, within)
    return reply.body
