"""A proxy between one service and the broker that lets a meddler at what the broker sends."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from matrix.bus_frames import Frame, Frames, Meddler

from aim_local.ports import HOST

_BUFFER: Final = 1 << 16


class BusProxy:
    """Listens on a port of its own, as an async context. Without a meddler it passes everything on."""

    def __init__(self, port: int, broker_port: int, prefixes: tuple[str, ...]) -> None:
        """``prefixes``: how the subjects begin that a meddler gets to see."""
        self._port = port
        self._broker_port = broker_port
        self._prefixes = prefixes
        self._make: Callable[[], Meddler] | None = None
        self._meddlers: list[Meddler] = []
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    def meddle(self, make: Callable[[], Meddler]) -> None:
        """From now on: a meddler for every connection; those that are open now break and come back."""
        self._make = make
        self.cut()

    def heal(self) -> int:
        """Pass on everything again, over new connections; how often meddlers struck."""
        struck = sum(one.struck for one in self._meddlers)
        self._make, self._meddlers = None, []
        if struck:
            self.cut()
        return struck

    def cut(self) -> None:
        """Break all connections."""
        for writer in self._open:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, HOST, self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Break all connections and listen no more."""
        assert self._server is not None
        self._server.close()
        self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream, to_broker = await asyncio.open_connection(HOST, self._broker_port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, to_broker}
        meddler = self._make() if self._make is not None else None
        if meddler is not None:
            self._meddlers.append(meddler)
        down = self._plain(upstream, writer) if meddler is None else self._meddled(upstream, writer, meddler)
        try:
            async with asyncio.TaskGroup() as group:
                for pump in (self._plain(reader, to_broker), down):
                    group.create_task(pump)
        except* (OSError, RuntimeError):
            # One side is gone; what the event loop calls that depends on the moment.
            pass
        finally:
            for one in (writer, to_broker):
                self._open.discard(one)
                one.transport.abort()

    async def _plain(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_BUFFER):
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def _meddled(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, meddler: Meddler) -> None:
        frames, clock = Frames(), asyncio.get_running_loop().time
        idle_at = clock() + meddler.idle_seconds
        while True:
            out: list[Frame] = []
            try:
                async with asyncio.timeout_at(idle_at):
                    data = await reader.read(_BUFFER)
            except TimeoutError:
                out, idle_at = meddler.idle(), clock() + meddler.idle_seconds
            else:
                if not data:
                    raise ConnectionResetError
                for frame in frames.feed(data):
                    seen = self._is_seen(frame)
                    out += meddler.take(frame) if seen else [frame]
                    idle_at = clock() + meddler.idle_seconds if seen else idle_at
            writer.writelines([frame.raw for frame in out])
            await writer.drain()

    def _is_seen(self, frame: Frame) -> bool:
        return bool(frame.subject) and frame.subject.startswith(self._prefixes)
