"""Look-ups in the cache that reconcilers and mappings of this service use."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from aim_domain import (
    NAMESPACE_CONFIGS_BY_NAMESPACE,
    AIMArtifact,
    AIMProfileCache,
    AIMService,
    AIMTemplateCache,
    ArtifactType,
    CacheMode,
    InferenceService,
    ResolutionScope,
    ResolvedReference,
    labels,
)
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACT_PODS,
    ARTIFACTS,
    INFERENCE_SERVICES,
    PREDICTOR_PODS,
    PROFILE_CACHES,
    SERVICES,
    TEMPLATE_CACHES,
)
from controller_runtime import (
    ApiModel,
    Index,
    Part,
    PodPhase,
    Selection,
    Summary,
    Time,
    View,
    label_index,
    owner_index,
    scoped,
)
from controller_runtime.core import Pod, Volume

AS_CREATED: Final = 1
"""The generation of an object whose spec never changed."""


def has_weights(artifact: AIMArtifact) -> bool:
    """Whether it holds a model; not an adapter, nor a disk for adapters (LA-027)."""
    return artifact.spec.type in {None, ArtifactType.MODEL}


ARTIFACTS_BY_SOURCE: Final = Index(
    ARTIFACTS,
    "source",
    lambda artifact: [scoped(artifact.namespace, artifact.spec.source_uri)] if has_weights(artifact) else [],
)
ADAPTERS_BY_DISK: Final = Index(
    ARTIFACTS,
    "disk",
    lambda artifact: [scoped(artifact.namespace, artifact.spec.disk)] if artifact.spec.disk else [],
)
ARTIFACTS_BY_CACHE: Final = label_index(ARTIFACTS, labels.TEMPLATE_CACHE_NAME)
ARTIFACTS_BY_PROFILE_CACHE: Final = label_index(ARTIFACTS, labels.PROFILE_CACHE_NAME)
EVERYWHERE: Final = ""
"""Value under which those of all namespaces are found."""


def is_waiting(artifact: AIMArtifact) -> bool:
    """Whether the artifact reports no volume, and is to have one."""
    return not artifact.status.persistent_volume_claim and artifact.spec.type is not ArtifactType.ADAPTER


WAITING_ARTIFACTS: Final = Index(
    ARTIFACTS, "waiting", lambda artifact: [artifact.namespace, EVERYWHERE] if is_waiting(artifact) else []
)
"""Artifacts that report no volume, by namespace and all together: they compete for storage."""
CLAIMS_BY_NAMESPACE: Final = Index(ARTIFACT_CLAIMS, "namespace", lambda claim: [claim.namespace, EVERYWHERE])
"""Claims by namespace, and all together."""


Cache: TypeAlias = AIMTemplateCache | AIMProfileCache
"""The two kinds of caches: what is said of a template holds for a profile as well (PR-080)."""


def _artifact_uids(cache: Cache) -> list[str]:
    return [artifact.uid for artifact in cache.status.artifacts.values()]


CACHES_BY_ARTIFACT: Final = Index(TEMPLATE_CACHES, "artifact", _artifact_uids)
PROFILE_CACHES_BY_ARTIFACT: Final = Index(PROFILE_CACHES, "artifact", _artifact_uids)


def caches_with(view: View, artifact: str) -> Selection[Cache]:
    """The caches of both kinds that list an artifact, by its UID."""
    of_templates, of_profiles = (
        view.select(CACHES_BY_ARTIFACT, artifact),
        view.select(PROFILE_CACHES_BY_ARTIFACT, artifact),
    )
    return Selection((*of_templates.items, *of_profiles.items), of_templates.error or of_profiles.error)


def is_of_profile(cache: Cache) -> bool:
    """Whether it is the cache of a profile."""
    return isinstance(cache, AIMProfileCache)


def part_of(cache: Cache) -> Part[AIMTemplateCache] | Part[AIMProfileCache]:
    """The part by which a cache travels."""
    return PROFILE_CACHES if isinstance(cache, AIMProfileCache) else TEMPLATE_CACHES


def maker_label(cache: Cache) -> str:
    """The label by which an artifact says which cache made it."""
    return labels.PROFILE_CACHE_NAME if isinstance(cache, AIMProfileCache) else labels.TEMPLATE_CACHE_NAME


CLAIMS_BY_OWNER: Final = owner_index(ARTIFACT_CLAIMS)
PODS_BY_JOB: Final = owner_index(ARTIFACT_PODS)


def mounted_claims(volumes: Iterable[Volume]) -> list[str]:
    """Names of the claims among volumes."""
    return [one.persistent_volume_claim.claim_name for one in volumes if one.persistent_volume_claim]


def claims_of_workload(service: InferenceService) -> list[str]:
    """The claims that the predictor mounts, each with its namespace."""
    return [scoped(service.namespace, claim) for claim in mounted_claims(service.spec.predictor.volumes)]


def claims_of_pod(pod: Pod) -> list[str]:
    """The claims that a pod mounts, each with its namespace; none once it has ended (AR-463)."""
    if pod.status.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}:
        return []
    return [scoped(pod.namespace, claim) for claim in mounted_claims(pod.spec.volumes)]


class ClaimUse(ApiModel):
    """That something mounts a claim (AR-426).

    Attributes:
        uid: of the InferenceService; empty while it is as it was created, because only when that was matters then.
    """

    uid: str = ""
    generation: int = AS_CREATED
    created: Time | None = None


def uses_of_workload(service: InferenceService) -> Iterable[tuple[str, ClaimUse]]:
    """How a workload uses its claims."""
    meta = service.metadata
    generation = meta.generation or AS_CREATED
    uid = "" if generation == AS_CREATED else service.uid
    use = ClaimUse(uid=uid, generation=generation, created=meta.creation_timestamp)
    return [(claim, use) for claim in claims_of_workload(service)]


def newest_and_changed(uses: Iterable[ClaimUse]) -> Iterable[ClaimUse]:
    """The newest, and all that were changed: the other thousand tell nothing that is asked."""
    some = list(uses)
    dated = [use for use in some if use.created is not None]
    newest = max(dated, key=lambda use: (use.created, use.uid), default=None)
    return [use for use in some if use.uid or use == newest]


USERS_BY_CLAIM: Final = Index(INFERENCE_SERVICES, "claim", claims_of_workload)
USES_OF_CLAIM: Final = Summary(INFERENCE_SERVICES, "claim-uses", ClaimUse, uses_of_workload, newest_and_changed)
ARTIFACT_PODS_BY_CLAIM: Final = Index(ARTIFACT_PODS, "claim", claims_of_pod)
PREDICTOR_PODS_BY_CLAIM: Final = Index(PREDICTOR_PODS, "claim", claims_of_pod)


def wanting(template: str, scope: str) -> str:
    """How services that want a template, or a profile, are found."""
    return f"{scope}/{template}"


def template_shared_by(service: AIMService) -> list[str]:
    """The template whose shared cache a live service wants; none before it is resolved (AR-464)."""
    return _what_it_shares(service, service.status.resolved_template)


def profile_shared_by(service: AIMService) -> list[str]:
    """The profile whose shared cache a live service wants; none before it is resolved."""
    return _what_it_shares(service, service.status.resolved_profile)


def _what_it_shares(service: AIMService, resolved: ResolvedReference | None) -> list[str]:
    caching = service.spec.caching
    is_shared = caching is None or caching.mode.effective is CacheMode.SHARED
    if service.deleting or not is_shared or resolved is None or not resolved.name:
        return []
    scope = resolved.scope or ResolutionScope.NAMESPACE
    return [scoped(service.namespace, wanting(resolved.name, scope.value))]


SERVICES_BY_TEMPLATE: Final = Index(SERVICES, "template", template_shared_by)
SERVICES_BY_PROFILE: Final = Index(SERVICES, "profile", profile_shared_by)

INDEXES: Final = (
    ARTIFACTS_BY_SOURCE,
    ADAPTERS_BY_DISK,
    ARTIFACTS_BY_CACHE,
    ARTIFACTS_BY_PROFILE_CACHE,
    WAITING_ARTIFACTS,
    CLAIMS_BY_NAMESPACE,
    CACHES_BY_ARTIFACT,
    PROFILE_CACHES_BY_ARTIFACT,
    CLAIMS_BY_OWNER,
    PODS_BY_JOB,
    USERS_BY_CLAIM,
    USES_OF_CLAIM,
    ARTIFACT_PODS_BY_CLAIM,
    PREDICTOR_PODS_BY_CLAIM,
    SERVICES_BY_TEMPLATE,
    SERVICES_BY_PROFILE,
    NAMESPACE_CONFIGS_BY_NAMESPACE,
)
