"""What goes wrong with the content that a store serves."""

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web

_PIECES = 20


@dataclass
class Faults:
    """Of requests for content; each is used up, or stays until somebody takes it back.

    Attributes:
        statuses: what the next requests get instead of content.
        broken: names whose content breaks off in the middle, so many times.
        half: names whose content stops in the middle, and does not go on.
        missing: names that were listed and are gone, once half of another one was sent.
        corrupt: names that are served with other bytes than announced, once each.
        hanging: requests never get an answer.
        ranges_ignored: everything is served, whatever part is asked for.
        pause: seconds between twenty pieces of a file.
        asked: set with the first request.
        halved: set once half of something was sent.
        ranges: first byte of every request, by name.
    """

    statuses: list[int] = field(default_factory=list)
    broken: dict[str, int] = field(default_factory=dict)
    half: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    corrupt: set[str] = field(default_factory=set)
    hanging: bool = False
    ranges_ignored: bool = False
    pause: float = 0.0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    halved: asyncio.Event = field(default_factory=asyncio.Event)
    ranges: list[tuple[str, int]] = field(default_factory=list)

    async def status_of(self, name: str) -> int:
        """What a request gets instead of content; 0 where it gets content."""
        if name in self.missing:
            await self.halved.wait()
            return HTTPStatus.NOT_FOUND
        return self.statuses.pop(0) if self.statuses else 0

    async def serve(
        self, request: web.BaseRequest, name: str, content: bytes, headers: dict[str, str]
    ) -> web.StreamResponse:
        """The content, or the part of it that is asked for, with what goes wrong."""
        self.asked.set()
        if self.hanging:
            await asyncio.sleep(3600)
        start = 0 if self.ranges_ignored else request.http_range.start or 0
        self.ranges.append((name, start))
        if name in self.corrupt:
            self.corrupt.discard(name)
            content = bytes(len(content))
        answer = web.StreamResponse(
            status=HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK,
            headers={**headers, "Content-Length": str(len(content) - start)},
        )
        if start:
            answer.headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        await answer.prepare(request)
        await self._send(request, answer, name, content[start:])
        return answer

    async def _send(self, request: web.BaseRequest, answer: web.StreamResponse, name: str, content: bytes) -> None:
        middle = len(content) // 2
        if name in self.half:
            await answer.write(content[:middle])
            self.halved.set()
            await asyncio.sleep(3600)
        elif self.broken.get(name, 0):
            self.broken[name] -= 1
            await answer.write(content[:middle])
            if request.transport is not None:
                request.transport.abort()
        elif self.pause:
            size = -(-len(content) // _PIECES)
            for first in range(0, len(content), size):
                await answer.write(content[first : first + size])
                await asyncio.sleep(self.pause)
        else:
            await answer.write(content)
