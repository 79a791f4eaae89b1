"""What stands before the servers of tests leaves no connection open, whatever a client does."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator

import pytest
from support.relays import relay

from aim_local.ports import HOST


class Behind:
    """A server that says what it heard, and knows when its only client is gone."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while heard := await reader.read(100):
                writer.write(heard)
        except ConnectionResetError:
            pass
        finally:
            writer.transport.abort()
            self.gone.set()


@pytest.fixture
async def behind() -> AsyncIterator[Behind]:
    found = Behind()
    async with await asyncio.start_server(found.serve, HOST, 0) as server:
        found.port = server.sockets[0].getsockname()[1]
        yield found


async def greeted(port: int) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    return writer


async def test_a_client_that_resets_leaves_no_connection_behind(behind: Behind) -> None:
    async with relay(HOST, 0, [behind.port]) as port, asyncio.timeout(30):
        writer = await greeted(port)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        await behind.gone.wait()


async def test_the_end_of_the_relay_ends_what_goes_through_it(behind: Behind) -> None:
    async with asyncio.timeout(30):
        async with relay(HOST, 0, [behind.port]) as port:
            writer = await greeted(port)
        await behind.gone.wait()
    writer.transport.abort()


async def test_nobody_behind_it_ends_the_client(behind: Behind) -> None:
    with socket.socket() as closed:
        closed.bind((HOST, 0))
        async with relay(HOST, 0, [closed.getsockname()[1]]) as port, asyncio.timeout(30):
            reader, writer = await asyncio.open_connection(HOST, port)
            assert await reader.read() == b""
            writer.transport.abort()
