"""The way to the event log."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aim_cli.answer import complain
from aim_cli.cluster.targets import HERE, Where
from aim_cli.errors import TargetError, UnreachableError
from aim_cli.log import light as light  # noqa: PLC0414 (before what it makes light)
from controller_runtime.log import (
    DEFAULT_ROOT,
    BusClosedError,
    BusConnection,
    BusError,
    BusSettings,
    BusSetupError,
    History,
    Layout,
    SubjectError,
    checked_urls,
    connect,
    without_credentials,
)

SUFFIX: Final = ".aimlog"
"""Ends the name of a file that holds a slice of the log."""
_PATIENCE: Final = 5.0
_USER: Final = "aim"
"""The chart's user of the broker that may read; it hears answers under its own name alone."""


@asynccontextmanager
async def history(nats_url: str, where: Where = HERE) -> AsyncIterator[History]:
    """Open the event log of the installation with the root ``AIM_NATS_ROOT``, or the one that a file holds (FW-620).

    Args:
        where: the cluster whose broker a remedy names.

    Raises:
        UnreachableError: as of `broker`.
        UnreadableError: the file cannot be read.
    """
    if nats_url.endswith(SUFFIX):
        # Who asks a broker need not pay for it.
        from aim_cli.log.file import FileHistory, read  # noqa: PLC0415

        yield FileHistory(await asyncio.to_thread(read, Path(nats_url)))
        return
    async with broker(nats_url, where=where) as connection:
        yield History(connection, layout())


@asynccontextmanager
async def broker(nats_url: str, *, at_once: bool = True, where: Where = HERE) -> AsyncIterator[BusConnection]:
    """Connect with the broker, with the credentials and the CA that the variables of the services name.

    Args:
        at_once: whether the broker has to answer before anything else is done.
        where: the cluster whose broker a remedy names.

    Raises:
        TargetError: the address is none of a broker.
        UnreachableError: no connection within five seconds, if it has to be there at once, or no answer to what was
            asked over it; it says why (FW-710, FW-730).
    """
    settings = _settings(nats_url)
    try:
        async with connect(settings) as connection:
            if at_once:
                await _reached(connection, settings, where)
            try:
                yield connection
            except BusError as error:
                # Who is answered need not pay for it.
                from aim_cli.cluster.broker import find_names  # noqa: PLC0415
                from aim_cli.log.refusals import of_refused  # noqa: PLC0415

                names = await asyncio.to_thread(find_names, where)
                raise UnreachableError(of_refused(settings, connection.statistics, error, names)) from error
    except* BusSetupError as unusable:
        from aim_cli.log.refusals import of_files  # noqa: PLC0415

        raise UnreachableError("; ".join(of_files(one) for one in unusable.exceptions)) from None
    except* BusClosedError as ended:
        raise UnreachableError("; ".join(map(str, ended.exceptions))) from None


async def _reached(connection: BusConnection, settings: BusSettings, where: Where) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            await connection.wait_connected()
    except TimeoutError:
        from aim_cli.cluster.broker import find_names  # noqa: PLC0415
        from aim_cli.log.refusals import of_unreached  # noqa: PLC0415

        names = await asyncio.to_thread(find_names, where)
        raise UnreachableError(of_unreached(settings, connection.statistics, names)) from None


def _settings(nats_url: str) -> BusSettings:
    if nats_url.endswith(SUFFIX):
        raise TargetError(f"{nats_url} is a file, and this asks the broker itself; name that in --nats-url")
    try:
        checked_urls(nats_url)
    except ValueError as error:
        shown = without_credentials(nats_url)
        raise TargetError(f"--nats-url {shown!r} is no address of a broker: {error}; correct it") from None
    domain = os.environ.get("AIM_NATS_JETSTREAM_DOMAIN", "")
    return BusSettings.of_urls(nats_url, _USER, _path("AIM_NATS_CREDENTIALS_FILE"), _path("AIM_NATS_CA_FILE"), domain)


def _path(variable: str) -> Path | None:
    text = os.environ.get(variable)
    return Path(text) if text else None


def layout() -> Layout:
    """Where the installation keeps its log.

    Raises:
        TargetError: the root is none.
    """
    try:
        return Layout(os.environ.get("AIM_NATS_ROOT", DEFAULT_ROOT))
    except SubjectError as error:
        raise TargetError(f"AIM_NATS_ROOT: {error}; correct it") from None


async def report_dropped(log: History) -> None:
    """A reader of a log must know where it begins (FW-451)."""
    for what, since in (await log.complete_since()).items():
        complain(f"the log of {what} is complete since {since:%Y-%m-%d %H:%M:%S} UTC; what came before was dropped")
