"""What containers printed, bounded, readable while they still print."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NamedTuple, final

LIMIT: Final = 256 * 1024
"""Bytes kept of a log; the oldest lines go first."""


class ContainerKey(NamedTuple):
    """A container of a pod."""

    namespace: str
    pod: str
    container: str


@final
class ContainerLog:
    """One log; `close` ends those who follow it."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._dropped = 0
        self._closed = False
        self._changed = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Append output."""
        self._text += data
        excess = len(self._text) - LIMIT
        if excess > 0:
            cut = self._text.find(b"\n", excess) + 1 or excess
            del self._text[:cut]
            self._dropped += cut
        self._notify()

    def close(self) -> None:
        """Nothing will follow."""
        self._closed = True
        self._notify()

    def read(self, tail_lines: int | None = None, limit_bytes: int | None = None) -> bytes:
        """The log so far, or its last lines, cut to a number of bytes from the start."""
        text = bytes(self._text)
        if tail_lines is not None:
            text = b"".join(text.splitlines(keepends=True)[-tail_lines:]) if tail_lines else b""
        return text if limit_bytes is None else text[:limit_bytes]

    async def follow(self, tail_lines: int | None = None) -> AsyncIterator[bytes]:
        """The log so far, then what is printed, until the container ends."""
        position = self._dropped + len(self._text)
        yield self.read(tail_lines)
        while True:
            changed = self._changed
            fresh = bytes(self._text[max(0, position - self._dropped) :])
            position = self._dropped + len(self._text)
            if fresh:
                yield fresh
            elif self._closed:
                return
            else:
                await changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


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
