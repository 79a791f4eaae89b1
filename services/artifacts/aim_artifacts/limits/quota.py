"""Storage limits: whether a new volume fits, and who has to go for it (AR-440…AR-449, AR-470, AR-471, AR-485).

Pure. Decisions are made for all waiting artifacts in one fixed order, from the cache alone, so that two passes over
the same cache neither give the same space away twice nor evict twice for the same need (AR-449).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from aim_artifacts.limits.eviction import Candidate, Evictables, Requester
from aim_domain.storage_limits import StorageLimits, format_bytes


@dataclass(frozen=True, slots=True)
class Request:
    """An artifact that needs a volume.

    Attributes:
        created: creation time; older requests come first (AR-471).
        claims: whether others were evicted for it lately, so that what they leave is kept for it (AR-447).
        priority: its own effective retention priority.
        is_demanded: whether a service waits for a cache that it belongs to (AR-466).
    """

    created: str
    namespace: str
    name: str
    size: int
    uid: str = ""
    claims: bool = False
    priority: int | None = None
    is_demanded: Callable[[], bool] = field(default=lambda: False, compare=False)

    @property
    def order(self) -> tuple[bool, str, str, str]:
        """Sort key; those for whom others had to go come before all others."""
        return (not self.claims, self.created, self.namespace, self.name)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return (self.namespace, self.name)

    @property
    def requester(self) -> Requester:
        """It, as the one on whose behalf others are evicted."""
        return Requester(self.uid, self.namespace, self.priority, self.is_demanded)


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume that exists; ``leaving`` when it is on its way out (AR-446, AR-448)."""

    namespace: str
    size: int
    leaving: bool = False


class Refusal(StrEnum):
    """Why a volume is not made yet; reasons of ``StorageQuotaReady`` (AR-315)."""

    NAMESPACE = "NamespaceQuotaExceeded"
    CLUSTER = "ClusterQuotaExceeded"
    TOO_LARGE = "ExceedsQuotaLimit"
    WAITING = "WaitingForEviction"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why there is no room, and who has to go for it."""

    reason: Refusal
    victims: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Blocked:
    """A refusal, with a message that names size, limits and usage.

    Attributes:
        victims: who has to go for it.
    """

    reason: Refusal
    message: str
    victims: tuple[Candidate, ...] = ()


LimitsOf = Callable[[str], StorageLimits]
"""The limits that hold in a namespace."""


def admit(
    request: Request, others: Iterable[Request], volumes: Iterable[Volume], limits: LimitsOf, evictables: Evictables
) -> Blocked | None:
    """Whether the request fits after all that come before it were served; ``None`` = make the volume.

    A blocked request does not hold up a later, smaller one (AR-471).

    Args:
        others: not looked at when nothing could be done for the request if it were alone: others cannot change that.
    """
    known, own = tuple(volumes), limits(request.namespace)
    alone = _Books.of(known, ())
    if alone.is_hopeless(request, own, evictables):
        return alone.blocked(alone.refusal(request, own, evictables), request, own)
    waiting = sorted((other for other in others if other.key != request.key), key=lambda one: one.order)
    books = _Books.of(known, (*waiting, request))
    for other in waiting:
        if other.order < request.order:
            books.serve(other, limits(other.namespace), evictables)
    return books.blocked(books.refusal(request, own, evictables), request, own)


def on_their_way(
    requests: Iterable[Request], volumes: Iterable[Volume], limits: LimitsOf, evictables: Evictables
) -> list[Request]:
    """The requests for which something can be done now, in their order: they get their volumes, or others go."""
    waiting = sorted(requests, key=lambda one: one.order)
    books, found = _Books.of(volumes, waiting), []
    for request in waiting:
        refused = books.serve(request, limits(request.namespace), evictables)
        if refused is None or refused.victims:
            found.append(request)
    return found


@dataclass(slots=True)
class _Books:
    """Bytes by namespace.

    Attributes:
        used: of volumes that exist, and of those that earlier requests get.
        leaving: of volumes that are going away, also of those that have to go for earlier requests.
        claimed: of requests for whom others were evicted; for all others as good as used (AR-447).
        promised: of earlier requests that wait for what is leaving, so that no two requests count on the same bytes.
    """

    used: Counter[str]
    leaving: Counter[str]
    claimed: Counter[str]
    promised: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, volumes: Iterable[Volume], requests: Iterable[Request]) -> "_Books":
        used, leaving, claimed = Counter[str](), Counter[str](), Counter[str]()
        for volume in volumes:
            used[volume.namespace] += volume.size
            leaving[volume.namespace] += volume.size if volume.leaving else 0
        for request in requests:
            claimed[request.namespace] += request.size if request.claims else 0
        return cls(used, leaving, claimed)

    def serve(self, request: Request, limits: StorageLimits, evictables: Evictables) -> Verdict | None:
        """Decide about a request, and keep for it what it gets or waits for."""
        refused = self.refusal(request, limits, evictables)
        if refused is None:
            self.used[request.namespace] += request.size
            self.claimed[request.namespace] -= _claim(request)
        elif refused.reason is Refusal.WAITING:
            self.promised[request.namespace] += request.size - _claim(request)
            for victim in refused.victims:
                self.leaving[victim.namespace] += victim.size
        return refused

    def refusal(self, request: Request, limits: StorageLimits, evictables: Evictables) -> Verdict | None:
        """Steps 2 to 7 of AR-470."""
        if not any(self._over(request, limits)):
            return None
        if _is_too_large(request, limits):
            return Verdict(Refusal.TOO_LARGE)
        here, everywhere = self._missing(request, limits)
        if not here and not everywhere:
            return Verdict(Refusal.WAITING)
        choice = evictables.choose(request.requester, here, everywhere)
        if choice.victims:
            return Verdict(Refusal.WAITING, choice.victims)
        return Verdict(Refusal.NAMESPACE if choice.lacks_here else Refusal.CLUSTER)

    def is_hopeless(self, request: Request, limits: StorageLimits, evictables: Evictables) -> bool:
        """Whether the request could not be served if there were no other, and nothing were in use."""
        if not any(self._over(request, limits)):
            return False
        if _is_too_large(request, limits):
            return True
        here, everywhere = self._missing(request, limits)
        return bool(here or everywhere) and not evictables.could_free(request.namespace, here, everywhere)

    def _over(self, request: Request, limits: StorageLimits) -> tuple[int, int]:
        """By how much the namespace and all of them would be over their limits (AR-445)."""
        here = self.used[request.namespace] + self.claimed[request.namespace]
        everywhere = self.used.total() + self.claimed.total()
        own = request.size - _claim(request)
        return _excess(here + own, limits.namespace), _excess(everywhere + own, limits.cluster)

    def _missing(self, request: Request, limits: StorageLimits) -> tuple[int, int]:
        """What is to be evicted: the same with what others wait for, without what is leaving anyhow (AR-470 step 4)."""
        namespace, own = request.namespace, request.size - _claim(request)
        here = self.used[namespace] + self.claimed[namespace] + self.promised[namespace] - self.leaving[namespace]
        everywhere = self.used.total() + self.claimed.total() + self.promised.total() - self.leaving.total()
        return _excess(here + own, limits.namespace), _excess(everywhere + own, limits.cluster)

    def blocked(self, refused: Verdict | None, request: Request, limits: StorageLimits) -> Blocked | None:
        """The verdict with its message."""
        if refused is None:
            return None
        namespace, held = request.namespace, self.claimed.total() - _claim(request)
        parts = [f"AIMArtifact {namespace}/{request.name} needs {format_bytes(request.size)}"]
        if limits.namespace is not None:
            parts.append(
                f"namespace {namespace} uses {format_bytes(self.used[namespace])} of {format_bytes(limits.namespace)}"
            )
        if limits.cluster is not None:
            parts.append(f"the cluster uses {format_bytes(self.used.total())} of {format_bytes(limits.cluster)}")
        if held > 0:
            parts.append(f"{format_bytes(held)} are kept for artifacts that wait already")
        if refused.reason is Refusal.WAITING:
            parts.append(f"{format_bytes(max(self._over(request, limits)))} must be freed")
        else:
            parts.append("delete unused artifacts or raise the limit")
        return Blocked(refused.reason, "; ".join(parts), refused.victims)


def _claim(request: Request) -> int:
    return request.size if request.claims else 0


def _is_too_large(request: Request, limits: StorageLimits) -> bool:
    return any(limit is not None and request.size > limit for limit in (limits.namespace, limits.cluster))


def _excess(wanted: int, limit: int | None) -> int:
    return 0 if limit is None else max(0, wanted - limit)
