"""Reports of progress, written into the status of the artifact."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Protocol

from aim_artifacts.downloader.failure import log
from aim_domain.kinds import AIM_ARTIFACT
from controller_runtime import (
    MERGE_PATCH,
    JsonObject,
    KubeError,
    Request,
    Transport,
    TransportSettings,
    dumps,
    load_connection,
    object_path,
)

FIELD_MANAGER: Final = "aim-downloader"
_SETTINGS: Final = TransportSettings(total_timeout=10.0, read_timeout=10.0, attempts=2)


class StatusReporter:
    """Patches the status subresource, one patch at a time, with what has changed only."""

    def __init__(self, transport: Transport, namespace: str, artifact: str) -> None:
        self._transport = transport
        self._path = object_path(AIM_ARTIFACT, artifact, namespace, "status")
        self._sent: dict[str, JsonObject] = {}
        self._lock = asyncio.Lock()

    async def report(self, **fields: JsonObject) -> None:
        """Send the members that differ from the last report; a refusal is only worth a warning (AR-712)."""
        async with self._lock:
            changed = {field: news for field, members in fields.items() if (news := self._news(field, members))}
            if not changed:
                return
            try:
                await self._transport.call(self._request({"status": changed}))
            except KubeError as error:
                log(f"warning: the status of the artifact could not be patched: {error}")
            else:
                self._sent |= {field: {**self._sent.get(field, {}), **news} for field, news in changed.items()}

    def _news(self, field: str, members: JsonObject) -> JsonObject:
        known = self._sent.get(field, {})
        return {name: value for name, value in members.items() if name not in known or known[name] != value}

    def _request(self, body: JsonObject) -> Request:
        return Request(
            "patch",
            "PATCH",
            self._path,
            AIM_ARTIFACT.resource,
            {"fieldManager": FIELD_MANAGER},
            dumps(body),
            MERGE_PATCH,
        )


@asynccontextmanager
async def open_status_reporter(namespace: str, artifact: str) -> AsyncIterator[StatusReporter | None]:
    """The reporter for an artifact; None without an API server."""
    async with AsyncExitStack() as stack:
        try:
            connection = await load_connection()
            transport = await stack.enter_async_context(Transport(connection, FIELD_MANAGER, _SETTINGS))
        except KubeError as error:
            log(f"warning: progress is not reported: {error}")
            yield None
        else:
            yield StatusReporter(transport, namespace, artifact)


class Reporter(Protocol):
    """Takes members of ``status.progress`` and ``status.download``; never fails the download."""

    async def report(self, **fields: JsonObject) -> None:
        """Send what has changed of these fields of the status since they were last reported."""


class NoReporter:
    """For runs without an artifact (AR-703)."""

    async def report(self, **fields: JsonObject) -> None:
        """Discards the report."""


@asynccontextmanager
async def open_reporter(namespace: str, artifact: str) -> AsyncIterator[Reporter]:
    """The reporter for an artifact; without one, or without an API server, reports go nowhere."""
    if not namespace or not artifact:
        yield NoReporter()
        return
    async with open_status_reporter(namespace, artifact) as reporter:
        yield reporter or NoReporter()
