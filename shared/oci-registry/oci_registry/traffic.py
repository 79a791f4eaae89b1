"""What is counted of the requests to registries, and what is remembered of the last ones (MS-351, FW-398)."""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar, final

K = TypeVar("K")
V = TypeVar("V")

HOSTS: Final = 1024
"""Hosts of which something is remembered: far more than a cluster's images come from, but a user who may create models
may name any number."""


@final
class Recent(Generic[K, V]):
    """Values by key, least recently used out first."""

    def __init__(self, capacity: int = HOSTS) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: K) -> V | None:
        """The value of a key, if it is remembered."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: K, value: V) -> None:
        """Remember a value, in place of the former one."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)

    def forget(self, key: K) -> None:
        """Drop what is remembered, if anything is."""
        self._kept.pop(key, None)


NO_ANSWER: Final = "none"
"""Status class of an unanswered request."""
OTHERS: Final = "others"
"""Stands for all hosts beyond the first thousand."""


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

    def count_request(self, authority: str) -> None:
        """Count a request that is about to be sent."""
        self.requests[self._host(authority)] += 1

    def repeated(self, authority: str) -> None:
        """Count a request that is sent again."""
        self.retries[self._host(authority)] += 1

    def limited(self, authority: str) -> None:
        """Count an answer that limits the request rate."""
        self.rate_limited[self._host(authority)] += 1

    def answered(self, authority: str, status: int | None) -> None:
        """Count how a request ended; None = there was no answer."""
        self.answers[self._host(authority), NO_ANSWER if status is None else f"{status // 100}xx"] += 1

    def _host(self, authority: str) -> str:
        # A counter that went and came back would look like a restart, so the first ones stay.
        return authority if authority in self.requests or len(self.requests) < HOSTS else OTHERS

    def statistics(self, waiting: Mapping[str, float]) -> TransportStatistics:
        """A snapshot."""
        return TransportStatistics(
            dict(self.requests), dict(self.retries), dict(self.answers), dict(self.rate_limited), waiting
        )
