"""A broker on a slow disk: every confirmation of a write waits its turn for the one disk."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from matrix.bus_frames import Frame, Frames

from aim_local.ports import HOST

_ACK: Final = b'\r\n{"stream":'
_BUFFER: Final = 1 << 16


class SlowDisk:
    """A proxy before a broker that lets one confirmation pass at a time, each after the time of a sync.

    Attributes:
        syncs: confirmations passed on.
    """

    def __init__(self, broker_port: int, seconds: float) -> None:
        self.syncs = 0
        self._broker_port = broker_port
        self._seconds = seconds
        self._turn: asyncio.Queue[tuple[Frame, asyncio.StreamWriter]] = asyncio.Queue()
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle one connection until either side ends it."""
        ends = [writer]
        self._open.add(writer)
        try:
            upstream, to_broker = await asyncio.open_connection(HOST, self._broker_port)
            ends.append(to_broker)
            self._open.add(to_broker)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._up(reader, to_broker))
                group.create_task(self._down(upstream, writer))
        except* (OSError, RuntimeError):
            # One side is gone; what the event loop calls that depends on the moment.
            pass
        finally:
            for one in ends:
                self._open.discard(one)
                one.transport.abort()

    async def sync(self) -> None:
        """Be the disk, until cancelled."""
        while True:
            frame, writer = await self._turn.get()
            await asyncio.sleep(self._seconds)
            writer.write(frame.raw)
            self.syncs += 1

    def cut(self) -> None:
        """End all connections."""
        for writer in self._open:
            writer.transport.abort()

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_BUFFER):
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = Frames()
        while data := await reader.read(_BUFFER):
            for frame in frames.feed(data):
                if _ACK in frame.raw[:512]:
                    self._turn.put_nowait((frame, writer))
                else:
                    writer.write(frame.raw)
            await writer.drain()
        raise ConnectionResetError


@asynccontextmanager
async def slow_disk(broker_port: int, seconds: float) -> AsyncIterator[tuple[SlowDisk, str]]:
    """The proxy, and the URL under which the broker is slow."""
    disk = SlowDisk(broker_port, seconds)
    server = await asyncio.start_server(disk.serve, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    syncing = asyncio.create_task(disk.sync())
    try:
        yield disk, f"nats://{HOST}:{port}"
    finally:
        syncing.cancel()
        server.close()
        disk.cut()
