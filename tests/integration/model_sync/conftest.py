"""Fixtures of this folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.controlplane import api, controlplane
from support.model_sync_service import running_service

from aim_local.registry import ImageStore, LocalRegistry
from embedded_apiserver import ControlPlane

__all__ = ["api", "controlplane"]


@pytest.fixture
async def registry() -> AsyncIterator[LocalRegistry]:
    content = ImageStore()
    for repository in ("org/aim-a", "org/aim-b", "org/base"):
        for tag in ("0.8.4", "0.8.5", "0.9.0", "latest"):
            content.put(repository, tag)
    async with LocalRegistry(store=content, auth=None) as running:
        yield running


@pytest.fixture
async def service(controlplane: ControlPlane, tmp_path: Path) -> AsyncIterator[None]:
    async with running_service(controlplane, tmp_path):
        yield
