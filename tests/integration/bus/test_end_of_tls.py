"""What asyncio has to say of the broker's connection, on a real server with TLS."""

import asyncio
import logging
from pathlib import Path

import pytest
import trustme
from support.nats import eventually

from aim_local.nats import NatsServer
from aim_local.ports import HOST
from controller_runtime.log.broker.connection import BusSettings, connect


@pytest.mark.spec("FW-713")
async def test_the_end_of_a_connection_with_tls_is_no_news_and_all_else_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca, crt, key = (tmp_path / name for name in ("ca.crt", "tls.crt", "tls.key"))
    authority = trustme.CA()
    served = authority.issue_cert(HOST)
    authority.cert_pem.write_to_path(str(ca))
    served.cert_chain_pems[0].write_to_path(str(crt))
    served.private_key_pem.write_to_path(str(key))
    async with NatsServer(extra_config=f'tls {{ cert_file: "{crt}", key_file: "{key}" }}') as server:
        settings = BusSettings.of_urls(server.url.replace("nats:", "tls:"), "test", ca_file=ca)
        async with connect(settings) as bus, asyncio.timeout(30):
            session = await bus.wait_connected()
            await server.kill()
            await bus.wait_lost(session)
            logging.getLogger("asyncio").warning("something else about %s", "ssl")
            await eventually(lambda: bus.statistics.last_error is not None, "the attempt after it")
    said = [one.getMessage() for one in caplog.records if one.name == "asyncio"]
    assert said == ["something else about ssl"]
