"""Runs a transfer in a process group of its own, so that a stalled one can be killed (AR-711, AR-748)."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aim_artifacts.downloader.failure import DownloadError
from aim_artifacts.downloader.monitor import Monitor
from aim_artifacts.downloader_contract import CATEGORY_OF_CODE, ExitCode
from controller_runtime import JsonObject, dumps, loads

REPORT: Final = "AIM_DOWNLOADER_REPORT"
"""Variable that names the file in which the child says why it failed."""
_TERM_SECONDS: Final = 5.0


async def run_transfer(job: JsonObject, variables: Mapping[str, str], monitor: Monitor, stall_timeout: float) -> None:
    """Carry out a transfer in a child process.

    Args:
        job: what the child is to do; see `aim_artifacts.downloader.transfer`.
        variables: environment beyond the program's own.

    Raises:
        DownloadError: the child failed, or was killed because nothing grew any more.
    """
    with tempfile.TemporaryDirectory(prefix="aim-transfer-") as directory:
        report = Path(directory, "failure.json")
        async with _child(job, {**os.environ, **variables, REPORT: str(report)}) as process:
            code = await _watch(process, monitor, stall_timeout)
        if code:
            raise _failure(code, report)


@asynccontextmanager
async def _child(job: JsonObject, env: Mapping[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "aim_artifacts.downloader.transfer",
        stdin=asyncio.subprocess.PIPE,
        env=env,
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(dumps(job))
        process.stdin.close()
        yield process
    finally:
        await _end(process)


async def _watch(process: asyncio.subprocess.Process, monitor: Monitor, stall_timeout: float) -> int:
    """The exit code.

    Raises:
        DownloadError: stalled; the process group is dead then.
    """
    stalled = asyncio.ensure_future(monitor.until_stalled(stall_timeout))
    ended = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({stalled, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return ended.result()
        stalled.result()
        _signal(process, signal.SIGKILL)
        await ended
        raise DownloadError(ExitCode.STALLED, f"nothing was downloaded for {stall_timeout:g} seconds")
    finally:
        for task in (stalled, ended):
            task.cancel()
        await asyncio.gather(stalled, ended, return_exceptions=True)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave nothing behind: ask first, then kill."""
    if process.returncode is not None:
        return
    _signal(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(_TERM_SECONDS):
            await process.wait()
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _failure(code: int, report: Path) -> DownloadError:
    try:
        message = str(loads(report.read_bytes())["message"])
    except (OSError, ValueError, KeyError):
        message = f"the transfer ended with code {code}"
    known = code in CATEGORY_OF_CODE
    return DownloadError(ExitCode(code) if known else ExitCode.DOWNLOAD_FAILED, message)
