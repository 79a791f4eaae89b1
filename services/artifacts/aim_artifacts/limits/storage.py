"""Gathers what the storage limits are decided from, no more than the limits in force demand (AR-446…AR-448, AR-462)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from aim_artifacts.claim import claimed_bytes, counted_bytes, is_controlled_by
from aim_artifacts.indexes import (
    CLAIMS_BY_NAMESPACE,
    EVERYWHERE,
    WAITING_ARTIFACTS,
    owning_artifacts,
)
from aim_artifacts.limits.demand import is_wanted
from aim_artifacts.limits.eviction import Candidate, Evictables
from aim_artifacts.limits.quota import NO_LIMITS, Limits, Request, Volume, limits_of
from aim_artifacts.limits.retention import effective_priority, has_claim, is_protected
from aim_artifacts.limits.usage import Usage
from aim_artifacts.sizing import stated_size
from aim_domain import DEFAULT_NAME, AIMArtifact, ResolvedConfig, RuntimeConfigSpec, resolve_config
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACTS, CLUSTER_RUNTIME_CONFIGS, NAMESPACES
from controller_runtime import ClassifiedError, View, is_paused, timestamp
from controller_runtime.core import PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class Holding:
    """A volume, its claim, and the artifact that lives on it; ``None`` when that is gone, going, or not known."""

    volume: Volume
    claim: PersistentVolumeClaim
    artifact: AIMArtifact | None


@dataclass(frozen=True, slots=True)
class Storage:
    """Limits, volumes, requests and candidates as one view shows them; each config and limit is looked up once.

    Attributes:
        now: ``None`` where no clock is at hand.
    """

    view: View
    now: datetime | None = None
    _limits: dict[str, Limits | ClassifiedError] = field(default_factory=dict)
    _configs: dict[tuple[str, str | None], ResolvedConfig] = field(default_factory=dict)

    def limits_of(self, namespace: str) -> Limits | ClassifiedError:
        """The limits that hold in a namespace, or why they are not known."""
        if namespace not in self._limits:
            config = self.view.get(CLUSTER_RUNTIME_CONFIGS, None, DEFAULT_NAME)
            found = self.view.get(NAMESPACES, None, namespace)
            self._limits[namespace] = config.error or found.error or limits_of(config.value, found.value)
        return self._limits[namespace]

    def known_limits_of(self, namespace: str) -> Limits:
        """The limits that hold in a namespace; none where they are not known."""
        limits = self.limits_of(namespace)
        return NO_LIMITS if isinstance(limits, ClassifiedError) else limits

    def scope_of(self, namespace: str) -> str | None:
        """Whose volumes count for a request in a namespace; ``None`` = those of all namespaces."""
        return namespace if self.known_limits_of(namespace).cluster is None else None

    def holdings(self, scope: str | None) -> list[Holding] | ClassifiedError:
        """The volumes in a scope, or why they are not known."""
        view = self.view
        claims = view.all(ARTIFACT_CLAIMS) if scope is None else view.select(CLAIMS_BY_NAMESPACE, scope)
        found = (self._holding(claim) for claim in claims.items)
        return claims.error or [holding for holding in found if holding is not None]

    def evictables(self, holdings: list[Holding], usage: Usage) -> Evictables:
        """Who of them may be evicted (AR-462)."""
        found = (self._candidate(holding) for holding in holdings)
        return Evictables(lambda: [one for one in found if one is not None], usage.is_in_use)

    def requests(
        self, scope: str | None, holdings: Iterable[Holding], before: Request | None = None
    ) -> Iterator[Request]:
        """Artifacts in a scope that need a volume and could make it at once.

        Args:
            holdings: the volumes of the scope; whoever owns one needs none.
            before: only those that come before it, or that keep room from it.
        """
        owners = {owner.uid for holding in holdings for owner in holding.claim.metadata.owner_references}
        for artifact in self._waiting(scope):
            size = stated_size(artifact) or artifact.status.discovered_size_bytes
            if size is None or artifact.uid in owners or artifact.deleting or is_paused(artifact):
                continue
            claims = has_claim(artifact, self.now)
            if before is not None and not claims and (True, *_order(artifact)) >= before.order:
                continue
            config = self._config(artifact)
            if config.error is None:
                yield self.request(artifact, config.spec, size)

    def is_anybody_waiting(self, scope: str | None) -> bool:
        """Whether the volumes of a scope need to be looked at at all."""
        return bool(self._waiting(scope))

    def _waiting(self, scope: str | None) -> tuple[AIMArtifact, ...]:
        return self.view.select(WAITING_ARTIFACTS, EVERYWHERE if scope is None else scope).items

    def request(self, artifact: AIMArtifact, config: RuntimeConfigSpec, size: int) -> Request:
        """The volume that an artifact needs for weights of that many bytes."""
        return Request(
            *_order(artifact),
            claimed_bytes(artifact, config, size),
            artifact.uid,
            has_claim(artifact, self.now),
            effective_priority(artifact, config),
            lambda: is_wanted(artifact, self.view),
        )

    def _config(self, artifact: AIMArtifact) -> ResolvedConfig:
        key = (artifact.namespace, artifact.spec.runtime_config_name)
        if key not in self._configs:
            self._configs[key] = resolve_config(self.view, *key)
        return self._configs[key]

    def _holding(self, claim: PersistentVolumeClaim) -> Holding | None:
        """Counted in every phase, also while it is being deleted (AR-446)."""
        size = counted_bytes(claim)
        if not size:
            return None
        owners = [self.view.get(ARTIFACTS, key.namespace, key.name) for key in owning_artifacts(claim)]
        living = (one.value for one in owners if one.value is not None and not one.value.deleting)
        artifact = next((one for one in living if is_controlled_by(claim, one)), None)
        # What cannot be looked up is believed to be there: space is promised only when it is surely freed.
        leaving = claim.deleting or (artifact is None and not any(one.error for one in owners))
        return Holding(Volume(claim.namespace, size, leaving), claim, artifact)

    def _candidate(self, holding: Holding) -> Candidate | None:
        artifact = holding.artifact
        if artifact is None or holding.volume.leaving or is_paused(artifact) or is_protected(artifact):
            return None
        config = self._config(artifact)
        # A default that cannot be looked up is none.
        priority = effective_priority(artifact, config.spec)
        if priority is None:
            return None
        used = artifact.status.last_used
        return Candidate(
            artifact.uid,
            artifact.namespace,
            artifact.name,
            holding.claim.name,
            holding.volume.size,
            priority,
            _order(artifact)[0] if used is None else timestamp(used),
        )


def _order(artifact: AIMArtifact) -> tuple[str, str, str]:
    created = artifact.metadata.creation_timestamp
    return ("" if created is None else timestamp(created), artifact.namespace, artifact.name)
