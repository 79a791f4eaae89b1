"""Reconnecting away from a broker that does not answer."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from urllib.parse import ParseResult

import pytest
from nats.aio.transport import TcpTransport
from support.nats import eventually, served_with_tls

from aim_local.nats import NatsServer
from aim_local.ports import HOST
from controller_runtime.log.broker import connection
from controller_runtime.log.broker.connection import BusSettings, connect

INFO = b'INFO {"server_id":"A","version":"2.12.0","max_payload":1048576,"headers":true,"jetstream":true}\r\n'


class SilentBroker:
    """Welcomes the first client, drops it, and lets all later ones wait for a greeting that is no greeting.

    Attributes:
        taken: connections after the first.
        ended: how many of them the client has closed.
    """

    def __init__(self) -> None:
        self.greeted = self.taken = self.ended = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        is_first = not self.greeted
        self.greeted = 1
        self.taken += not is_first
        with suppress(ConnectionError):
            if is_first:
                writer.write(INFO)
                await reader.readuntil(b"PING\r\n")
                writer.write(b"PONG\r\n")
                await writer.drain()
            else:
                writer.write(b"-ERR 'not yet'\r\n")
                while await reader.read(1024):
                    pass
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()
        self.ended += not is_first


@pytest.mark.spec("FW-864")
async def test_an_attempt_that_failed_leaves_no_connection() -> None:
    broker = SilentBroker()
    server = await asyncio.start_server(broker.serve, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        async with connect(BusSettings.of_urls(f"nats://{HOST}:{port}", "test")), asyncio.timeout(30):
            await eventually(lambda: broker.taken >= 4, "four attempts")
            await eventually(lambda: broker.ended >= broker.taken - 1, "all but the last are closed", 1)
        # Else its transport would be left to the garbage collector, within some later test.
        await eventually(lambda: broker.ended == broker.taken, "the last one ends with the client")


@pytest.mark.spec("FW-864")
async def test_an_attempt_that_misses_its_cancellation_ends_with_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """`asyncio.wait_for` returns its result in place of a cancellation that comes at the same time."""
    make, waiting, missed = TcpTransport.connect, asyncio.Event(), False

    async def make_despite(self: TcpTransport, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        nonlocal missed
        if broker.taken and not missed:
            try:
                waiting.set()
                await asyncio.sleep(0.5)
            except asyncio.CancelledError:
                missed = True
        await make(self, uri, buffer_size, connect_timeout)

    monkeypatch.setattr(TcpTransport, "connect", make_despite)
    broker = SilentBroker()
    server = await asyncio.start_server(broker.serve, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(60):
        async with connect(BusSettings.of_urls(f"nats://{HOST}:{port}", "test")):
            await waiting.wait()
        assert missed
        left = [one for one in asyncio.all_tasks() if "_attempt_reconnect" in repr(one)]
        await eventually(lambda: broker.ended == broker.taken, "the client has ended all of them")
        assert left == []


@pytest.mark.spec("FW-864")
async def test_a_broker_that_hangs_holds_up_no_connection_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_PING_INTERVAL", 0.2)
    trusted = tmp_path / "ca.crt"
    served = served_with_tls(tmp_path, trusted)
    async with NatsServer(extra_config=served) as first, NatsServer(extra_config=served) as second:
        await second.kill()
        urls = f"{first.url},{second.url}".replace("nats:", "tls:")
        async with connect(BusSettings.of_urls(urls, "test", ca_file=trusted)) as bus, asyncio.timeout(20):
            session = await bus.wait_connected()
            await second.start()
            os.kill(first.pid, signal.SIGSTOP)
            try:
                await bus.wait_lost(session)
                assert await bus.wait_connected() == session + 1
            finally:
                os.kill(first.pid, signal.SIGCONT)
