"""What is counted of the requests to registries, for metrics (MS-351, FW-398)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

NO_ANSWER = "none"
"""Status class of a request that nobody answered."""


@dataclass(frozen=True, slots=True)
class TransportStatistics:
    """Counts since the start, by endpoint authority."""

    requests: Mapping[str, int]
    retries: Mapping[str, int]
    answers: Mapping[tuple[str, str], int]
    """By authority and status class, such as `2xx`, or `none` where there was no answer."""
    rate_limited: Mapping[str, int]
    """Answers that limited the request rate."""
    waiting_hosts: Mapping[str, float]
    """Hosts that announced a wait, with the seconds left (MS-257)."""


@dataclass(slots=True)
class Traffic:
    """The counters themselves."""

    requests: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    rate_limited: Counter[str] = field(default_factory=Counter)

    def answered(self, authority: str, status: int | None) -> None:
        """Count how a request ended; None = there was no answer."""
        self.answers[authority, NO_ANSWER if status is None else f"{status // 100}xx"] += 1

    def statistics(self, waiting: Mapping[str, float]) -> TransportStatistics:
        """A snapshot."""
        return TransportStatistics(
            dict(self.requests), dict(self.retries), dict(self.answers), dict(self.rate_limited), waiting
        )
