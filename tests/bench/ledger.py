"""What a workload cost in requests to the API server, by who sent them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aim_domain.services import SERVICES
from controller_runtime import JsonObject

_READS: Final = frozenset({"get", "list"})
_WATCH: Final = "watch"
_AGENTS: Final = {**{f"aim-{name}": name for name in SERVICES}, "aim-downloader": "downloader"}
"""Who belongs to the platform, by user agent; everybody else plays the cluster or the user."""


class Cost(StrEnum):
    """What a request counts as. Watches are none: there is one per part, however many objects there are."""

    WRITE = "writes"
    EVENT = "Events"
    READ = "reads"


PER_SERVICE: Final = {Cost.WRITE: 5, Cost.EVENT: 4, Cost.READ: 2}
"""P4: per AIMService until it runs, where model, template and cache are there already."""
COLD_PATH: Final = {Cost.WRITE: 30, Cost.EVENT: 20}
"""P4: where model, template and cache are made on the way."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Requests of the platform, Leases left out."""

    counts: Mapping[tuple[str, Cost, str], int]
    """By service, cost, and what was done to which resource."""

    @classmethod
    def of(cls, report: JsonObject) -> "Ledger":
        """Read `/debug/requests`."""
        counts: Counter[tuple[str, Cost, str]] = Counter()
        for entry in _platform_requests(report):
            resource = "/".join(filter(None, (entry["resource"], entry["subresource"])))
            counts[_AGENTS[entry["userAgent"]], _cost(entry), f"{entry['verb']} {resource}"] += int(entry["count"])
        return cls(counts)

    def total(self, cost: Cost) -> int:
        """Requests of one kind, of all services."""
        return sum(count for (_, kind, _), count in self.counts.items() if kind is cost)

    def of_service(self, service: str, cost: Cost) -> int:
        """Requests of one kind, of one service."""
        return sum(count for (who, kind, _), count in self.counts.items() if (who, kind) == (service, cost))

    def detail(self, *costs: Cost) -> dict[str, int]:
        """The requests of some kinds in words, the most frequent first."""
        found = sorted(self.counts.items(), key=lambda item: -item[1])
        return {f"{service}: {what}": count for (service, cost, what), count in found if cost in costs}

    @property
    def senders(self) -> list[str]:
        """Services that sent anything, in the order of the platform."""
        return [name for name in _AGENTS.values() if any(self.of_service(name, cost) for cost in Cost)]


def write_count(report: JsonObject) -> int:
    """Every write of anybody but Leases: while it grows, something is going on."""
    return sum(
        int(entry["count"])
        for entry in report["requests"]
        if entry["verb"] not in _READS and entry["verb"] != _WATCH and not _is_lease(entry)
    )


def _platform_requests(report: JsonObject) -> Iterable[JsonObject]:
    for entry in report["requests"]:
        if entry["userAgent"] in _AGENTS and entry["verb"] != _WATCH and not _is_lease(entry):
            yield entry


def _is_lease(entry: JsonObject) -> bool:
    """A real API server's audit log names the group too."""
    return str(entry["resource"]).partition(".")[0] == "leases"


def _cost(entry: JsonObject) -> Cost:
    if entry["verb"] in _READS:
        return Cost.READ
    return Cost.EVENT if entry["resource"] == "events" else Cost.WRITE
