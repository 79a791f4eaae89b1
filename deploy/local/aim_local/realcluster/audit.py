"""Who asked the API server for what, counted from its audit log."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, final

from aim_local.realcluster.users import USERS_BY_NAME
from controller_runtime import JsonObject, loads

POLICY: Final[JsonObject] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # A request is logged once it was answered; watches also when they end.
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "nonResourceURLs": ["*"]}, {"level": "Metadata"}],
}
"""Every request for a resource, without bodies."""


class RequestKey(NamedTuple):
    """What is counted apart.

    Attributes:
        user: short name of a `User`, or the API server's name of any other.
        verb: such as ``list``, ``watch``, ``patch``.
        resource: plural, with ``.group`` and ``/subresource`` if there are any.
    """

    user: str
    verb: str
    resource: str


@final
class AuditLog:
    """Reads the audit log of one API server; each call of `reset` begins a new count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin = 0
        self._since = datetime.min.replace(tzinfo=UTC)

    async def counts(self) -> Counter[RequestKey]:
        """Requests that were received since the last reset; not the end of a watch that was opened before it.

        The API server writes the line of a request when it has answered; wait for the count that you expect.
        """
        return await asyncio.to_thread(self._count)

    async def reset(self) -> None:
        """Count from now on."""
        self._begin = await asyncio.to_thread(lambda: self._path.stat().st_size if self._path.exists() else 0)
        # After the size: the line of a request that counts then begins behind it.
        self._since = datetime.now(UTC)

    def _count(self) -> Counter[RequestKey]:
        found: dict[str, RequestKey] = {}
        if not self._path.exists():
            return Counter()
        with self._path.open("rb") as log:
            if self._begin:
                # The last line at the reset may have been half written; it is not of this count.
                log.seek(self._begin - 1)
                log.readline()
            for line in log:
                # The last line may be half written.
                if line.endswith(b"\n"):
                    event = loads(line)
                    if datetime.fromisoformat(event["requestReceivedTimestamp"]) >= self._since:
                        found.setdefault(str(event["auditID"]), request_key(event))
        return Counter(found.values())


def request_report(counts: Counter[RequestKey]) -> JsonObject:
    """Counts in the form of the embedded control plane's `/debug/requests`."""
    requests = [
        {"userAgent": f"aim-{key.user}", "verb": key.verb, "resource": key.resource, "subresource": "", "count": count}
        for key, count in counts.items()
    ]
    return {"total": counts.total(), "requests": requests}


def request_key(event: JsonObject) -> RequestKey:
    """The key of one audit event."""
    reference = event.get("objectRef") or {}
    resource = str(reference.get("resource", ""))
    if group := reference.get("apiGroup"):
        resource += f".{group}"
    if subresource := reference.get("subresource"):
        resource += f"/{subresource}"
    name = str(event["user"].get("username", ""))
    return RequestKey(str(USERS_BY_NAME.get(name, name)), str(event["verb"]), resource)
