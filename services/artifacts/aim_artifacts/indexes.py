"""Look-ups in the world that reconcilers and wakes of this service use."""

from collections.abc import Iterable
from typing import Final

from aim_shared.api import (
    AIMTemplateCache,
    InferenceService,
    Pod,
    Resource,
    TemplateScope,
    labels,
)
from aim_shared.api.meta import API_VERSION
from aim_shared.api.service_template import TemplateStatus
from aim_shared.bus.part import Index, Key, label_index, owner_index, scoped
from aim_shared.bus.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACT_PODS,
    ARTIFACTS,
    CLUSTER_TEMPLATES,
    INFERENCE_SERVICES,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from aim_shared.naming import optional_label_value
from aim_shared.runtimeconfig.resolve import effective_name

ARTIFACTS_BY_NAMESPACE: Final = Index(ARTIFACTS, "namespace", lambda artifact: [artifact.namespace])
ARTIFACTS_BY_SOURCE: Final = Index(
    ARTIFACTS, "source", lambda artifact: [scoped(artifact.namespace, artifact.spec.source_uri)]
)
ARTIFACTS_BY_CACHE: Final = label_index(ARTIFACTS, labels.TEMPLATE_CACHE_NAME)
ARTIFACTS_BY_CONFIG: Final = Index(
    ARTIFACTS, "config", lambda artifact: [effective_name(artifact.spec.runtime_config_name)]
)
EVERYWHERE: Final = ""
"""Value under which those of all namespaces are found."""
WAITING_ARTIFACTS: Final = Index(
    ARTIFACTS,
    "waiting",
    lambda artifact: [] if artifact.status.persistent_volume_claim else [artifact.namespace, EVERYWHERE],
)
"""Artifacts that report no volume, by namespace and all together: they compete for storage."""
CLAIMS_BY_NAMESPACE: Final = Index(ARTIFACT_CLAIMS, "namespace", lambda claim: [claim.namespace])

CACHES_BY_CONFIG: Final = Index(
    TEMPLATE_CACHES, "config", lambda cache: [effective_name(cache.spec.runtime_config_name)]
)
CACHES_BY_LABEL: Final = Index(
    TEMPLATE_CACHES, "label", lambda cache: [scoped(cache.namespace, optional_label_value(cache.name) or "")]
)
CACHES_BY_ARTIFACT: Final = Index(
    TEMPLATE_CACHES, "artifact", lambda cache: [artifact.uid for artifact in cache.status.artifacts.values()]
)
CACHES_BY_SOURCE: Final = Index(
    TEMPLATE_CACHES,
    "source",
    lambda cache: [scoped(cache.namespace, source.source_uri) for source in cache.spec.model_sources],
)


def _templates_of(cache: AIMTemplateCache, excluded: TemplateScope, key: str) -> list[str]:
    return [] if cache.spec.template_scope == excluded else [key]


CACHES_BY_TEMPLATE: Final = Index(
    TEMPLATE_CACHES,
    "template",
    lambda cache: _templates_of(cache, TemplateScope.CLUSTER, scoped(cache.namespace, cache.spec.template_name)),
)
CACHES_BY_CLUSTER_TEMPLATE: Final = Index(
    TEMPLATE_CACHES,
    "cluster-template",
    lambda cache: _templates_of(cache, TemplateScope.NAMESPACE, cache.spec.template_name),
)
LOCAL_CACHES_BY_CLUSTER_TEMPLATE: Final = Index(
    TEMPLATE_CACHES,
    "local-cluster-template",
    lambda cache: _templates_of(cache, TemplateScope.NAMESPACE, scoped(cache.namespace, cache.spec.template_name)),
)
"""The same by the cache's namespace as well."""


def _sources(status: TemplateStatus) -> list[str]:
    return [source.source_uri for source in status.model_sources]


TEMPLATES_BY_SOURCE: Final = Index(
    TEMPLATES,
    "source",
    lambda template: [scoped(template.namespace, uri) for uri in _sources(template.status)],
)
CLUSTER_TEMPLATES_BY_SOURCE: Final = Index(CLUSTER_TEMPLATES, "source", lambda template: _sources(template.status))

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
    ARTIFACTS_BY_NAMESPACE,
    ARTIFACTS_BY_SOURCE,
    ARTIFACTS_BY_CACHE,
    ARTIFACTS_BY_CONFIG,
    WAITING_ARTIFACTS,
    CLAIMS_BY_NAMESPACE,
    CACHES_BY_CONFIG,
    CACHES_BY_LABEL,
    CACHES_BY_ARTIFACT,
    CACHES_BY_SOURCE,
    CACHES_BY_TEMPLATE,
    CACHES_BY_CLUSTER_TEMPLATE,
    LOCAL_CACHES_BY_CLUSTER_TEMPLATE,
    TEMPLATES_BY_SOURCE,
    CLUSTER_TEMPLATES_BY_SOURCE,
    CLAIMS_BY_OWNER,
    PODS_BY_JOB,
    USERS_BY_CLAIM,
)


def owning_artifacts(child: Resource) -> Iterable[Key]:
    """Keys of the artifacts that own an object."""
    owners = child.metadata.owner_references
    return [
        Key(child.namespace, owner.name)
        for owner in owners
        if owner.kind == "AIMArtifact" and owner.api_version == API_VERSION
    ]


def owning_job(pod: Pod) -> str | None:
    """Name of the Job that a pod belongs to."""
    return next((owner.name for owner in pod.metadata.owner_references if owner.kind == "Job"), None)
