"""The gateway's HTTP server: one port for all Gateways of the cluster, requests and answers streamed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from aiohttp import web
from yarl import URL

from aim_local.actors.gateway_status import is_served
from aim_local.actors.informer import Informer
from aim_local.actors.kinds import SERVICE
from aim_local.gateway.routes import RouteTable, Target, routes_of
from aim_local.keys import Key
from aim_shared.api.kinds import HTTP_ROUTE
from aim_shared.json import JsonObject
from aim_shared.kube.client import KubeClient

READY_PATH: Final = "/-/ready"
_HOST: Final = "127.0.0.1"
_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
    }
)
_CONNECT_SECONDS: Final = 5.0


@asynccontextmanager
async def gateway(client: KubeClient, engine_url: str, port: int = 0) -> AsyncIterator[str]:
    """Serve the accepted routes of the cluster on the loopback; yields the URL once all of them are known."""
    routes, services, table = Informer(client, HTTP_ROUTE), Informer(client, SERVICE), RouteTable()

    def follow(key: Key, route: JsonObject) -> None:
        served = routes.get(key) is not None and is_served(route)
        table.put(key, routes_of(route) if served else ())

    routes.listen(follow)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    async with (
        asyncio.TaskGroup() as group,
        aiohttp.ClientSession(timeout=timeout, auto_decompress=False, trust_env=False) as session,
    ):
        following = [group.create_task(one.run()) for one in (routes, services)]
        runner = web.AppRunner(_application(_Proxy(table, services, session, engine_url)), access_log=None)
        try:
            await routes.synced.wait()
            await services.synced.wait()
            await runner.setup()
            await web.TCPSite(runner, _HOST, port).start()
            yield f"http://{_HOST}:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
            for task in following:
                task.cancel()


def _application(proxy: "_Proxy") -> web.Application:
    application = web.Application(client_max_size=2**30)
    application.router.add_get(READY_PATH, proxy.ready)
    application.router.add_route("*", "/{path:.*}", proxy.handle)
    return application


class _Proxy:
    def __init__(self, table: RouteTable, services: Informer, session: aiohttp.ClientSession, engine_url: str) -> None:
        self._table = table
        self._services = services
        self._session = session
        self._engine = URL(engine_url)

    async def ready(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Forward one request, or say why not."""
        target = self._table.find(request.host, request.rel_url.raw_path)
        if target is None:
            served = ", ".join(self._table.paths()[:20]) or "none"
            return _problem(404, f"no accepted HTTPRoute matches {request.path}; paths served: {served}")
        backend = target.route.backend
        if backend is None or self._services.get(backend) is None:
            return _problem(503, f"HTTPRoute {target.route.owner}: backend Service {backend} does not exist")
        response = web.StreamResponse()
        try:
            async with asyncio.timeout(target.route.timeout):
                await self._forward(request, response, target, backend)
        except TimeoutError:
            why = _problem(504, f"HTTPRoute {target.route.owner}: no answer within {target.route.timeout:g} s")
        except aiohttp.ClientError as error:
            why = _problem(502, f"HTTPRoute {target.route.owner}: Service {backend} does not answer: {error}")
        else:
            return response
        if not response.prepared:
            return why
        # The status line is out already, so only an end of the connection can still say that something broke.
        if request.transport is not None:
            request.transport.abort()
        return response

    async def _forward(self, request: web.Request, response: web.StreamResponse, target: Target, backend: Key) -> None:
        query = request.rel_url.raw_query_string
        url = self._engine.join(URL.build(path=target.path, query_string=query, encoded=True))
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP]
        forwarded = [
            ("Host", f"{backend.name}.{backend.namespace}.svc.cluster.local"),
            ("X-Forwarded-Host", request.host),
            ("X-Forwarded-Proto", request.scheme),
            ("X-Forwarded-For", request.remote or ""),
        ]
        body = request.content if request.body_exists else None
        async with self._session.request(
            request.method, url, headers=[*headers, *forwarded], data=body, allow_redirects=False
        ) as answer:
            response.set_status(answer.status, answer.reason)
            for name, value in answer.headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    response.headers.add(name, value)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()


def _problem(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "code": status}}, status=status)
