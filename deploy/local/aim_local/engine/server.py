"""The engine's HTTP server: chooses the backend by the Host header, as a cluster's network does by the address."""

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from aiohttp import web

from aim_local.engine.backends import Backends
from aim_local.engine.completions import (
    BadRequestError,
    answer_to,
    chunks,
    completion,
    failure,
    models,
    question_of,
)
from aim_shared.json import JsonObject, dumps, loads

READY_PATH: Final = "/-/ready"
"""Whether this process serves; of no backend in particular."""
_HOST: Final = "127.0.0.1"


@asynccontextmanager
async def engine(backends: Backends, port: int = 0) -> AsyncIterator[str]:
    """Serve all backends on one port of the loopback; yields the URL."""
    handlers = _Handlers(backends)
    application = web.Application()
    application.add_routes(
        [
            web.get(READY_PATH, handlers.ready),
            web.get("/health", handlers.health),
            web.get("/v1/models", handlers.models),
            web.post("/v1/chat/completions", handlers.chat),
            web.route("*", "/{path:.*}", handlers.unknown),
        ]
    )
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, port).start()
        yield f"http://{_HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class _Target(NamedTuple):
    model: str
    pod: str


class _Handlers:
    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._started = int(time.time())

    async def ready(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def health(self, request: web.Request) -> web.Response:
        self._target(request)
        return web.Response()

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response(models(self._started, self._target(request).model))

    async def unknown(self, request: web.Request) -> web.Response:
        raise _error(web.HTTPNotFound, f"{request.method} {request.path}: no such endpoint", "NotFoundError")

    async def chat(self, request: web.Request) -> web.StreamResponse:
        target = self._target(request)
        asked = await _body(request)
        if asked.get("model") not in (None, "", target.model):
            message = f"The model `{asked['model']}` does not exist; this backend serves `{target.model}`."
            raise _error(web.HTTPNotFound, message, "NotFoundError")
        try:
            question = question_of(asked)
        except BadRequestError as problem:
            raise _error(web.HTTPBadRequest, str(problem), "BadRequestError") from problem
        answer = answer_to(question, *target)
        identity, created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())
        if asked.get("stream"):
            return await _stream(request, chunks(identity, created, target.model, answer))
        return web.json_response(completion(identity, created, target.model, question, answer))

    def _target(self, request: web.Request) -> _Target:
        backend = self._backends.of_host(request.host)
        if backend is None:
            raise _error(web.HTTPNotFound, f"no predictor Service behind host {request.host}", "NotFoundError")
        pod = self._backends.next_pod(backend)
        if pod is None:
            message = f"no pod of Service {backend.service} is ready"
            raise _error(web.HTTPServiceUnavailable, message, "ServiceUnavailableError")
        return _Target(backend.model, pod)


async def _body(request: web.Request) -> JsonObject:
    try:
        return loads(await request.read())
    except ValueError as error:
        raise _error(web.HTTPBadRequest, f"the body is no JSON object: {error}", "BadRequestError") from error


async def _stream(request: web.Request, events: Iterator[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    for event in events:
        await response.write(event)
    await response.write_eof()
    return response


def _error(kind: type[web.HTTPException], message: str, name: str) -> web.HTTPException:
    text = dumps(failure(message, name, kind.status_code)).decode()
    return kind(text=text, content_type="application/json")
