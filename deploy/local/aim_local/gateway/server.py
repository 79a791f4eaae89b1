"""The gateway's HTTP server: one port for all Gateways of the cluster, requests and answers streamed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from yarl import URL

from aim_domain.kinds import HTTP_ROUTE
from aim_local.actors.gateways import is_served, is_undecided
from aim_local.actors.objects import SERVICE
from aim_local.actors.runtime import Informer
from aim_local.gateway.routes import RouteTable, Target, routes_of
from controller_runtime import JsonObject, Key, KubeClient
from embedded_apiserver.serving import ANY_METHOD, HOST, break_off, json_response, serving

READY_PATH: Final = "/-/ready"
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
        there = routes.get(key) is not None
        if there and is_undecided(route):
            return
        table.put(key, routes_of(route) if there and is_served(route) else ())

    routes.listen(follow)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    async with (
        asyncio.TaskGroup() as group,
        aiohttp.ClientSession(timeout=timeout, auto_decompress=False, trust_env=False) as session,
    ):
        following = [group.create_task(one.run()) for one in (routes, services)]
        try:
            await routes.synced.wait()
            await services.synced.wait()
            proxy = _Proxy(table, services, session, engine_url)
            anything = Route("/{path:path}", proxy.handle, methods=ANY_METHOD)
            async with serving(Starlette(routes=[Route(READY_PATH, proxy.ready), anything]), port) as bound:
                yield f"http://{HOST}:{bound}"
        finally:
            for task in following:
                task.cancel()


class _Proxy:
    def __init__(self, table: RouteTable, services: Informer, session: aiohttp.ClientSession, engine_url: str) -> None:
        self._table = table
        self._services = services
        self._session = session
        self._engine = URL(engine_url)

    async def ready(self, _: Request) -> Response:
        return PlainTextResponse("ok")

    async def handle(self, request: Request) -> Response:
        """Forward one request, or say why not."""
        host, path = request.headers.get("host", ""), request.scope["raw_path"].decode()
        target = self._table.find(host, path)
        if target is None:
            served = ", ".join(self._table.paths()[:20]) or "none"
            return _problem(404, f"no accepted HTTPRoute matches {request.url.path}; paths served: {served}")
        owner, backend = target.route.owner, target.backend
        if backend is None or self._services.get(backend) is None:
            return _problem(503, f"HTTPRoute {owner}: backend Service {backend} does not exist")
        within = asyncio.timeout(target.route.timeout)
        try:
            async with within:
                answer = await self._forward(request, target, backend)
        except TimeoutError:
            return _problem(504, f"HTTPRoute {owner}: no answer within {target.route.timeout:g} s")
        except aiohttp.ClientError as error:
            return _problem(502, f"HTTPRoute {owner}: Service {backend} does not answer: {error}")
        response = StreamingResponse(_relayed(request, answer, within.when()), answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                response.headers.append(name, value)
        return response

    async def _forward(self, request: Request, target: Target, backend: Key) -> aiohttp.ClientResponse:
        url = self._engine.join(URL.build(path=target.path, query_string=request.url.query, encoded=True))
        headers = [(name, value) for name, value in request.headers.items() if name not in _HOP_BY_HOP]
        forwarded = [
            ("Host", f"{backend.name}.{backend.namespace}.svc.cluster.local"),
            ("X-Forwarded-Host", request.headers.get("host", "")),
            ("X-Forwarded-Proto", request.url.scheme),
            ("X-Forwarded-For", request.client.host if request.client is not None else ""),
        ]
        body = request.stream() if {"content-length", "transfer-encoding"} & set(request.headers) else None
        return await self._session.request(
            request.method, url, headers=[*headers, *forwarded], data=body, allow_redirects=False
        )


async def _relayed(request: Request, answer: aiohttp.ClientResponse, until: float | None) -> AsyncIterator[bytes]:
    """The pieces of an answer as they come."""
    async with answer:
        try:
            while True:
                async with asyncio.timeout_at(until):
                    piece = await answer.content.readany()
                if not piece:
                    return
                yield piece
        except (TimeoutError, aiohttp.ClientError):
            # The status line is out already, so only an end of the connection can still say that something broke.
            break_off(request)


def _problem(status: int, message: str) -> Response:
    return json_response({"error": {"message": message, "code": status}}, status)
