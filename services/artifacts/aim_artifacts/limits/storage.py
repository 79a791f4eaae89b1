"""Storage of a namespace: who waits for it, what is used, and who may have more."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from aim_artifacts.claim import claimed_bytes, is_controlled_by, stated_size
from aim_artifacts.indexes import (
    ARTIFACT_PODS_BY_CLAIM,
    CLAIMS_BY_NAMESPACE,
    EVERYWHERE,
    PREDICTOR_PODS_BY_CLAIM,
    SERVICES_BY_PROFILE,
    SERVICES_BY_TEMPLATE,
    USERS_BY_CLAIM,
    WAITING_ARTIFACTS,
    Cache,
    caches_with,
    is_of_profile,
    wanting,
)
from aim_artifacts.limits.eviction import Candidate, Evictables, effective_priority, has_claim, is_protected
from aim_artifacts.limits.mounts import last_mounted
from aim_artifacts.limits.quota import Request, Volume
from aim_domain import (
    DEFAULT_NAME,
    AIMArtifact,
    AIMService,
    CacheMode,
    ResolvedConfig,
    RuntimeConfigSpec,
    TemplateScope,
    is_job_finished,
    labels,
    resolve_config,
)
from aim_domain.kind_names import GROUP
from aim_domain.naming import download_job_name
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACT_JOBS,
    ARTIFACTS,
    CLUSTER_RUNTIME_CONFIGS,
    NAMESPACES,
    PROFILE_CACHES,
    SERVICES,
    TEMPLATE_CACHES,
)
from aim_domain.storage_limits import NO_STORAGE_LIMITS, StorageLimits, counted_bytes, owning_artifacts, storage_limits
from controller_runtime import ClassifiedError, Lookup, OwnerReference, View, is_paused, scoped, timestamp
from controller_runtime.core import PersistentVolumeClaim


def is_demanded(cache: Cache, view: View, *, when_unknown: bool = True) -> bool:
    """Whether a live service uses the cache, or would.

    Args:
        when_unknown: what counts while services cannot be looked up: by default nothing is taken from whom may need it.
    """
    if cache.spec.mode is CacheMode.DEDICATED:
        owners = [owner for owner in cache.metadata.owner_references if _is_service(owner)]
        return any(_is_live(owner, view.get(SERVICES, cache.namespace, owner.name), when_unknown) for owner in owners)
    scope = cache.spec.template_scope
    scopes = [scope] if scope in {TemplateScope.NAMESPACE, TemplateScope.CLUSTER} else list(TemplateScope)
    names = [scoped(cache.namespace, wanting(cache.spec.template_name, one.value)) for one in scopes]
    index = SERVICES_BY_PROFILE if is_of_profile(cache) else SERVICES_BY_TEMPLATE
    found = [view.select(index, name) for name in names]
    return any(one.items for one in found) or (when_unknown and any(one.error for one in found))


def is_wanted(artifact: AIMArtifact, view: View) -> bool:
    """Whether the artifact belongs to a demanded cache: one that lists it, or, before it does, that made it."""
    listing = caches_with(view, artifact.uid).items
    return any(is_demanded(cache, view) for cache in (*listing, *_makers(artifact, view)))


def _makers(artifact: AIMArtifact, view: View) -> Iterator[Cache]:
    given, namespace = artifact.metadata.labels, artifact.namespace
    of_template, of_profile = given.get(labels.TEMPLATE_CACHE_NAME), given.get(labels.PROFILE_CACHE_NAME)
    if of_template and (cache := view.get(TEMPLATE_CACHES, namespace, of_template).value) is not None:
        yield cache
    if of_profile and (profile_cache := view.get(PROFILE_CACHES, namespace, of_profile).value) is not None:
        yield profile_cache


def _is_service(owner: OwnerReference) -> bool:
    return owner.kind == "AIMService" and owner.api_version.partition("/")[0] == GROUP


def _is_live(owner: OwnerReference, found: Lookup[AIMService], when_unknown: bool) -> bool:
    service = found.value
    if found.error is not None:
        return when_unknown
    return service is not None and service.uid == owner.uid and not service.deleting


@dataclass(slots=True)
class Usage:
    """Who uses artifacts, as one view shows it. What cannot be looked up is believed to be in use.

    Attributes:
        mounted_elsewhere: namespaces in which only a live list of pods found an artifact in use.
    """

    view: View
    mounted_elsewhere: set[str] = field(default_factory=set)
    _mounted: dict[str, frozenset[str]] = field(default_factory=dict)

    def is_in_use(self, candidate: Candidate) -> bool:
        """Whether anything uses it; the reasons are looked at in the order of what they cost."""
        if self._is_mounted(candidate) or self._downloads(candidate) or self._is_wanted(candidate):
            return True
        if candidate.claim not in self._mounted_in(candidate.namespace):
            return False
        self.mounted_elsewhere.add(candidate.namespace)
        return True

    def _is_mounted(self, candidate: Candidate) -> bool:
        claim = scoped(candidate.namespace, candidate.claim)
        users = self.view.select(USERS_BY_CLAIM, claim)
        if users.items or users.error:
            return True
        pods = (self.view.select(index, claim) for index in (PREDICTOR_PODS_BY_CLAIM, ARTIFACT_PODS_BY_CLAIM))
        return any(found.items or found.error for found in pods)

    def _downloads(self, candidate: Candidate) -> bool:
        job = self.view.get(ARTIFACT_JOBS, candidate.namespace, download_job_name(candidate.name, candidate.uid))
        return job.error is not None or (job.value is not None and not is_job_finished(job.value))

    def _is_wanted(self, candidate: Candidate) -> bool:
        caches = caches_with(self.view, candidate.uid)
        return caches.error is not None or any(is_demanded(cache, self.view) for cache in caches.items)

    def _mounted_in(self, namespace: str) -> frozenset[str]:
        if namespace not in self._mounted:
            self._mounted[namespace] = last_mounted(self.view, namespace)
        return self._mounted[namespace]


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
    _limits: dict[str, StorageLimits | ClassifiedError] = field(default_factory=dict)
    _configs: dict[tuple[str, str | None], ResolvedConfig] = field(default_factory=dict)

    def limits_of(self, namespace: str) -> StorageLimits | ClassifiedError:
        """The limits that hold in a namespace, or why they are not known."""
        if namespace not in self._limits:
            config = self.view.get(CLUSTER_RUNTIME_CONFIGS, None, DEFAULT_NAME)
            found = self.view.get(NAMESPACES, None, namespace)
            self._limits[namespace] = config.error or found.error or storage_limits(config.value, found.value)
        return self._limits[namespace]

    def known_limits_of(self, namespace: str) -> StorageLimits:
        """The limits that hold in a namespace; none where they are not known."""
        limits = self.limits_of(namespace)
        return NO_STORAGE_LIMITS if isinstance(limits, ClassifiedError) else limits

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
            holdings: the volumes of the scope; its owner needs none.
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
