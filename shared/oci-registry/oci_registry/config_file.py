"""Following the registry configuration file without a restart (FW-395).

A ConfigMap volume changes by swapping a symbolic link, for which no portable event exists; the file is small and is
read again twice a minute.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Never

import structlog

from controller_runtime import StartError
from oci_registry.client import RegistryClient
from oci_registry.mirrors import InvalidRegistriesFileError, load_registries

INTERVAL: Final = 30.0
"""Seconds between two readings; a change is in force within 60 s."""

_log: Final = structlog.get_logger(__name__)


class RegistriesFile:
    """Keeps a client on the newest valid content of the file.

    Attributes:
        failures: readings that left the former configuration in force, for metrics.
    """

    def __init__(self, path: Path, client: RegistryClient, *, interval: float = INTERVAL) -> None:
        self._path = path
        self._client = client
        self._interval = interval
        self.failures = 0

    async def follow(self) -> Never:
        """Read again and again until cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(self._interval)

    async def read(self) -> None:
        """Read once; an unusable file is logged and changes nothing."""
        try:
            registries = await asyncio.to_thread(load_registries, self._path)
        except InvalidRegistriesFileError as error:
            self.failures += 1
            _log.error("registry configuration cannot be used; keeping the previous one", error=str(error))
        else:
            self._client.use(registries)


@asynccontextmanager
async def opened(client: RegistryClient, path: Path | None) -> AsyncIterator[RegistryClient]:
    """The client, open, and following the configuration file if there is one.

    Raises:
        StartError: the file cannot be used at the start.
    """
    try:
        client.use(await asyncio.to_thread(load_registries, path))
    except InvalidRegistriesFileError as error:
        raise StartError(str(error)) from error
    async with client, asyncio.TaskGroup() as group:
        follower = None if path is None else group.create_task(RegistriesFile(path, client).follow())
        yield client
        if follower is not None:
            follower.cancel()
