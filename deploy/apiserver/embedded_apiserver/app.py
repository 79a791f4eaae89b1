"""The ASGI application: finds the handler of a path, runs it behind the middleware, counts it, words its failure."""

import logging
from collections.abc import Callable
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from embedded_apiserver import discovery, status
from embedded_apiserver import discovery as openapi
from embedded_apiserver.debugapi import PREFIX, DebugApi, RequestKind, RequestLog
from embedded_apiserver.discovery import answer, asked_version
from embedded_apiserver.http import Handler, Middleware, Request
from embedded_apiserver.requestinfo import Target, field_manager, parse_target, user_agent, verb_of
from embedded_apiserver.resourceapi import ResourceApi
from embedded_apiserver.resources import Registry
from embedded_apiserver.serving import json_response

_log: Final = logging.getLogger(__name__)
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_WRITES: Final = frozenset({"create", "update", "patch"})


class App:
    """The API server as an ASGI application."""

    def __init__(
        self,
        registry: Registry,
        resources: ResourceApi,
        log: RequestLog,
        middleware: Middleware,
        debug: DebugApi,
    ) -> None:
        self._registry = registry
        self._resources = resources
        self._log = log
        self._debug = debug
        self._handler: Handler = _behind(middleware, self._handle)
        self._documents: dict[str, Callable[[], object]] = {
            "/version": lambda: discovery.VERSION,
            "/api": lambda: discovery.CORE_VERSIONS,
            "/apis": lambda: discovery.group_list(registry),
            "/openapi/v3": lambda: openapi.index(registry),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive, send)
        try:
            response = await self._handler(request)
        except status.ApiError as error:
            response = json_response(error.body(), error.code)
            if error.retry_after:
                response.headers["retry-after"] = str(error.retry_after)
        except status.PathNotFoundError:
            response = Response(b"404 page not found\n", 404, media_type="text/plain")
        except (ConnectionAbortedError, ClientDisconnect):
            return
        except Exception as error:
            _log.exception("%s %s failed", request.method, request.path)
            response = json_response(status.internal(f"{type(error).__name__}: {error}").body(), 500)
        self._count(request, response.status_code)
        await response(scope, receive, send)

    async def _handle(self, request: Request) -> Response:
        target = parse_target(request.path)
        if target is not None:
            return await self._resources.handle(verb_of(request, target), target, request)
        if request.path.startswith(PREFIX):
            return await self._debug.handle(request)
        return self._other(request)

    def _other(self, request: Request) -> Response:
        path = request.path.rstrip("/")
        if path in _HEALTH:
            return Response(b"ok", media_type="text/plain")
        version = asked_version(request) if path in ("/api", "/apis") else ""
        if version:
            return answer(self._registry, request, version, core=path == "/api")
        document = self._documents.get(path)
        value = document() if document else self._group_document(path.split("/")[1:])
        if value is None:
            raise status.PathNotFoundError
        return json_response(value)

    def _group_document(self, parts: list[str]) -> object:
        match parts:
            case ["api", version]:
                return discovery.resource_list(self._registry, "", version)
            case ["apis", group]:
                versions = self._registry.group_versions().get(group)
                found = discovery.group(group, versions) if versions else None
                return {"kind": "APIGroup", "apiVersion": "v1"} | found if found else None
            case ["apis", group, version]:
                return discovery.resource_list(self._registry, group, version)
            case ["openapi", "v3", "api", version]:
                return openapi.document(self._registry, "", version)
            case ["openapi", "v3", "apis", group, version]:
                return openapi.document(self._registry, group, version)
        return None

    def _count(self, request: Request, code: int) -> None:
        target = parse_target(request.path)
        if target is None:
            if request.path.startswith(PREFIX):
                return
            target, verb = Target("", "", request.path), request.method.lower()
        else:
            verb = verb_of(request, target)
        if verb == "patch" and "apply-patch" in request.headers.get("content-type", ""):
            verb = "apply"
        manager = field_manager(request) if verb in _WRITES or verb == "apply" else ""
        self._log.count(
            RequestKind(verb, target.group, target.plural, target.subresource, user_agent(request), manager, code)
        )


def _behind(middleware: Middleware, handler: Handler) -> Handler:
    async def handle(request: Request) -> Response:
        return await middleware(request, handler)

    return handle
