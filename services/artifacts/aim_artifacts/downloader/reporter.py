"""Whom the progress is reported to (AR-300…AR-307, AR-703).

Nothing here needs the Kubernetes client, whose import takes longer than most that this program does: a process that has
nobody to report to starts without it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from controller_runtime import JsonObject


class Reporter(Protocol):
    """Takes members of ``status.progress`` and ``status.download``; never fails the download."""

    async def report(self, **fields: JsonObject) -> None:
        """Send what has changed of these fields of the status since they were last reported."""


class NoReporter:
    """For runs without an artifact (AR-703)."""

    async def report(self, **fields: JsonObject) -> None:
        """Nobody listens."""


@asynccontextmanager
async def open_reporter(namespace: str, artifact: str) -> AsyncIterator[Reporter]:
    """The reporter for an artifact; without one, or without an API server, reports go nowhere."""
    if not namespace or not artifact:
        yield NoReporter()
        return
    from aim_artifacts.downloader.status_reporter import open_status_reporter  # noqa: PLC0415 - see above

    async with open_status_reporter(namespace, artifact) as reporter:
        yield reporter or NoReporter()
