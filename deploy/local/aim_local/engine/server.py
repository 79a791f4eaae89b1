"""The engine's HTTP server: chooses the backend by the Host header, as a cluster's network does by the address."""

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from aim_local.engine.backends import Backends
from aim_local.serving import ANY_METHOD, HOST, json_response, serving
from controller_runtime import JsonObject, dumps, loads


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


def models(created: int, model: str) -> JsonObject:
    """The list of models: the one."""
    entry = {"id": model, "object": "model", "created": created, "owned_by": "aim-local"}
    return {"object": "list", "data": [entry]}


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
            Route("/{path:path}", handlers.unknown, methods=ANY_METHOD),
        ],
        exception_handlers={_RefusedError: _refusal},
    )
    async with serving(application, port) as bound:
        yield f"http://{HOST}:{bound}"


class _Target(NamedTuple):
    model: str
    pod: str


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
        self._started = int(time.time())

    async def ready(self, _: Request) -> Response:
        return PlainTextResponse("ok")

    async def health(self, request: Request) -> Response:
        self._target(request)
        return Response()

    async def models(self, request: Request) -> Response:
        return json_response(models(self._started, self._target(request).model))

    async def unknown(self, request: Request) -> Response:
        raise _RefusedError(404, f"{request.method} {request.url.path}: no such endpoint", "NotFoundError")

    async def chat(self, request: Request) -> Response:
        target = self._target(request)
        asked = await _body(request)
        if asked.get("model") not in (None, "", target.model):
            message = f"The model `{asked['model']}` does not exist; this backend serves `{target.model}`."
            raise _RefusedError(404, message, "NotFoundError")
        try:
            question = question_of(asked)
        except BadRequestError as problem:
            raise _RefusedError(400, str(problem), "BadRequestError") from problem
        answer = answer_to(question, *target)
        identity, created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())
        if asked.get("stream"):
            events = chunks(identity, created, target.model, answer)
            return StreamingResponse(events, headers=_EVENTS)
        return json_response(completion(identity, created, target.model, question, answer))

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
