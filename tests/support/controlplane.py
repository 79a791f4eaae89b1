"""Fixtures for tests that need a Kubernetes API: the embedded control plane with the project's definitions installed.

Use them in a `conftest.py` with `from support.controlplane import controlplane`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from aim_local.apiserver import ControlPlane

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
"""The generated definitions of the platform's own kinds."""


@pytest_asyncio.fixture
async def controlplane() -> AsyncIterator[ControlPlane]:
    """A control plane on a free port, with the platform's own kinds."""
    async with ControlPlane() as plane:
        plane.install_crds([CRDS])
        yield plane
