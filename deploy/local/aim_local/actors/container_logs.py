"""What containers printed, bounded, readable while they still print."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple, final

LIMIT: Final = 256 * 1024
"""Bytes kept of a log; the oldest go first."""
_END_OF_LINE: Final = re.compile(rb"(?<=\n)")


class ContainerKey(NamedTuple):
    """A container of a pod."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines, and how.

    Attributes:
        tail: at most so many of those that are there.
        since: none from before; None: all.
        stamped: each begins with its time, as a kubelet writes it: always of the same length.
    """

    tail: int | None = None
    since: datetime | None = None
    stamped: bool = False


_ALL: Final = Wanted()


@dataclass(slots=True)
class _Line:
    at: datetime
    text: bytearray


@final
class ContainerLog:
    """One log; `close` ends those who follow it."""

    def __init__(self) -> None:
        self._lines: deque[_Line] = deque()
        self._size = 0
        self._dropped = 0
        self._closed = False
        self._changed = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Append output."""
        for piece in _END_OF_LINE.split(data):
            if not piece:
                continue
            if not self._lines or self._lines[-1].text.endswith(b"\n"):
                self._lines.append(_Line(datetime.now(UTC), bytearray()))
            self._lines[-1].text += piece
            self._size += len(piece)
        while self._size > LIMIT and len(self._lines) > 1:
            self._size -= len(self._lines.popleft().text)
            self._dropped += 1
        if self._size > LIMIT:
            # A line without an end, such as a progress bar.
            del self._lines[0].text[: self._size - LIMIT]
            self._size = LIMIT
        self._notify()

    def close(self) -> None:
        """Nothing will follow."""
        self._closed = True
        self._notify()

    def read(self, wanted: Wanted = _ALL, limit_bytes: int | None = None) -> bytes:
        """The log so far, cut to a number of bytes from the start."""
        lines = [line for line in self._lines if wanted.since is None or line.at >= wanted.since]
        if wanted.tail is not None:
            lines = lines[-wanted.tail :] if wanted.tail else []
        return b"".join(_shown(line, wanted) for line in lines)[:limit_bytes]

    async def follow(self, wanted: Wanted = _ALL) -> AsyncIterator[bytes]:
        """The log so far, then what is printed, until the container ends."""
        position = self._position()
        yield self.read(wanted)
        while True:
            changed = self._changed
            fresh = self._fresh(position, wanted)
            position = self._position()
            if fresh:
                yield fresh
            elif self._closed:
                return
            else:
                await changed.wait()

    def _position(self) -> tuple[int, int]:
        """The last line, counted from the first that was ever written, and how much of it there is."""
        return self._dropped + len(self._lines) - 1, len(self._lines[-1].text) if self._lines else 0

    def _fresh(self, position: tuple[int, int], wanted: Wanted) -> bytes:
        number, length = position
        begin = max(0, number - self._dropped)
        rest = b""
        if begin == number - self._dropped and self._lines:
            # The rest of a line that was told in part.
            rest, begin = bytes(self._lines[begin].text[length:]), begin + 1
        return rest + b"".join(_shown(line, wanted) for line in islice(self._lines, begin, None))

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _shown(line: _Line, wanted: Wanted) -> bytes:
    stamp = f"{line.at:%Y-%m-%dT%H:%M:%S.%f}000Z ".encode() if wanted.stamped else b""
    return stamp + bytes(line.text)


@final
class ContainerLogs:
    """The logs of one node."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], dict[str, list[ContainerLog]]] = {}

    def start(self, key: ContainerKey) -> ContainerLog:
        """A fresh log; the one before stays readable as the previous one."""
        log = ContainerLog()
        containers = self._pods.setdefault((key.namespace, key.pod), {})
        containers[key.container] = [*containers.get(key.container, [])[-1:], log]
        return log

    def find(self, key: ContainerKey, *, previous: bool = False) -> ContainerLog | None:
        """The container's log; None if it has not started (again)."""
        logs = self._pods.get((key.namespace, key.pod), {}).get(key.container, [])
        if previous:
            return logs[0] if len(logs) > 1 else None
        return logs[-1] if logs else None

    def drop_pod(self, namespace: str, pod: str) -> None:
        """Forget a pod that is gone."""
        self._pods.pop((namespace, pod), None)
