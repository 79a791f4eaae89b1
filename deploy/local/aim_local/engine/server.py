"""The engine's HTTP server: chooses the backend by the Host header, as a cluster's network does by the address."""

import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from aim_local.engine.adapters import AdaptersOfPods, EnginePod
from aim_local.engine.backends import Backends
from aim_local.engine.program import Adapters, RefusedError, models_of
from controller_runtime import JsonObject, dumps, loads
from embedded_apiserver.serving import ANY_METHOD, HOST, json_response, serving


class BadRequestError(Exception):
    """The request is not understood; the text says what is missing."""


def question_of(request: JsonObject) -> str:
    """The text of the last message of the user.

    Raises:
        BadRequestError: there is none.
    """
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("messages: a list with at least one message is required")
    asked = [one for one in messages if isinstance(one, dict) and one.get("role") == "user"]
    if not asked:
        raise BadRequestError("messages: at least one message of the role 'user' is required")
    content = asked[-1].get("content", "")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def answer_to(question: str, model: str, pod: str) -> str:
    """What the echo says."""
    return f"This is {model}, simulated on pod {pod}. You said: {question}"


def completion(identity: str, created: int, model: str, question: str, answer: str) -> JsonObject:
    """A whole chat completion."""
    asked, said = len(question.split()), len(answer.split())
    return {
        "id": identity,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop", "logprobs": None}
        ],
        "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
    }


def chunks(identity: str, created: int, model: str, answer: str) -> Iterator[bytes]:
    """The same answer as server-sent events, a word at a time."""
    yield _event(identity, created, model, {"role": "assistant", "content": ""}, None)
    words = answer.split(" ")
    for index, word in enumerate(words):
        yield _event(identity, created, model, {"content": word if index == 0 else f" {word}"}, None)
    yield _event(identity, created, model, {}, "stop")
    yield b"data: [DONE]\n\n"


def failure(message: str, kind: str, code: int) -> JsonObject:
    """An error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _event(identity: str, created: int, model: str, delta: JsonObject, finish: str | None) -> bytes:
    chunk = {
        "id": identity,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return b"data: " + dumps(chunk) + b"\n\n"


READY_PATH: Final = "/-/ready"
"""Whether this process serves; of no backend in particular."""
_EVENTS: Final = {"content-type": "text/event-stream", "cache-control": "no-cache"}


@asynccontextmanager
async def engine(backends: Backends, port: int = 0) -> AsyncIterator[str]:
    """Serve all backends on one port of the loopback; yields the URL."""
    handlers = _Handlers(backends)
    application = Starlette(
        routes=[
            Route(READY_PATH, handlers.ready),
            Route("/health", handlers.health),
            Route("/v1/models", handlers.models),
            Route("/v1/chat/completions", handlers.chat, methods=["POST"]),
            Route("/v1/load_lora_adapter", handlers.load, methods=["POST"]),
            Route("/v1/unload_lora_adapter", handlers.unload, methods=["POST"]),
            Route("/{path:path}", handlers.unknown, methods=ANY_METHOD),
        ],
        exception_handlers={_RefusedError: _refusal},
    )
    async with serving(application, port) as bound:
        yield f"http://{HOST}:{bound}"


class _Target(NamedTuple):
    model: str
    pod: EnginePod


class _RefusedError(Exception):
    """The answer is an error in the shape of the OpenAI API."""

    def __init__(self, status: int, message: str, name: str) -> None:
        self.status = status
        self.name = name
        super().__init__(message)


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, _RefusedError)
    return json_response(failure(str(error), error.name, error.status), error.status)


class _Handlers:
    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._adapters = AdaptersOfPods()
        self._started = int(time.time())

    async def ready(self, _: Request) -> Response:
        return PlainTextResponse("ok")

    async def health(self, request: Request) -> Response:
        self._target(request)
        return Response()

    async def models(self, request: Request) -> Response:
        target = self._target(request)
        return json_response(models_of(self._started, target.model, self._adapters.of(target.pod).paths))

    async def load(self, request: Request) -> Response:
        return await self._adapt(request, Adapters.load)

    async def unload(self, request: Request) -> Response:
        return await self._adapt(request, Adapters.unload)

    async def _adapt(self, request: Request, change: Callable[[Adapters, JsonObject], str]) -> Response:
        adapters = self._adapters.of(self._target(request).pod)
        if adapters.max_rank is None:
            # Only with VLLM_ALLOW_RUNTIME_LORA_UPDATING has vLLM this endpoint.
            return json_response({"detail": "Not Found"}, 404)
        try:
            return PlainTextResponse(change(adapters, await _body(request)))
        except RefusedError as error:
            kind = "NotFoundError" if error.status == 404 else "BadRequestError"
            raise _RefusedError(error.status, str(error), kind) from error

    async def unknown(self, request: Request) -> Response:
        raise _RefusedError(404, f"{request.method} {request.url.path}: no such endpoint", "NotFoundError")

    async def chat(self, request: Request) -> Response:
        target = self._target(request)
        asked = await _body(request)
        adapters = self._adapters.of(target.pod).paths
        if asked.get("model") not in {None, "", target.model, *adapters}:
            message = f"The model `{asked['model']}` does not exist; this backend serves `{target.model}`."
            raise _RefusedError(404, message, "NotFoundError")
        try:
            question = question_of(asked)
        except BadRequestError as problem:
            raise _RefusedError(400, str(problem), "BadRequestError") from problem
        served = asked["model"] if asked.get("model") in adapters else target.model
        answer = answer_to(question, served, target.pod.name)
        identity, created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())
        if asked.get("stream"):
            events = chunks(identity, created, served, answer)
            return StreamingResponse(events, headers=_EVENTS)
        return json_response(completion(identity, created, served, question, answer))

    def _target(self, request: Request) -> _Target:
        host = request.headers.get("host", "")
        backend = self._backends.of_host(host)
        if backend is None:
            raise _RefusedError(404, f"no predictor Service behind host {host}", "NotFoundError")
        pod = self._backends.next_pod(backend)
        if pod is None:
            raise _RefusedError(503, f"no pod of Service {backend.service} is ready", "ServiceUnavailableError")
        return _Target(backend.model, pod)


async def _body(request: Request) -> JsonObject:
    try:
        return loads(await request.body())
    except ValueError as error:
        raise _RefusedError(400, f"the body is not a JSON object: {error}", "BadRequestError") from error
