"""The read side of the OCI distribution protocol over an `ImageStore`, with faults that can be switched on.

Serves `/v2/`, `_catalog`, `tags/list`, manifests and blobs, a token service, and the repository listing of the Docker
Hub API, so that wildcards on `docker.io` work against it too. Listens on the loopback only.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.typedefs import Handler

from aim_local.registry.auth import SIGN_IN_ROUTE, Auth, BasicAuth, BearerAuth
from aim_local.registry.images import PRIVATE_PREFIX, fill
from aim_local.registry.store import ImageStore, digest_of

_NAME: Final = "{name:[a-z0-9._/-]+}"
_LARGEST_PAGE: Final = 1000
_VERSION_HEADER: Final = {"Docker-Distribution-Api-Version": "registry/2.0"}
DEMO_AUTH: Final = BasicAuth("demo", "demo-password", PRIVATE_PREFIX)
"""Protects the private repositories of the demo catalogue."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An answer to give instead of the real one."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    """Seconds before answering."""
    released: asyncio.Event | None = None
    """Answer once it is set."""
    hangs_up: bool = False
    """Break the connection off instead of answering."""


class LocalRegistry:
    """A registry on `127.0.0.1`, for use as an async context manager.

    Args:
        port: TCP port; 0 takes a free one.
        store: content; without it the demo images.
        auth: what protects which repositories; None makes everything public.
        page_limit: most entries of a page, to make paging visible.
        tls: serve over TLS with this context.
        lists_have_etags: give lists an `ETag`, as some registries do, and confirm it with 304.
    """

    def __init__(
        self,
        port: int = 0,
        store: ImageStore | None = None,
        *,
        auth: Auth | None = DEMO_AUTH,
        page_limit: int = _LARGEST_PAGE,
        tls: ssl.SSLContext | None = None,
        lists_have_etags: bool = False,
    ) -> None:
        self.store = store if store is not None else fill(ImageStore())
        self.requests: Counter[str] = Counter()
        """Requests by kind: `ping`, `catalog`, `tags`, `manifest`, `blob`, `token`, `hub`."""
        self.answers: Counter[tuple[str, int]] = Counter()
        """Answers by kind and status; those to `HEAD` under `head-<kind>`."""
        self.concurrent_peak = 0
        self.user_agents: set[str] = set()
        self.connections: set[tuple[str, int]] = set()
        """Addresses of the clients' ends of all connections that brought a request."""
        self._port = port
        self._auth = auth
        self._page_limit = page_limit
        self._tls = tls
        self._lists_have_etags = lists_have_etags
        self._faults: dict[str, list[Fault]] = {}
        self._open = 0
        self._runner: web.AppRunner | None = None
        self._host = ""

    @property
    def host(self) -> str:
        """`127.0.0.1:<port>` while it runs."""
        return self._host

    @property
    def total_requests(self) -> int:
        """All requests so far."""
        return self.requests.total()

    def fail(self, kind: str, *faults: Fault) -> None:
        """Answer the next requests of a kind with these faults, one each."""
        self._faults.setdefault(kind, []).extend(faults)

    async def __aenter__(self) -> Self:
        """Start listening."""
        # Who has gone away is not worth waiting for, nor is a fault that takes its time.
        self._runner = web.AppRunner(
            self._application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.5
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._tls)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self._host = f"{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._middleware])
        application.add_routes(
            [
                web.get("/v2/", self._ping, name="ping"),
                web.get("/v2/_catalog", self._catalog, name="catalog"),
                web.get(f"/v2/{_NAME}/tags/list", self._tags, name="tags"),
                web.get(f"/v2/{_NAME}/manifests/{{reference}}", self._manifest, name="manifest"),
                web.get(f"/v2/{_NAME}/blobs/{{digest}}", self._blob, name="blob"),
                web.get(SIGN_IN_ROUTE, self._token, name="token"),
                web.get("/v2/namespaces/{namespace}/repositories", self._hub, name="hub"),
            ]
        )
        return application

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        kind = request.match_info.route.name or "other"
        self.requests[kind] += 1
        self.user_agents.add(request.headers.get("User-Agent", ""))
        if request.transport is not None:
            self.connections.add(request.transport.get_extra_info("peername")[:2])
        self._open += 1
        self.concurrent_peak = max(self.concurrent_peak, self._open)
        try:
            answer = await self._answered(request, kind, handler)
            self.answers[f"head-{kind}" if request.method == "HEAD" else kind, answer.status] += 1
            return answer
        finally:
            self._open -= 1

    async def _answered(self, request: web.Request, kind: str, handler: Handler) -> web.StreamResponse:
        faults = self._faults.get(kind)
        if faults:
            return await _answer_fault(request, faults.pop(0))
        refusal = self._refusal(request, kind)
        return refusal if refusal is not None else await handler(request)

    def _refusal(self, request: web.Request, kind: str) -> web.Response | None:
        if kind in ("token", "hub", "other"):
            return None
        name = request.match_info.get("name", "")
        scope = _scope(kind, name)
        if self._auth is None or self._auth.permits(request.headers.get("Authorization", ""), scope):
            return None
        answer = _error(401, "UNAUTHORIZED", "authentication required")
        answer.headers["WWW-Authenticate"] = self._auth.challenge(self._host, scope)
        return answer

    async def _ping(self, _request: web.Request) -> web.Response:
        return web.json_response({}, headers=_VERSION_HEADER)

    async def _catalog(self, request: web.Request) -> web.Response:
        return self._page(request, "repositories", self.store.repositories(), {})

    async def _tags(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        tags = self.store.tags(name)
        if tags is None:
            return _error(404, "NAME_UNKNOWN", f"repository name not known to registry: {name}")
        return self._page(request, "tags", tags, {"name": name})

    def _page(
        self, request: web.Request, member: str, names: list[str], document: Mapping[str, object]
    ) -> web.Response:
        asked = request.query.get("n", str(self._page_limit))
        if not asked.isdigit() or int(asked) == 0:
            return _error(400, "PAGINATION_NUMBER_INVALID", f"invalid number of results requested: {asked}")
        size = min(int(asked), self._page_limit)
        rest = [name for name in names if name > request.query.get("last", "")]
        page = rest[:size]
        headers = dict(_VERSION_HEADER)
        if len(rest) > size:
            query = urlencode({"n": asked, "last": page[-1]})
            headers["Link"] = f'<{request.path}?{query}>; rel="next"'
        answer = web.json_response({**document, member: page}, headers=headers)
        return _validated(request, answer) if self._lists_have_etags else answer

    async def _manifest(self, request: web.Request) -> web.Response:
        found = self.store.manifest(request.match_info["name"], request.match_info["reference"])
        if found is None:
            return _error(404, "MANIFEST_UNKNOWN", f"manifest unknown: {request.match_info['reference']}")
        digest, manifest = found
        return _content(request, manifest.body, manifest.media_type, digest)

    async def _blob(self, request: web.Request) -> web.Response:
        digest = request.match_info["digest"]
        body = self.store.blob(request.match_info["name"], digest)
        if body is None:
            return _error(404, "BLOB_UNKNOWN", f"blob unknown to registry: {digest}")
        return _content(request, body, "application/octet-stream", digest)

    async def _token(self, request: web.Request) -> web.Response:
        if isinstance(self._auth, BearerAuth):
            return self._auth.grant(request)
        return _error(404, "NOT_FOUND", "no token service")

    async def _hub(self, request: web.Request) -> web.Response:
        namespace = request.match_info["namespace"]
        names = [name for name in self.store.repositories() if name.startswith(f"{namespace}/")]
        if not names:
            return web.json_response({"message": "object not found"}, status=404)
        size = min(int(request.query.get("page_size", "10")), 100, self._page_limit)
        page = int(request.query.get("page", "1"))
        following = str(request.url.update_query(page=page + 1)) if len(names) > page * size else None
        shown = names[(page - 1) * size : page * size]
        results = [{"namespace": namespace, "name": name.removeprefix(f"{namespace}/")} for name in shown]
        return web.json_response({"count": len(names), "next": following, "results": results})


def _scope(kind: str, name: str) -> str:
    if kind == "catalog":
        return "registry:catalog:*"
    return f"repository:{name}:pull" if name else ""


async def _answer_fault(request: web.Request, fault: Fault) -> web.Response:
    await asyncio.sleep(fault.delay)
    if fault.released is not None:
        await fault.released.wait()
    if fault.hangs_up and request.transport is not None:
        request.transport.close()
    return web.Response(status=fault.status, headers=dict(fault.headers), body=fault.body)


def _content(request: web.Request, body: bytes, media_type: str, digest: str) -> web.Response:
    headers = {**_VERSION_HEADER, "Content-Type": media_type, "Docker-Content-Digest": digest, "ETag": f'"{digest}"'}
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, headers=headers)


def _validated(request: web.Request, answer: web.Response) -> web.Response:
    assert isinstance(answer.body, bytes)
    tag = f'"{digest_of(answer.body)}"'
    answer.headers["ETag"] = tag
    if request.headers.get("If-None-Match") != tag:
        return answer
    kept = {name: value for name, value in answer.headers.items() if name != "Content-Type"}
    return web.Response(status=304, headers=kept)


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response(
        {"errors": [{"code": code, "message": message, "detail": None}]}, status=status, headers=_VERSION_HEADER
    )
