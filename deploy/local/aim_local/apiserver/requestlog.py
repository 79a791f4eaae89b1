"""Counts requests, so that the cost of a workload can be stated in API calls (`/debug/requests`)."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from controller_runtime import JsonObject

KINDS_KEPT: Final = 2_000
"""Kinds of requests that are told apart; paths, user agents and managers are whatever clients send."""


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
