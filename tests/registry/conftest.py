"""The program under test, and clients for it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.controlplane import api, controlplane
from support.docker_registry import obtain
from support.oci import settings

from oci_registry import RegistryClient

__all__ = ["api", "controlplane"]


@pytest.fixture(scope="session")
def program() -> Path:
    return obtain()


@pytest.fixture
async def client() -> AsyncIterator[RegistryClient]:
    async with RegistryClient(settings()) as opened:
        yield opened
