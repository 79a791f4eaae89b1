"""The one seam at which faults enter: between the HTTP server and the API."""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.responses import AsyncContentStream, Response, StreamingResponse

from embedded_apiserver import status
from embedded_apiserver.faults import Crash, Fault, Faults, Latency, Phase, Refusal, Reset, Silence, Stale, Subject
from embedded_apiserver.http import Handler, Request
from embedded_apiserver.requestinfo import parse_target, user_agent, verb_of
from embedded_apiserver.serving import break_off, wait_gone

_WRITES: Final = frozenset({"create", "update", "patch", "apply", "delete", "deletecollection"})
_REASONS: Final = {
    400: status.Reason.BAD_REQUEST,
    401: status.Reason.UNAUTHORIZED,
    403: status.Reason.FORBIDDEN,
    404: status.Reason.NOT_FOUND,
    409: status.Reason.CONFLICT,
    410: status.Reason.EXPIRED,
    429: status.Reason.TOO_MANY_REQUESTS,
    500: status.Reason.INTERNAL_ERROR,
    503: status.Reason.SERVICE_UNAVAILABLE,
    504: status.Reason.TIMEOUT,
}


class Injector:
    """Middleware that makes requests go wrong as the rules say.

    Args:
        faults: the rules.
        crash: ends the server's life; it returns at once.
    """

    def __init__(self, faults: Faults, crash: Callable[[Crash], None]) -> None:
        self._faults = faults
        self._crash = crash

    async def __call__(self, request: Request, handler: Handler) -> Response:
        """Answer the request, or not.

        Raises:
            ApiError: the fault is an error answer.
            ConnectionAbortedError: the client gets no answer.
        """
        subject = _subject(request) if self._faults.armed else None
        due = self._faults.due(subject) if subject is not None else []
        for fault in due:
            await self._before(fault, request)
        response = await handler(request)
        for fault in due:
            response = await self._after(fault, request, response)
        return response

    async def _before(self, fault: Fault, request: Request) -> None:
        match fault:
            case Latency():
                await asyncio.sleep(self._faults.delay(fault))
            case Refusal(phase=Phase.BEFORE):
                raise _refusal(fault)
            case Reset(phase=Phase.BEFORE, chunks=0):
                await _hang_up(request)
            case Stale(revision=int(revision)):
                request.as_of = revision
            case Crash(phase=Phase.BEFORE):
                await self._die(fault, request)

    async def _after(self, fault: Fault, request: Request, response: Response) -> Response:
        match fault:
            case Refusal(phase=Phase.AFTER):
                raise _refusal(fault)
            case Reset(phase=Phase.AFTER) if not isinstance(response, StreamingResponse):
                await _hang_up(request)
            case Reset(chunks=chunks) if isinstance(response, StreamingResponse):
                response.body_iterator = _broken(response.body_iterator, chunks, request)
            case Silence(chunks=chunks) if isinstance(response, StreamingResponse):
                response.body_iterator = _silenced(response.body_iterator, chunks)
            case Crash(phase=Phase.AFTER):
                await self._die(fault, request)
        return response

    async def _die(self, fault: Crash, request: Request) -> None:
        self._crash(fault)
        await _hang_up(request)


def _subject(request: Request) -> Subject | None:
    target = parse_target(request.path)
    if target is None:
        return None
    verb = verb_of(request, target)
    if verb == "patch" and "apply-patch" in request.headers.get("content-type", ""):
        verb = "apply"
    names = {verb, "write"} if verb in _WRITES else {verb}
    resource = f"{target.plural}.{target.group}" if target.group else target.plural
    return Subject(frozenset(names), resource, target.subresource, target.namespace, target.name, user_agent(request))


def _refusal(fault: Refusal) -> status.ApiError:
    details = {"retryAfterSeconds": fault.retry_after_seconds} if fault.retry_after_seconds else None
    return status.ApiError(fault.code, _REASONS.get(fault.code, status.Reason.UNKNOWN), fault.message, details)


async def _hang_up(request: Request) -> None:
    break_off(request)
    await wait_gone(request)
    raise ConnectionAbortedError("a fault rule broke the connection")


async def _silenced(stream: AsyncContentStream, chunks: int) -> AsyncContentStream:
    async for chunk in _first(stream, chunks):
        yield chunk
    await asyncio.Event().wait()


async def _broken(stream: AsyncContentStream, chunks: int, request: Request) -> AsyncContentStream:
    async for chunk in _first(stream, chunks):
        yield chunk
    break_off(request)


async def _first(stream: AsyncContentStream, chunks: int) -> AsyncContentStream:
    """The first pieces; the empty one that only opens the stream does not count."""
    left = chunks
    async for chunk in stream:
        if chunk and left <= 0:
            return
        yield chunk
        left -= bool(chunk)
        if left <= 0:
            return
