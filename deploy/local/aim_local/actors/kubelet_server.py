"""The kubelet's HTTPS port, from which API servers fetch container logs."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import trustme
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from aim_local.actors.container_logs import ContainerKey, ContainerLogs, Wanted
from aim_local.serving import serving


@asynccontextmanager
async def kubelet_server(logs: ContainerLogs, port: int = 0) -> AsyncIterator[int]:
    """Serve the logs; yields the port, a free one unless given."""
    application = Starlette(routes=[Route("/containerLogs/{namespace}/{pod}/{container}", _Handler(logs).get)])
    async with serving(application, port, tls=await asyncio.to_thread(_tls)) as bound:
        yield bound


class _Handler:
    def __init__(self, logs: ContainerLogs) -> None:
        self._logs = logs

    async def get(self, request: Request) -> Response:
        """GET of a log."""
        names, query = request.path_params, request.query_params
        key = ContainerKey(names["namespace"], names["pod"], names["container"])
        previous = query.get("previous") == "true"
        log = self._logs.find(key, previous=previous)
        if log is None:
            return PlainTextResponse(_why_missing(key, previous=previous), 400)
        wanted = Wanted(_number(query.get("tailLines")), _since(query), query.get("timestamps") == "true")
        if query.get("follow") == "true":
            return StreamingResponse(log.follow(wanted), media_type="text/plain")
        return PlainTextResponse(log.read(wanted, _number(query.get("limitBytes"))))


def _why_missing(key: ContainerKey, *, previous: bool) -> str:
    if previous:
        return f'previous terminated container "{key.container}" in pod "{key.pod}" not found'
    return f'container "{key.container}" in pod "{key.pod}" is waiting to start: ContainerCreating'


def _since(query: QueryParams) -> datetime | None:
    if (seconds := _number(query.get("sinceSeconds"))) is not None:
        return datetime.now(UTC) - timedelta(seconds=seconds)
    return datetime.fromisoformat(query["sinceTime"]) if query.get("sinceTime") else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context
