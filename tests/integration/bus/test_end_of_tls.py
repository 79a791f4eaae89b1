"""What asyncio has to say of the broker's connection, on a real server with TLS."""

import asyncio
import logging
from pathlib import Path

import pytest
from support.nats import eventually, served_with_tls

from aim_local.nats import NatsServer
from controller_runtime.log.broker.connection import BusSettings, connect


@pytest.mark.spec("FW-713")
async def test_the_end_of_a_connection_with_tls_is_no_news_and_all_else_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca = tmp_path / "ca.crt"
    async with NatsServer(extra_config=served_with_tls(tmp_path, ca)) as server:
        settings = BusSettings.of_urls(server.url.replace("nats:", "tls:"), "test", ca_file=ca)
        async with connect(settings) as bus, asyncio.timeout(30):
            session = await bus.wait_connected()
            await server.kill()
            await bus.wait_lost(session)
            logging.getLogger("asyncio").warning("something else about %s", "ssl")
            await eventually(lambda: bus.statistics.last_error is not None, "the attempt after it")
    said = [one.getMessage() for one in caplog.records if one.name == "asyncio"]
    assert said == ["something else about ssl"]
