"""The read side of the OCI distribution protocol over an `ImageStore`, with faults that can be switched on.

Serves `/v2/`, `_catalog`, `tags/list`, manifests and blobs, a token service, and the repository listing of the Docker
Hub API, so that wildcards on `docker.io` work against it too. Listens on the loopback only.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, TypeAlias
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aim_local.registry.auth import SIGN_IN_ROUTE, Auth, BasicAuth, BearerAuth
from aim_local.registry.images import PRIVATE_PREFIX, fill
from aim_local.registry.store import ImageStore, digest_of
from embedded_apiserver.serving import HOST, break_off, json_response, serving, wait_gone

_Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

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
        self._running = AsyncExitStack()
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
        port = await self._running.enter_async_context(serving(self._application(), self._port, tls=self._tls))
        self._host = f"{HOST}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        await self._running.aclose()

    def _application(self) -> Starlette:
        routes = {
            "ping": ("/v2/", self._ping),
            "catalog": ("/v2/_catalog", self._catalog),
            "tags": ("/v2/{name:path}/tags/list", self._tags),
            "manifest": ("/v2/{name:path}/manifests/{reference}", self._manifest),
            "blob": ("/v2/{name:path}/blobs/{digest}", self._blob),
            "token": (SIGN_IN_ROUTE, self._token),
            "hub": ("/v2/namespaces/{namespace}/repositories", self._hub),
        }
        known = [Route(path, self._count(kind, handler)) for kind, (path, handler) in routes.items()]
        return Starlette(routes=[*known, Route("/{path:path}", self._count("other", _nowhere))])

    def _count(self, kind: str, handler: _Handler) -> _Handler:
        async def answer(request: Request) -> Response:
            self.requests[kind] += 1
            self.user_agents.add(request.headers.get("user-agent", ""))
            if request.client is not None:
                self.connections.add((request.client.host, request.client.port))
            self._open += 1
            self.concurrent_peak = max(self.concurrent_peak, self._open)
            try:
                answer = await self._answered(request, kind, handler)
                self.answers[f"head-{kind}" if request.method == "HEAD" else kind, answer.status_code] += 1
                return answer
            finally:
                self._open -= 1

        return answer

    async def _answered(self, request: Request, kind: str, handler: _Handler) -> Response:
        faults = self._faults.get(kind)
        if faults:
            return await _answer_fault(request, faults.pop(0))
        refusal = self._refusal(request, kind)
        return refusal if refusal is not None else await handler(request)

    def _refusal(self, request: Request, kind: str) -> Response | None:
        if kind in ("token", "hub", "other"):
            return None
        name = request.path_params.get("name", "")
        scope = _scope(kind, name)
        if self._auth is None or self._auth.permits(request.headers.get("authorization", ""), scope):
            return None
        answer = _error(401, "UNAUTHORIZED", "authentication required")
        answer.headers["WWW-Authenticate"] = self._auth.challenge(self._host, scope)
        return answer

    async def _ping(self, _request: Request) -> Response:
        return _versioned({})

    async def _catalog(self, request: Request) -> Response:
        return self._page(request, "repositories", self.store.repositories(), {})

    async def _tags(self, request: Request) -> Response:
        name = request.path_params["name"]
        tags = self.store.tags(name)
        if tags is None:
            return _error(404, "NAME_UNKNOWN", f"repository name not known to registry: {name}")
        return self._page(request, "tags", tags, {"name": name})

    def _page(self, request: Request, member: str, names: list[str], document: Mapping[str, object]) -> Response:
        asked = request.query_params.get("n", str(self._page_limit))
        if not asked.isdigit() or int(asked) == 0:
            return _error(400, "PAGINATION_NUMBER_INVALID", f"invalid number of results requested: {asked}")
        size = min(int(asked), self._page_limit)
        rest = [name for name in names if name > request.query_params.get("last", "")]
        page = rest[:size]
        answer = _versioned({**document, member: page})
        if len(rest) > size:
            query = urlencode({"n": asked, "last": page[-1]})
            answer.headers["Link"] = f'<{request.url.path}?{query}>; rel="next"'
        return _validated(request, answer) if self._lists_have_etags else answer

    async def _manifest(self, request: Request) -> Response:
        found = self.store.manifest(request.path_params["name"], request.path_params["reference"])
        if found is None:
            return _error(404, "MANIFEST_UNKNOWN", f"manifest unknown: {request.path_params['reference']}")
        digest, manifest = found
        return _content(request, manifest.body, manifest.media_type, digest)

    async def _blob(self, request: Request) -> Response:
        digest = request.path_params["digest"]
        body = self.store.blob(request.path_params["name"], digest)
        if body is None:
            return _error(404, "BLOB_UNKNOWN", f"blob unknown to registry: {digest}")
        return _content(request, body, "application/octet-stream", digest)

    async def _token(self, request: Request) -> Response:
        if isinstance(self._auth, BearerAuth):
            return self._auth.grant(request)
        return _error(404, "NOT_FOUND", "no token service")

    async def _hub(self, request: Request) -> Response:
        namespace = request.path_params["namespace"]
        names = [name for name in self.store.repositories() if name.startswith(f"{namespace}/")]
        if not names:
            return json_response({"message": "object not found"}, 404)
        size = min(int(request.query_params.get("page_size", "10")), 100, self._page_limit)
        page = int(request.query_params.get("page", "1"))
        following = str(request.url.include_query_params(page=page + 1)) if len(names) > page * size else None
        shown = names[(page - 1) * size : page * size]
        results = [{"namespace": namespace, "name": name.removeprefix(f"{namespace}/")} for name in shown]
        return json_response({"count": len(names), "next": following, "results": results})


def _scope(kind: str, name: str) -> str:
    if kind == "catalog":
        return "registry:catalog:*"
    return f"repository:{name}:pull" if name else ""


async def _nowhere(_: Request) -> Response:
    return Response(b"404: Not Found", 404, media_type="text/plain")


async def _answer_fault(request: Request, fault: Fault) -> Response:
    # Who has gone away is not worth waiting for.
    held, left = asyncio.ensure_future(_hold(fault)), asyncio.ensure_future(wait_gone(request))
    try:
        await asyncio.wait((held, left), return_when=asyncio.FIRST_COMPLETED)
    finally:
        held.cancel()
        left.cancel()
    if fault.hangs_up:
        break_off(request)
    return Response(fault.body, fault.status, dict(fault.headers))


async def _hold(fault: Fault) -> None:
    await asyncio.sleep(fault.delay)
    if fault.released is not None:
        await fault.released.wait()


def _content(request: Request, body: bytes, media_type: str, digest: str) -> Response:
    headers = {**_VERSION_HEADER, "Content-Type": media_type, "Docker-Content-Digest": digest, "ETag": f'"{digest}"'}
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers)


def _validated(request: Request, answer: Response) -> Response:
    tag = f'"{digest_of(bytes(answer.body))}"'
    answer.headers["ETag"] = tag
    if request.headers.get("If-None-Match") != tag:
        return answer
    kept = {name: value for name, value in answer.headers.items() if name not in ("content-type", "content-length")}
    return Response(status_code=304, headers=kept)


def _versioned(document: object, status: int = 200) -> Response:
    answer = json_response(document, status)
    answer.headers.update(_VERSION_HEADER)
    return answer


def _error(status: int, code: str, message: str) -> Response:
    return _versioned({"errors": [{"code": code, "message": message, "detail": None}]}, status)
