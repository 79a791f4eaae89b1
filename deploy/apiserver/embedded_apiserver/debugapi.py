"""`/debug/…`: what only this server has: faults on demand and the count of requests."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Final, TypeAlias

from pydantic import ValidationError
from starlette.responses import Response

from controller_runtime import JsonObject
from embedded_apiserver import status
from embedded_apiserver.faults import Armed, FaultRule, Faults, pinned
from embedded_apiserver.http import Request
from embedded_apiserver.serving import json_response
from embedded_apiserver.store import Store

KINDS_KEPT: Final = 2_000
"""Kinds of requests that are distinguished; paths, user agents and managers are whatever clients send."""


@dataclass(frozen=True, slots=True)
class RequestKind:
    """What requests are counted by."""

    verb: str
    group: str
    resource: str
    subresource: str
    user_agent: str
    field_manager: str
    status: int


_OTHERS: Final = RequestKind("", "", "", "", "", "", 0)


class RequestLog:
    """Counters since the start or the last reset."""

    def __init__(self) -> None:
        self._counts: Counter[RequestKind] = Counter()

    def count(self, kind: RequestKind) -> None:
        """Count one request; where there are too many kinds already, as one of the others."""
        if kind not in self._counts and len(self._counts) >= KINDS_KEPT:
            kind = _OTHERS
        self._counts[kind] += 1

    def reset(self) -> None:
        """Start again from zero."""
        self._counts.clear()

    def report(self) -> JsonObject:
        """All counters, the largest first."""
        entries = [
            {
                "verb": kind.verb,
                "group": kind.group,
                "resource": kind.resource,
                "subresource": kind.subresource,
                "userAgent": kind.user_agent,
                "fieldManager": kind.field_manager,
                "status": kind.status,
                "count": count,
            }
            for kind, count in self._counts.most_common()
        ]
        return {"total": self._counts.total(), "requests": entries}


PREFIX: Final = "/debug/"

_Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class DebugApi:
    """Answers requests below `/debug/`."""

    def __init__(self, store: Store, log: RequestLog, faults: Faults) -> None:
        self._store = store
        self._faults = faults
        self._log = log
        self._handlers: dict[tuple[str, str], _Handler] = {
            ("GET", "/debug/requests"): self._report,
            ("DELETE", "/debug/requests"): self._reset,
            ("GET", "/debug/store"): self._memory_page,
            ("POST", "/debug/compact"): self._compact,
            ("GET", "/debug/faults"): self._list_faults,
            ("POST", "/debug/faults"): self._add_fault,
            ("DELETE", "/debug/faults"): self._remove_faults,
        }

    async def handle(self, request: Request) -> Response:
        """Answer one request.

        Raises:
            PathNotFoundError: anything unknown.
        """
        handler = self._handlers.get((request.method, request.path.rstrip("/")))
        if handler is None:
            raise status.PathNotFoundError
        return await handler(request)

    async def _report(self, _request: Request) -> Response:
        return json_response(self._log.report())

    async def _reset(self, _request: Request) -> Response:
        self._log.reset()
        return json_response(self._log.report())

    async def _memory_page(self, _request: Request) -> Response:
        return json_response({name: asdict(kept) for name, kept in self._store.memory().items()})

    async def _compact(self, _request: Request) -> Response:
        self._store.compact()
        return json_response({"revision": self._store.revision})

    async def _list_faults(self, _request: Request) -> Response:
        return json_response([_rule_json(one) for one in self._faults.armed])

    async def _add_fault(self, request: Request) -> Response:
        try:
            rule = FaultRule.model_validate_json(await request.body())
        except ValidationError as error:
            raise status.bad_request(f"the fault rule can't be read: {error}") from error
        return json_response(_rule_json(self._faults.add(pinned(rule, self._store.revision))), 201)

    async def _remove_faults(self, request: Request) -> Response:
        named = request.query.get("id", "")
        if named and not named.isdigit():
            raise status.bad_request(f"fault rules have numbers, not {named!r}: GET /debug/faults names them")
        self._faults.remove(int(named) if named else None)
        return json_response([_rule_json(one) for one in self._faults.armed])


def _rule_json(armed: Armed) -> JsonObject:
    rule = armed.rule.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {"id": armed.id, "matched": armed.matched, "struck": armed.struck, "rule": rule}
