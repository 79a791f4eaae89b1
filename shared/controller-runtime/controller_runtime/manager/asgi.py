"""uvicorn as one of several tasks of a process."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn


class InProcessServer(uvicorn.Server):
    """Leaves signals to the process, and does not look ten times a second whether it is to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Stop accepting and let `serve` end once running requests have."""
        self.should_exit = True
        self._stop.set()

    async def main_loop(self) -> None:
        await self._stop.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
