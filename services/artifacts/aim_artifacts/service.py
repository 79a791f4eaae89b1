"""What artifacts publishes, consumes and reconciles, and which changes of other objects concern it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from aim_artifacts import SERVICE_NAME
from aim_artifacts.artifact_reconcile import reconcile_artifact
from aim_artifacts.cache_reconcile import clean_up_cache, reconcile_cache
from aim_artifacts.effects.account import AccountMaker
from aim_artifacts.effects.mounts import MountReader
from aim_artifacts.indexes import INDEXES
from aim_artifacts.jobs import DOWNLOAD_ACCOUNT
from aim_artifacts.limits.admission import ARTIFACT_WAKES
from aim_artifacts.limits.mounts import MOUNTED_CLAIMS
from aim_artifacts.metrics import StorageReadings
from aim_artifacts.progress import is_mere_progress
from aim_artifacts.secret_watch import SECRET_VERSIONS
from aim_artifacts.settings import ArtifactsSettings
from aim_domain import (
    POD_ACCESS,
    POD_EFFECTS,
    SHOWN_OF_OLDER_CONFIGS,
    AIMArtifact,
    AIMClusterServiceTemplate,
    AIMService,
    AIMServiceTemplate,
    AIMTemplateCache,
    InferenceService,
    kinds,
    labels,
    parts,
    pod_readers,
    shown_of_config,
    shown_of_pod,
)
from aim_domain.parts import (
    ARTIFACT_PODS,
    ARTIFACTS,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    INFERENCE_SERVICES,
    NAMESPACES,
    PREDICTOR_PODS,
    RUNTIME_CONFIGS,
    SERVICES,
    STATUS_UPDATER_BINDINGS,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from aim_domain.pull_secrets import read_secret_versions
from controller_runtime import (
    FACTS,
    ApiVerb,
    EffectRunner,
    KubeClient,
    Reconciler,
    ServiceDefinition,
    Shown,
    StatusOwnership,
    Verb,
    access,
    find_condition,
    is_paused,
    writes,
)
from controller_runtime.core import Namespace, Pod, RoleBinding
from controller_runtime.kinds import CLUSTER_ROLE, SECRET, SERVICE_ACCOUNT


def _of_artifact(artifact: AIMArtifact) -> tuple[object, ...]:
    """Everything of an artifact but its progress."""
    metadata, status = artifact.metadata, artifact.status
    return (
        metadata.generation,
        metadata.deletion_timestamp,
        metadata.labels,
        metadata.annotations.get(labels.ANNOTATION_PROMOTED_FROM),
        metadata.annotations.get(labels.ANNOTATION_ENV_AS_OF),
        metadata.annotations.get(labels.ANNOTATION_EVICTION_PROTECTED),
        is_paused(artifact),
        metadata.owner_references,
        status.has("status"),
        status.status,
        status.persistent_volume_claim,
        status.last_used,
        _ready_of(artifact),
    )


def _of_template(template: AIMServiceTemplate | AIMClusterServiceTemplate) -> tuple[object, ...]:
    """Status value, Ready condition and model sources (FW-116)."""
    return (template.status.status, _ready_of(template), template.status.model_sources)


def _ready_of(obj: AIMArtifact | AIMServiceTemplate | AIMClusterServiceTemplate) -> tuple[str, str, str] | None:
    ready = find_condition(obj.status.conditions, "Ready")
    return None if ready is None else (ready.status, ready.reason, ready.message)


def _of_other_cache(cache: AIMTemplateCache) -> bool:
    """Whether it goes on using an artifact (AR-586)."""
    return cache.deleting


def _of_namespace(namespace: Namespace) -> tuple[object, ...]:
    return (namespace.deleting, namespace.metadata.annotations.get(labels.ANNOTATION_STORAGE_QUOTA))


def _of_workload(workload: InferenceService) -> object:
    """When a model was deployed (AR-425, AR-426); what it mounts is an index."""
    return (workload.metadata.creation_timestamp, workload.metadata.generation)


def _of_service(service: AIMService) -> object:
    """Whether it wants a cache of its own (AR-464); which template it wants is an index."""
    return service.deleting


def _of_predictor_pod(_: Pod) -> None:
    """That it is there; what it mounts, as long as it runs, is an index."""


def _of_binding(binding: RoleBinding) -> object:
    """That it is there, and for whom (AR-813)."""
    return (binding.role_ref.name, binding.subjects)


SHOWN: Final = (
    Shown(ARTIFACTS, _of_artifact),
    Shown(TEMPLATE_CACHES, _of_other_cache),
    Shown(TEMPLATES, _of_template),
    Shown(CLUSTER_TEMPLATES, _of_template),
    Shown(RUNTIME_CONFIGS, shown_of_config),
    Shown(CLUSTER_RUNTIME_CONFIGS, shown_of_config),
    *SHOWN_OF_OLDER_CONFIGS,
    Shown(ARTIFACT_PODS, shown_of_pod),
    Shown(NAMESPACES, _of_namespace),
    Shown(INFERENCE_SERVICES, _of_workload),
    Shown(SERVICES, _of_service),
    Shown(PREDICTOR_PODS, _of_predictor_pod),
    Shown(STATUS_UPDATER_BINDINGS, _of_binding),
)


_PUBLISHED = (
    parts.ARTIFACTS,
    parts.TEMPLATE_CACHES,
    parts.ARTIFACT_CLAIMS,
    parts.ARTIFACT_JOBS,
    parts.ARTIFACT_PODS,
    parts.STATUS_UPDATER_BINDINGS,
)
_OF_OTHERS = (
    parts.TEMPLATES,
    parts.CLUSTER_TEMPLATES,
    parts.RUNTIME_CONFIGS,
    parts.CLUSTER_RUNTIME_CONFIGS,
    parts.NAMESPACE_CONFIGS,
    parts.KAIWO_CONFIGS,
    parts.NAMESPACES,
    parts.SERVICES,
    parts.INFERENCE_SERVICES,
    parts.PREDICTOR_PODS,
    FACTS,
)

_VOLUMES: Final = 2 << 20
"""Bytes of the artifacts and claims that each pass reads where storage is limited: some 700 of both."""


def definition(settings: ArtifactsSettings) -> ServiceDefinition:
    """The declaration of the artifacts service."""
    return ServiceDefinition(
        name=SERVICE_NAME,
        publishes=_PUBLISHED,
        consumes=(*_PUBLISHED, *_OF_OTHERS),
        indexes=INDEXES,
        shown=SHOWN,
        reconcilers=(
            Reconciler(
                controller="artifact",
                part=parts.ARTIFACTS,
                reconcile=partial(reconcile_artifact, settings),
                wakes=ARTIFACT_WAKES,
                status=StatusOwnership(foreign_fields=frozenset({"progress", "download"})),
                ignores=is_mere_progress,
            ),
            Reconciler(
                controller="template-cache",
                part=parts.TEMPLATE_CACHES,
                reconcile=reconcile_cache,
                finalizer=labels.FINALIZER_TEMPLATE_CACHE,
                finalize=clean_up_cache,
            ),
        ),
        writes=(
            writes(parts.ARTIFACTS, Verb.CREATE, Verb.PATCH, Verb.DELETE),
            writes(parts.TEMPLATE_CACHES, Verb.PATCH),
            writes(parts.ARTIFACT_CLAIMS, Verb.CREATE, Verb.PATCH),
            writes(parts.ARTIFACT_JOBS, Verb.CREATE, Verb.DELETE),
            writes(parts.STATUS_UPDATER_BINDINGS, Verb.CREATE, Verb.PATCH),
        ),
        effect_kinds={**POD_EFFECTS, MOUNTED_CLAIMS: 4, DOWNLOAD_ACCOUNT: 4, SECRET_VERSIONS: 4},
        effect_access={
            **POD_ACCESS,
            MOUNTED_CLAIMS: (access(kinds.POD, ApiVerb.LIST),),
            DOWNLOAD_ACCOUNT: (access(SERVICE_ACCOUNT, ApiVerb.GET, ApiVerb.CREATE),),
            SECRET_VERSIONS: (access(SECRET, ApiVerb.GET),),
        },
        # A client that binds a role needs its permissions, or this one.
        other_access=(access(CLUSTER_ROLE, ApiVerb.BIND, name=settings.artifact_status_clusterrole),),
        readings=StorageReadings(),
        kept_decoded=_VOLUMES,
    )


@asynccontextmanager
async def effect_runners(_: ArtifactsSettings, kube: KubeClient) -> AsyncIterator[Mapping[str, EffectRunner]]:
    """Readers of pods' logs, Events, volumes and Secrets' versions, and the maker of the account that they run as."""
    yield {
        **pod_readers(kube),
        MOUNTED_CLAIMS: MountReader(kube),
        DOWNLOAD_ACCOUNT: AccountMaker(kube),
        SECRET_VERSIONS: partial(read_secret_versions, kube),
    }
