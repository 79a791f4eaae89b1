"""A client and an open registry for each test."""

from collections.abc import AsyncIterator

import pytest
from support.oci import settings, store_with_tags

from aim_local.registry import LocalRegistry
from oci_registry import RegistryClient


@pytest.fixture
async def client() -> AsyncIterator[RegistryClient]:
    async with RegistryClient(settings()) as opened:
        yield opened


@pytest.fixture
async def registry() -> AsyncIterator[LocalRegistry]:
    async with LocalRegistry(store=store_with_tags(), auth=None) as running:
        yield running
