"""Running a command of the program: signals, exit codes, termination message (AR-711, AR-764, AR-765)."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence

from aim_artifacts.downloader.environment import (
    DEFAULT_WORK_DIRECTORIES,
    Environment,
    read_environment,
    termination_path,
    trust_authorities,
)
from aim_artifacts.downloader.failure import DownloadError, give_up, log
from aim_artifacts.downloader_contract import ExitCode
from aim_artifacts.source import Source, SourceError, parse_source

Command = Callable[[Source, Environment], Coroutine[None, None, None]]


def run(command: Command, arguments: Sequence[str]) -> int:
    """Carry out a command for the source in the arguments; returns the exit code."""
    for name, value in DEFAULT_WORK_DIRECTORIES.items():
        os.environ.setdefault(name, value)
    try:
        trust_authorities(os.environ)
        source, environment = _source(arguments), read_environment(os.environ)
        return asyncio.run(_until_terminated(command(source, environment)))
    except BaseExceptionGroup as group:
        return give_up(_failure(group), termination_path(os.environ))
    except (DownloadError, OSError) as error:
        return give_up(_failure(error), termination_path(os.environ))


def _source(arguments: Sequence[str]) -> Source:
    if len(arguments) != 1:
        raise DownloadError(ExitCode.USAGE, f"expected the source URI as only argument, got {len(arguments)} arguments")
    try:
        return parse_source(arguments[0])
    except SourceError as error:
        raise DownloadError(ExitCode.USAGE, str(error)) from error


async def _until_terminated(work: Coroutine[None, None, None]) -> int:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log("terminated by SIGTERM")
        return int(ExitCode.TERMINATED)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
    return int(ExitCode.SUCCESS)


def _failure(error: BaseException) -> DownloadError:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, DownloadError):
        return error
    from aim_artifacts.downloader.error_mapping import download_error  # noqa: PLC0415 - only where it is needed

    return download_error(error)
