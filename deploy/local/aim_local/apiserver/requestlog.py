"""Counts requests, so that the cost of a workload can be stated in API calls (`/debug/requests`)."""

from collections import Counter
from dataclasses import dataclass

from aim_shared.json import JsonObject


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


class RequestLog:
    """Counters since the start or the last reset."""

    def __init__(self) -> None:
        self._counts: Counter[RequestKind] = Counter()

    def count(self, kind: RequestKind) -> None:
        """Count one request."""
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
