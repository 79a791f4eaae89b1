"""`/debug/…`: what only this server has, for tests and measurements; none of it is a Kubernetes API."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from aim_local.apiserver import status
from aim_local.apiserver.http import Request, Response, json_response
from aim_local.apiserver.requestlog import RequestLog
from aim_local.apiserver.store import Store

PREFIX: Final = "/debug/"

_Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class DebugApi:
    """Answers requests below `/debug/`."""

    def __init__(self, store: Store, log: RequestLog) -> None:
        self._store = store
        self._log = log
        self._handlers: dict[tuple[str, str], _Handler] = {
            ("GET", "/debug/requests"): self._report,
            ("DELETE", "/debug/requests"): self._reset,
            ("POST", "/debug/compact"): self._compact,
        }

    async def handle(self, request: Request) -> Response:
        """Answer one request.

        Raises:
            ApiError: 404 for anything unknown.
        """
        handler = self._handlers.get((request.method, request.path.rstrip("/")))
        if handler is None:
            raise status.path_not_found()
        return await handler(request)

    async def _report(self, _request: Request) -> Response:
        return json_response(self._log.report())

    async def _reset(self, _request: Request) -> Response:
        self._log.reset()
        return json_response(self._log.report())

    async def _compact(self, _request: Request) -> Response:
        self._store.compact()
        return json_response({"revision": self._store.revision})
