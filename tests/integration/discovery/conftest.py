"""Fixtures of this folder."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from support.cluster import backends
from support.controlplane import api, controlplane

from aim_local.registry import LocalRegistry

__all__ = ["api", "backends", "controlplane"]


@pytest.fixture
async def registry() -> AsyncIterator[LocalRegistry]:
    """A registry with the demo's images."""
    async with LocalRegistry() as running:
        yield running


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grace period of a second instead of ten, and Secrets that are read every third of a second."""
    monkeypatch.setattr("controller_runtime.reconcile.state_engine.GRACE_PERIOD", timedelta(seconds=1))
    for module in ("models.inspection", "templates.discovery"):
        monkeypatch.setattr(f"aim_discovery.{module}.SECRET_INTERVAL", timedelta(seconds=0.3))
