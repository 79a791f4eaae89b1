"""The kubelet's HTTPS port, from which API servers fetch container logs."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trustme
from aiohttp import web

from aim_local.actors.container_logs import ContainerKey, ContainerLog, ContainerLogs

_HOST: Final = "127.0.0.1"


@asynccontextmanager
async def kubelet_server(logs: ContainerLogs, port: int = 0) -> AsyncIterator[int]:
    """Serve the logs; yields the port, a free one unless given."""
    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", _Handler(logs).get)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, port, ssl_context=await asyncio.to_thread(_tls)).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


class _Handler:
    def __init__(self, logs: ContainerLogs) -> None:
        self._logs = logs

    async def get(self, request: web.Request) -> web.StreamResponse:
        """GET of a log."""
        names, query = request.match_info, request.query
        key = ContainerKey(names["namespace"], names["pod"], names["container"])
        previous = query.get("previous") == "true"
        log = self._logs.find(key, previous=previous)
        if log is None:
            return web.Response(status=400, text=_why_missing(key, previous=previous))
        tail = _number(query.get("tailLines"))
        if query.get("follow") == "true":
            return await _stream(request, log, tail)
        body = log.read(tail, _number(query.get("limitBytes")))
        return web.Response(body=body, content_type="text/plain")


def _why_missing(key: ContainerKey, *, previous: bool) -> str:
    if previous:
        return f'previous terminated container "{key.container}" in pod "{key.pod}" not found'
    return f'container "{key.container}" in pod "{key.pod}" is waiting to start: ContainerCreating'


async def _stream(request: web.Request, log: ContainerLog, tail: int | None) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    async for chunk in log.follow(tail):
        await response.write(chunk)
    await response.write_eof()
    return response


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context
