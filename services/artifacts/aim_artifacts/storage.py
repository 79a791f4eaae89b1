"""Gathers what the storage limits are decided from, no more than the limits in force demand (AR-446…AR-448)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from aim_artifacts.claim import is_controlled_by, storage_request
from aim_artifacts.indexes import (
    CLAIMS_BY_NAMESPACE,
    CLAIMS_BY_OWNER,
    EVERYWHERE,
    WAITING_ARTIFACTS,
    owning_artifacts,
)
from aim_artifacts.quota import NO_LIMITS, Limits, Request, Volume, limits_of
from aim_artifacts.sizing import headroom_percent, stated_size
from aim_domain import DEFAULT_NAME, AIMArtifact, ResolvedConfig, RuntimeConfigSpec, resolve_config
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACTS, CLUSTER_RUNTIME_CONFIGS, NAMESPACES
from controller_runtime import AimError, View, is_paused, quantity, timestamp
from controller_runtime.core import PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class Storage:
    """Limits, volumes and requests as one view shows them; each config and limit is looked up once."""

    view: View
    _limits: dict[str, Limits | AimError] = field(default_factory=dict)
    _configs: dict[tuple[str, str | None], ResolvedConfig] = field(default_factory=dict)

    def limits_of(self, namespace: str) -> Limits | AimError:
        """The limits that hold in a namespace, or why they are not known."""
        if namespace not in self._limits:
            config = self.view.get(CLUSTER_RUNTIME_CONFIGS, None, DEFAULT_NAME)
            found = self.view.get(NAMESPACES, None, namespace)
            self._limits[namespace] = config.error or found.error or limits_of(config.value, found.value)
        return self._limits[namespace]

    def known_limits_of(self, namespace: str) -> Limits:
        """The limits that hold in a namespace; none where they are not known."""
        limits = self.limits_of(namespace)
        return NO_LIMITS if isinstance(limits, AimError) else limits

    def scope_of(self, namespace: str) -> str | None:
        """Whose volumes count for a request in a namespace; ``None`` = those of all namespaces."""
        return namespace if self.known_limits_of(namespace).cluster is None else None

    def volumes(self, scope: str | None) -> list[Volume] | AimError:
        """The volumes in a scope, or why they are not known."""
        view = self.view
        claims = view.all(ARTIFACT_CLAIMS) if scope is None else view.select(CLAIMS_BY_NAMESPACE, scope)
        found = (self._volume(claim) for claim in claims.items)
        return claims.error or [volume for volume in found if volume is not None]

    def requests(self, scope: str | None, older_than: Request | None = None) -> Iterator[Request]:
        """Artifacts in a scope that need a volume and could make it at once."""
        for artifact in self.view.select(WAITING_ARTIFACTS, EVERYWHERE if scope is None else scope).items:
            size = stated_size(artifact) or artifact.status.discovered_size_bytes
            if size is None or artifact.deleting or is_paused(artifact):
                continue
            if older_than is not None and _order(artifact) >= older_than.order:
                continue
            config = self._config(artifact)
            if config.error is None and not self.view.select(CLAIMS_BY_OWNER, artifact.uid).items:
                yield self.request(artifact, config.spec, size)

    def request(self, artifact: AIMArtifact, config: RuntimeConfigSpec, size: int) -> Request:
        """The volume that an artifact needs for weights of that many bytes."""
        volume = quantity.parse(quantity.volume_size(size, headroom_percent(artifact, config))).ceiling
        return Request(*_order(artifact), volume)

    def _config(self, artifact: AIMArtifact) -> ResolvedConfig:
        key = (artifact.namespace, artifact.spec.runtime_config_name)
        if key not in self._configs:
            self._configs[key] = resolve_config(self.view, *key)
        return self._configs[key]

    def _volume(self, claim: PersistentVolumeClaim) -> Volume | None:
        """Counted in every phase, also while it is being deleted (AR-446)."""
        request = quantity.parse_or_none(storage_request(claim))
        if request is None or not owning_artifacts(claim):
            return None
        return Volume(claim.namespace, request.ceiling, leaving=claim.deleting or not self._has_owner(claim))

    def _has_owner(self, claim: PersistentVolumeClaim) -> bool:
        owners = (self.view.get(ARTIFACTS, key.namespace, key.name) for key in owning_artifacts(claim))
        # What cannot be looked up is believed to be there: space is promised only when it is surely freed.
        return any(
            one.error is not None
            or (one.value is not None and not one.value.deleting and is_controlled_by(claim, one.value))
            for one in owners
        )


def _order(artifact: AIMArtifact) -> tuple[str, str, str]:
    created = artifact.metadata.creation_timestamp
    return ("" if created is None else timestamp(created), artifact.namespace, artifact.name)
