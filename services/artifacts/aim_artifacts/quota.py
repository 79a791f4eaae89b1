"""Storage limits: whether a new volume fits (AR-440…AR-448, AR-470, AR-471, AR-485).

Pure. Decisions are made for all waiting artifacts in one fixed order, from the world alone, so that two passes over
the same world never give the same space away twice (AR-449).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aim_domain import AIMClusterRuntimeConfig, labels
from controller_runtime import quantity
from controller_runtime.core import Namespace

_UNLIMITED: Final = "unlimited"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes that volumes may take; ``None`` = unlimited.

    Attributes:
        bad_annotation: an annotation of the namespace that is no quantity and therefore ignored (AR-444).
    """

    namespace: int | None = None
    cluster: int | None = None
    bad_annotation: str | None = None

    @property
    def apply(self) -> bool:
        """Whether there is any limit at all."""
        return self.namespace is not None or self.cluster is not None


NO_LIMITS: Final = Limits()
"""What holds as long as nobody configures anything."""


@dataclass(frozen=True, slots=True)
class Request:
    """An artifact that needs a volume.

    Attributes:
        created: creation time; older requests come first (AR-471).
    """

    created: str
    namespace: str
    name: str
    size: int

    @property
    def order(self) -> tuple[str, str, str]:
        """Sort key."""
        return (self.created, self.namespace, self.name)


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
class Blocked:
    """A refusal, with a message that names size, limits and usage."""

    reason: Refusal
    message: str


def limits_of(config: AIMClusterRuntimeConfig | None, namespace: Namespace | None) -> Limits:
    """Limits of one namespace: the annotation wins over the default of the cluster config (AR-441…AR-444)."""
    quota = config.spec.artifact_storage_quota if config is not None else None
    cluster = None if quota is None else _limit(quota.cluster_limit)
    default = None if quota is None else _limit(quota.default_namespace_limit)
    text = None if namespace is None else namespace.metadata.annotations.get(labels.ANNOTATION_STORAGE_QUOTA)
    if text is None:
        return Limits(default, cluster)
    if text.strip().lower() == _UNLIMITED:
        return Limits(None, cluster)
    own = _limit(text.strip())
    return Limits(default, cluster, bad_annotation=text) if own is None else Limits(own, cluster)


def _limit(text: int | str | None) -> int | None:
    parsed = quantity.parse_or_none(text)
    return parsed.ceiling if parsed is not None and parsed.value >= 0 else None


def admit(
    request: Request, others: Iterable[Request], volumes: Iterable[Volume], limits: Callable[[str], Limits]
) -> Blocked | None:
    """Whether the request fits after all older ones were served; ``None`` = make the volume.

    A blocked older request does not hold up a later, smaller one (AR-471).

    Args:
        others: not looked at when the request would not even fit if it were alone: nobody else can change that.
    """
    books, own = _Books.of(volumes), limits(request.namespace)
    alone = books.refusal(request, own)
    if alone is not None:
        return alone
    for _ in _served((other for other in others if other.order < request.order), books, limits):
        pass
    return books.refusal(request, own)


def fitting(
    requests: Iterable[Request], volumes: Iterable[Volume], limits: Callable[[str], Limits]
) -> Iterator[Request]:
    """The requests that get their volumes now, oldest first."""
    return _served(requests, _Books.of(volumes), limits)


def _served(requests: Iterable[Request], books: "_Books", limits: Callable[[str], Limits]) -> Iterator[Request]:
    for request in sorted(requests, key=lambda one: one.order):
        if books.fits(request, limits(request.namespace)):
            books.book(request)
            yield request


@dataclass(slots=True)
class _Books:
    """Bytes by namespace, and in all of them."""

    used: dict[str, int]
    leaving: Mapping[str, int]
    total: int

    @classmethod
    def of(cls, volumes: Iterable[Volume]) -> "_Books":
        used: dict[str, int] = {}
        leaving: dict[str, int] = {}
        for volume in volumes:
            used[volume.namespace] = used.get(volume.namespace, 0) + volume.size
            if volume.leaving:
                leaving[volume.namespace] = leaving.get(volume.namespace, 0) + volume.size
        return cls(used, leaving, sum(used.values()))

    def book(self, request: Request) -> None:
        self.used[request.namespace] = self.used.get(request.namespace, 0) + request.size
        self.total += request.size

    def fits(self, request: Request, limits: Limits) -> bool:
        """Steps 2 and 3 of AR-470; reaching a limit exactly is allowed (AR-445)."""
        here = self.used.get(request.namespace, 0) + request.size
        return not _excess(here, limits.namespace) and not _excess(self.total + request.size, limits.cluster)

    def refusal(self, request: Request, limits: Limits) -> Blocked | None:
        """Steps 2 to 6 of AR-470."""
        if self.fits(request, limits):
            return None
        here, everywhere = self.used.get(request.namespace, 0), self.total
        bounds = [limit for limit in (limits.namespace, limits.cluster) if limit is not None]
        if any(request.size > limit for limit in bounds):
            return _blocked(Refusal.TOO_LARGE, request, limits, here, everywhere)
        over_here = _excess(here + request.size, limits.namespace)
        over_all = _excess(everywhere + request.size, limits.cluster)
        freed_here, freed_all = self.leaving.get(request.namespace, 0), sum(self.leaving.values())
        if over_here <= freed_here and over_all <= freed_all:
            return _blocked(Refusal.WAITING, request, limits, here, everywhere)
        reason = Refusal.NAMESPACE if over_here > freed_here else Refusal.CLUSTER
        return _blocked(reason, request, limits, here, everywhere)


def _excess(wanted: int, limit: int | None) -> int:
    return 0 if limit is None else max(0, wanted - limit)


def _blocked(reason: Refusal, request: Request, limits: Limits, here: int, everywhere: int) -> Blocked:
    parts = [f"AIMArtifact {request.namespace}/{request.name} needs {_shown(request.size)}"]
    if limits.namespace is not None:
        parts.append(f"namespace {request.namespace} uses {_shown(here)} of {_shown(limits.namespace)}")
    if limits.cluster is not None:
        parts.append(f"the cluster uses {_shown(everywhere)} of {_shown(limits.cluster)}")
    if reason is Refusal.WAITING:
        missing = max(
            _excess(here + request.size, limits.namespace), _excess(everywhere + request.size, limits.cluster)
        )
        parts.append(f"{_shown(missing)} must be freed")
    else:
        parts.append("delete unused artifacts or raise the limit")
    return Blocked(reason, "; ".join(parts))


def _shown(amount: int) -> str:
    try:
        return quantity.human_size(amount)
    except quantity.QuantityError:
        return f"{amount} bytes"
