"""Limits of storage, and what counts towards them (AR-440…AR-446). Pure."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from aim_domain import labels
from aim_domain.api.enums import API_VERSION
from aim_domain.api.runtime_config import AIMClusterRuntimeConfig
from controller_runtime import Key, Resource, quantity
from controller_runtime.core import Namespace, PersistentVolumeClaim

_UNLIMITED: Final = "unlimited"
_MOST_NAMED: Final = 10
"""Limits that one report names."""


@dataclass(frozen=True, slots=True)
class StorageLimits:
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


NO_STORAGE_LIMITS: Final = StorageLimits()
"""The limits without any configuration."""


def storage_limits(config: AIMClusterRuntimeConfig | None, namespace: Namespace | None) -> StorageLimits:
    """Limits of one namespace: the annotation wins over the default of the cluster config (AR-441…AR-444)."""
    quota = config.spec.artifact_storage_quota if config is not None else None
    cluster = None if quota is None else _limit(quota.cluster_limit)
    default = None if quota is None else _limit(quota.default_namespace_limit)
    text = None if namespace is None else namespace.metadata.annotations.get(labels.ANNOTATION_STORAGE_QUOTA)
    if text is None:
        return StorageLimits(default, cluster)
    if text.strip().lower() == _UNLIMITED:
        return StorageLimits(None, cluster)
    own = _limit(text.strip())
    return StorageLimits(default, cluster, bad_annotation=text) if own is None else StorageLimits(own, cluster)


def _limit(text: int | str | None) -> int | None:
    parsed = quantity.parse_or_none(text)
    return parsed.ceiling if parsed is not None and parsed.value >= 0 else None


def owning_artifacts(child: Resource) -> list[Key]:
    """Keys of the artifacts that own an object."""
    owners = child.metadata.owner_references
    return [
        Key(child.namespace, owner.name)
        for owner in owners
        if owner.kind == "AIMArtifact" and owner.api_version == API_VERSION
    ]


@lru_cache(maxsize=1024)
def whole_bytes(text: int | str | None) -> int:
    """A quantity, rounded up; 0 for one that cannot be read. Kept, because hundreds of volumes are of a few sizes."""
    parsed = quantity.parse_or_none(text)
    return 0 if parsed is None else parsed.ceiling


def storage_request(claim: PersistentVolumeClaim) -> int | str | None:
    """The storage that the claim asks for."""
    return claim.spec.resources.requests.get("storage")


def counted_bytes(claim: PersistentVolumeClaim) -> int:
    """What the claim takes of the storage limits, in every phase; nothing if no artifact owns it (AR-446)."""
    return whole_bytes(storage_request(claim)) if owning_artifacts(claim) else 0


def format_bytes(amount: int) -> str:
    """An amount for people, however large."""
    try:
        return quantity.human_size(amount)
    except quantity.QuantityError:
        return f"{amount} bytes"


def exceeded_limits(
    claims: Iterable[PersistentVolumeClaim], limits_in: Callable[[str], StorageLimits]
) -> tuple[str, ...]:
    """Each limit that is lower than what is stored, with its usage: the cluster's, then ten of namespaces (AR-450).

    Args:
        limits_in: the limits that hold in a namespace; the cluster's are the same in all.
    """
    used = Counter[str]()
    for claim in claims:
        used[claim.namespace] += counted_bytes(claim)
    cluster = limits_in("").cluster
    books = [("the cluster", used.total(), cluster)]
    books += [(f"namespace {one}", used[one], limits_in(one).namespace) for one in sorted(used)]
    found = [
        f"{name} uses {format_bytes(amount)} of {format_bytes(limit)}"
        for name, amount, limit in books
        if limit is not None and amount > limit
    ]
    more = len(found) - _MOST_NAMED
    return (*found[:_MOST_NAMED], f"{more} more") if more > 0 else tuple(found)
