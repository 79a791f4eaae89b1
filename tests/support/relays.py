"""Connections that lead on to another port, as those of a Service or of a proxy do."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aim_local.ports import HOST

_PIECE: Final = 1 << 16


async def lead_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Carry what a client and a port of the loopback say to each other, until both are done or one is gone.

    Neither connection is left open, however this ends: whoever finds one afterwards blames the test that runs then.
    """
    ends = [writer]
    try:
        inner_reader, inner_writer = await asyncio.open_connection(HOST, port)
        ends.append(inner_writer)
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(reader, inner_writer))
            group.create_task(_copy(inner_reader, writer))
    except* OSError:
        pass
    finally:
        for one in ends:
            one.transport.abort()


@asynccontextmanager
async def relay(address: str, port: int, targets: Sequence[int]) -> AsyncIterator[int]:
    """A port of an address, 0 for a free one, each of whose connections leads on to any of these of the loopback.

    Whether somebody listens there shows late, as with a Service.
    """
    leading: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(lead_on(reader, writer, random.choice(targets)))
        leading.add(task)
        task.add_done_callback(leading.discard)
        # A task that is cancelled before its first step closes nothing.
        task.add_done_callback(lambda _: writer.transport.abort())

    async with await asyncio.start_server(accept, address, port) as server:
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for one in leading:
                one.cancel()
            await asyncio.gather(*leading, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    writer.close()
