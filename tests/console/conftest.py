"""A browser, consoles of a crowded and of an empty cluster, and where pictures go; no part of `make test`."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.browser import Tab, tab
from support.console_objects import cluster, family
from support.console_site import Site, site

SERVICES = 500


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `AIM_SCREENSHOTS` names, else one that pytest throws away."""
    named = os.environ.get("AIM_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tab]:
    """One for all tests, as its start takes a second."""
    async with tab(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def crowded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Hundreds of services, of which one fails and one is named and told to do harm."""
    objects = (one for obj in cluster(SERVICES) for one in (obj, *family(obj)))
    async with site(tmp_path_factory.mktemp("crowded"), objects) as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def empty(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Nothing at all."""
    async with site(tmp_path_factory.mktemp("empty")) as found:
        yield found
