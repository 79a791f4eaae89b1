"""A connection can be left at any moment of its making."""

import asyncio

from support.nats import nats_server, settings_for

from controller_runtime.log.broker.connection import connect

__all__ = ["nats_server"]


async def test_a_connection_that_is_being_made_can_be_left(nats_server: str) -> None:
    for step in range(300):
        async with asyncio.timeout(60), connect(settings_for(nats_server)):
            await asyncio.sleep(step * 0.00002)
