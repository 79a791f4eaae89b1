"""A kubelet's endpoint for logs, which a test answers."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trustme
from aiohttp import web

from controller_runtime import JsonObject

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def kubelet(handler: Handler) -> AsyncIterator[int]:
    """A kubelet endpoint with a certificate that nobody knows."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def node_status(port: int) -> JsonObject:
    """The status of a node whose kubelet listens there."""
    return {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
