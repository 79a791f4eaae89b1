"""The way to the event log."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aim_cli.answer import complain
from aim_cli.errors import TO_BROKER, UnreachableError
from aim_cli.log import light as light  # noqa: PLC0414 (before what it makes light)
from controller_runtime.bus.broker_urls import without_credentials
from controller_runtime.bus.connection import (
    BusClosedError,
    BusConnection,
    BusError,
    BusSettings,
    BusSetupError,
    ConnectionStatistics,
    connect,
)
from controller_runtime.bus.history import History
from controller_runtime.bus.subjects import DEFAULT_ROOT, Layout

SUFFIX: Final = ".aimlog"
"""Ends the name of a file that holds a slice of the log."""
_PATIENCE: Final = 5.0
_ADDRESS: Final = f"set --nats-url or AIM_NATS_URL (in a cluster: {TO_BROKER})"
_CREDENTIALS: Final = "check that the broker knows the public key of the file in AIM_NATS_CREDENTIALS_FILE"
_AUTHORITY: Final = "check AIM_NATS_CA_FILE, and that the broker has a certificate for the host that was asked"
_USER: Final = "aim"
"""The chart's user of the broker that may read; it hears answers under its own name alone."""


@asynccontextmanager
async def history(nats_url: str) -> AsyncIterator[History]:
    """Open the event log of the installation with the root ``AIM_NATS_ROOT``, or the one that a file holds (FW-620).

    Raises:
        UnreachableError: as of `broker`.
        UnreadableError: the file cannot be read.
    """
    if nats_url.endswith(SUFFIX):
        # Who asks a broker need not pay for it.
        from aim_cli.log.file import FileHistory, read  # noqa: PLC0415

        yield FileHistory(await asyncio.to_thread(read, Path(nats_url)))
        return
    async with broker(nats_url) as connection:
        yield History(connection, layout())


@asynccontextmanager
async def broker(nats_url: str, *, at_once: bool = True) -> AsyncIterator[BusConnection]:
    """Connect with the broker, with the credentials and the CA that the variables of the services name.

    Args:
        at_once: whether the broker has to answer before anything else is done.

    Raises:
        UnreachableError: no connection within five seconds, if it has to be there at once; it says why (FW-710).
    """
    try:
        async with connect(_settings(nats_url)) as connection:
            if at_once:
                await _reached(connection, nats_url)
            try:
                yield connection
            except BusError as error:
                raise UnreachableError(str(error)) from error
    except* (BusSetupError, BusClosedError) as ended:
        raise UnreachableError("; ".join(map(str, ended.exceptions))) from None


def _why(nats_url: str, now: ConnectionStatistics) -> str:
    """Why there is no connection, as far as the broker or the network told it, and what to do."""
    # Who is answered need not pay for it.
    from controller_runtime.manager.causes import Cause  # noqa: PLC0415
    from controller_runtime.manager.troubles import of_broker  # noqa: PLC0415

    trouble = next(of_broker(now), None)
    if trouble is None:
        return f"the message broker at {without_credentials(nats_url)} does not answer; {_ADDRESS}"
    remedy = {Cause.BROKER_CREDENTIALS: _CREDENTIALS, Cause.BROKER_CERTIFICATE: _AUTHORITY}.get(trouble.cause, _ADDRESS)
    return f"{trouble.found}; {remedy}"


async def _reached(connection: BusConnection, nats_url: str) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            await connection.wait_connected()
    except TimeoutError:
        raise UnreachableError(_why(nats_url, connection.statistics)) from None


def _settings(nats_url: str) -> BusSettings:
    domain = os.environ.get("AIM_NATS_JETSTREAM_DOMAIN", "")
    return BusSettings.of_urls(nats_url, _USER, _path("AIM_NATS_CREDENTIALS_FILE"), _path("AIM_NATS_CA_FILE"), domain)


def _path(variable: str) -> Path | None:
    text = os.environ.get(variable)
    return Path(text) if text else None


def layout() -> Layout:
    """Where the installation keeps its log."""
    return Layout(os.environ.get("AIM_NATS_ROOT", DEFAULT_ROOT))


async def tell_dropped(log: History) -> None:
    """Whoever reads a log must know where it begins (FW-451)."""
    for what, since in (await log.complete_since()).items():
        complain(f"the log of {what} is complete since {since:%Y-%m-%d %H:%M:%S} UTC; what came before was dropped")
