"""Fixtures of the API suite: the control plane, plain HTTP, kubectl, and a small custom kind."""

from collections.abc import AsyncIterator

import pytest_asyncio
from support.suite import SuiteApi, api, kubectl, server
from support.suite_specimen import define_specimens
from support.suite_widgets import DEFINITIONS, define, gadget_crd, widget_crd

__all__ = ["api", "kubectl", "server"]


@pytest_asyncio.fixture
async def widgets(api: SuiteApi) -> SuiteApi:
    """The API with the widget kind, which all tests share."""
    await define(api, widget_crd())
    return api


@pytest_asyncio.fixture
async def specimens(api: SuiteApi) -> SuiteApi:
    """The API with the specimen kind, which all tests share."""
    await define_specimens(api)
    return api


@pytest_asyncio.fixture
async def gadgets(api: SuiteApi) -> AsyncIterator[SuiteApi]:
    """The API with a kind of the test's own, so that its definition can be changed: the widget under other names."""
    crd = gadget_crd()
    await define(api, crd)
    yield api
    await api.delete(f"{DEFINITIONS}/{crd['metadata']['name']}")
