"""Look-ups in the world that reconcilers and wakes of this service use."""

from collections.abc import Iterable
from typing import Final

from aim_domain import API_VERSION, NAMESPACE_CONFIGS_BY_NAMESPACE, AIMArtifact, InferenceService, labels
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_PODS, ARTIFACTS, INFERENCE_SERVICES, TEMPLATE_CACHES
from controller_runtime import Index, Key, Resource, label_index, owner_index, scoped

ARTIFACTS_BY_SOURCE: Final = Index(
    ARTIFACTS, "source", lambda artifact: [scoped(artifact.namespace, artifact.spec.source_uri)]
)
ARTIFACTS_BY_CACHE: Final = label_index(ARTIFACTS, labels.TEMPLATE_CACHE_NAME)
EVERYWHERE: Final = ""
"""Value under which those of all namespaces are found."""


def is_waiting(artifact: AIMArtifact) -> bool:
    """Whether the artifact reports no volume."""
    return not artifact.status.persistent_volume_claim


WAITING_ARTIFACTS: Final = Index(
    ARTIFACTS, "waiting", lambda artifact: [artifact.namespace, EVERYWHERE] if is_waiting(artifact) else []
)
"""Artifacts that report no volume, by namespace and all together: they compete for storage."""
CLAIMS_BY_NAMESPACE: Final = Index(ARTIFACT_CLAIMS, "namespace", lambda claim: [claim.namespace])

CACHES_BY_ARTIFACT: Final = Index(
    TEMPLATE_CACHES, "artifact", lambda cache: [artifact.uid for artifact in cache.status.artifacts.values()]
)
CLAIMS_BY_OWNER: Final = owner_index(ARTIFACT_CLAIMS)
PODS_BY_JOB: Final = owner_index(ARTIFACT_PODS)


def mounted_claims(service: InferenceService) -> list[str]:
    """Names of the claims that the predictor mounts."""
    volumes = service.spec.predictor.volumes
    return [volume.persistent_volume_claim.claim_name for volume in volumes if volume.persistent_volume_claim]


USERS_BY_CLAIM: Final = Index(
    INFERENCE_SERVICES,
    "claim",
    lambda service: [scoped(service.namespace, claim) for claim in mounted_claims(service)],
)

INDEXES: Final = (
    ARTIFACTS_BY_SOURCE,
    ARTIFACTS_BY_CACHE,
    WAITING_ARTIFACTS,
    CLAIMS_BY_NAMESPACE,
    CACHES_BY_ARTIFACT,
    CLAIMS_BY_OWNER,
    PODS_BY_JOB,
    USERS_BY_CLAIM,
    NAMESPACE_CONFIGS_BY_NAMESPACE,
)


def owning_artifacts(child: Resource) -> Iterable[Key]:
    """Keys of the artifacts that own an object."""
    owners = child.metadata.owner_references
    return [
        Key(child.namespace, owner.name)
        for owner in owners
        if owner.kind == "AIMArtifact" and owner.api_version == API_VERSION
    ]
