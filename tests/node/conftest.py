"""One node for all tests of a run."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from support.on_node import OnNode, platform_on_node


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests share the event loop of the node's clients, and real programs take their time."""
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            item.add_marker(pytest.mark.timeout(900))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def node() -> AsyncIterator[OnNode]:
    """The platform on a node; see `support.on_node`."""
    async with platform_on_node() as found:
        yield found
