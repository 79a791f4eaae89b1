"""Watches how the target directory grows: progress for the status, and stalls (AR-301, AR-745…AR-750)."""

import asyncio
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aim_artifacts.downloader.reporter import Reporter
from aim_artifacts.downloader_contract import COMPLETE, progress_json
from controller_runtime import JsonObject, quantity

_ALMOST: Final = 99
_POLLS_PER_TIMEOUT: Final = 4
"""Measurements within a stall timeout, at least, however long the progress interval is."""


def directory_size(root: Path) -> int:
    """Apparent size of all files below a directory in bytes; what cannot be read is skipped (AR-747)."""
    return sum(_sizes(root))


def _sizes(directory: Path) -> Iterator[int]:
    try:
        with os.scandir(directory) as entries:
            children = list(entries)
    except OSError:
        return
    for entry in children:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _sizes(Path(entry.path))
        elif stat.S_ISREG(status.st_mode):
            yield status.st_size


def progress_of(current: int, expected: int) -> JsonObject:
    """Members of ``status.progress`` during the transfer (AR-300, AR-301)."""
    percentage = min(_ALMOST, current * 100 // expected) if expected else 0
    return progress_json(percentage, current, expected)


def speed(rate: float) -> str:
    """Bytes per second for people."""
    return f"{quantity.human_size(int(rate))}/s"


def complete_progress(expected: int) -> JsonObject:
    """Members of ``status.progress`` after the transfer (AR-302)."""
    return progress_json(COMPLETE, expected, expected)


@dataclass(frozen=True, slots=True)
class Watched:
    """What is measured.

    Attributes:
        chunk_cache: grows during Xet transfers before the target does; counts against stalls only (AR-749).
        interval: seconds between measurements.
    """

    target: Path
    chunk_cache: Path
    interval: float


class Monitor:
    """Measures and reports while the transfer runs.

    Attributes:
        expected: bytes that will arrive; 0 while unknown.
    """

    def __init__(self, watched: Watched, reporter: Reporter, expected: int) -> None:
        self.expected = expected
        self._watched = watched
        self._reporter = reporter
        self._over = asyncio.Event()
        self._transfer = ""

    @contextmanager
    def transfer(self, message: str) -> Iterator[None]:
        """A transfer that the status announces with ``message``; beside it stands how fast it is (AR-307)."""
        self._transfer = message
        try:
            yield
        finally:
            self._transfer = ""

    async def follow(self) -> None:
        """Report the first measurement at once, then one per interval, until `stop`."""
        before: int | None = None
        since = time.monotonic()
        while not self._over.is_set():
            current, now = await asyncio.to_thread(directory_size, self._watched.target), time.monotonic()
            rate = 0.0 if before is None else max(0, current - before) / max(now - since, 1e-3)
            said = {"download": {"message": f"{self._transfer}, {speed(rate)}"}} if self._transfer and rate else {}
            await self._reporter.report(progress=progress_of(current, self.expected), **said)
            before, since = current, now
            with suppress(TimeoutError):
                async with asyncio.timeout(self._watched.interval):
                    await self._over.wait()

    def stop(self) -> None:
        """Let `follow` end after the report that is under way."""
        self._over.set()

    async def until_stalled(self, patience: float) -> None:
        """Return once nothing has grown for ``patience`` seconds; with 0 only a cancellation ends it (AR-748)."""
        if not patience:
            await asyncio.Event().wait()
        largest, since = await self._activity(), time.monotonic()
        pause = min(self._watched.interval, patience / _POLLS_PER_TIMEOUT)
        while time.monotonic() - since < patience:
            await asyncio.sleep(pause)
            current = await self._activity()
            if current > largest:
                largest, since = current, time.monotonic()

    async def _activity(self) -> int:
        sizes = await asyncio.gather(
            asyncio.to_thread(directory_size, self._watched.target),
            asyncio.to_thread(directory_size, self._watched.chunk_cache),
        )
        return sum(sizes)
