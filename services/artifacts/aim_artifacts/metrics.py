"""What metrics show of the storage and the downloads of artifacts (FW-286, FW-560)."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from aim_domain import DEFAULT_NAME, AIMArtifact
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACTS, CLUSTER_RUNTIME_CONFIGS, NAMESPACES
from aim_domain.storage_limits import StorageLimits, storage_limits, storage_request
from controller_runtime import Cache, Key, Part, Readings, Resource, StatusValue, quantity
from controller_runtime.core import PersistentVolumeClaim

R = TypeVar("R", bound=Resource)
T = TypeVar("T")
_BY_NAMESPACE: Final = "namespace"


@dataclass(slots=True)
class _PartReadings(Generic[R, T]):
    """What is made of each object of a part: when it is new or has changed, not at each scrape."""

    part: Part[R]
    make: Callable[[R | None], T]
    _values: dict[Key, tuple[object, T]] = field(default_factory=dict)

    def of(self, cache: Cache) -> Mapping[Key, tuple[object, T]]:
        known: dict[Key, tuple[object, T]] = {}
        for entry in cache.all(self.part):
            before = self._values.get(entry.key)
            if before is None or before[0] != entry.version:
                before = entry.version, self.make(entry.object)
            known[entry.key] = before
        self._values = known
        return known


def _size(claim: PersistentVolumeClaim | None) -> int:
    request = None if claim is None else quantity.parse_or_none(storage_request(claim))
    return 0 if request is None else request.ceiling


def _missing(artifact: AIMArtifact | None) -> int | None:
    """Bytes that a running download still has to bring; ``None`` where none runs."""
    status = None if artifact is None else artifact.status
    if status is None or status.status is not StatusValue.PROGRESSING or status.progress is None:
        return None
    return max(0, (status.progress.total_bytes or 0) - (status.progress.downloaded_bytes or 0))


@dataclass(slots=True)
class StorageReadings:
    """Bytes that the volumes of artifacts ask for and may ask for, by namespace, and downloads.

    Volumes that are being deleted still count (AR-446).
    """

    _claims: _PartReadings[PersistentVolumeClaim, int] = field(
        default_factory=lambda: _PartReadings(ARTIFACT_CLAIMS, _size)
    )
    _downloads: _PartReadings[AIMArtifact, int | None] = field(
        default_factory=lambda: _PartReadings(ARTIFACTS, _missing)
    )

    def __call__(self, cache: Cache) -> Readings:
        """What to show now."""
        allocated: Counter[str] = Counter()
        for key, (_, size) in self._claims.of(cache).items():
            allocated[key.namespace] += size
        running: Counter[str] = Counter()
        missing: Counter[str] = Counter()
        for key, (_, left) in self._downloads.of(cache).items():
            if left is not None:
                running[key.namespace] += 1
                missing[key.namespace] += left
        limits = {name: _limits(cache, name) for name in sorted(allocated)}
        # The limit of the cluster is the same for all, and also there while nothing is stored.
        cluster = _limits(cache, "").cluster
        return {
            "aim_artifact_allocated_bytes": [one for one in _sorted(allocated) if one[1]],
            "aim_artifact_limit_bytes": [
                ({_BY_NAMESPACE: name}, float(one.namespace))
                for name, one in limits.items()
                if one.namespace is not None
            ],
            "aim_artifact_cluster_limit_bytes": [] if cluster is None else [({}, float(cluster))],
            "aim_artifact_downloads": _sorted(running),
            "aim_artifact_download_missing_bytes": _sorted(missing),
        }


def _sorted(numbers: Mapping[str, int]) -> list[tuple[Mapping[str, str], float]]:
    return [({_BY_NAMESPACE: name}, float(number)) for name, number in sorted(numbers.items())]


def _limits(cache: Cache, namespace: str) -> StorageLimits:
    config = cache.get(CLUSTER_RUNTIME_CONFIGS, Key("", DEFAULT_NAME))
    found = cache.get(NAMESPACES, Key("", namespace)) if namespace else None
    return storage_limits(None if config is None else config.object, None if found is None else found.object)
