"""What artifacts publishes, consumes and reconciles, and which changes of other objects concern it."""

from functools import partial
from typing import Final

from aim_artifacts import SERVICE_NAME
from aim_artifacts.artifact_reconcile import reconcile_artifact
from aim_artifacts.cache_reconcile import CONTROLLER, PROFILE_CONTROLLER, clean_up_cache, reconcile_cache
from aim_artifacts.download_account import DOWNLOAD_ACCOUNT
from aim_artifacts.indexes import INDEXES, Cache
from aim_artifacts.limits.admission import ARTIFACT_MAPPINGS
from aim_artifacts.limits.mounts import MOUNTED_CLAIMS
from aim_artifacts.metrics import StorageReadings
from aim_artifacts.progress import is_mere_progress
from aim_artifacts.secret_watch import SECRET_VERSIONS
from aim_artifacts.settings import ArtifactsSettings
from aim_domain import (
    CONFIG_PREDICATES,
    POD_EFFECTS,
    AIMArtifact,
    AIMClusterServiceTemplate,
    AIMService,
    AIMServiceTemplate,
    AnyProfile,
    InferenceService,
    labels,
    parts,
    pod_predicate,
)
from aim_domain.parts import (
    ARTIFACT_PODS,
    ARTIFACTS,
    CLUSTER_PROFILES,
    CLUSTER_TEMPLATES,
    INFERENCE_SERVICES,
    NAMESPACES,
    PREDICTOR_PODS,
    PROFILE_CACHES,
    PROFILES,
    SERVICES,
    STATUS_UPDATER_BINDINGS,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from controller_runtime import (
    FACTS,
    ApiVerb,
    Predicate,
    Reconciler,
    ServiceDefinition,
    StatusOwnership,
    Verb,
    access,
    find_condition,
    is_paused,
    writes,
)
from controller_runtime.core import Namespace, Pod, RoleBinding
from controller_runtime.kinds import CLUSTER_ROLE


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


def _of_profile(profile: AnyProfile) -> tuple[object, ...]:
    """Its weights."""
    return (profile.spec.model_sources,)


def _ready_of(obj: AIMArtifact | AIMServiceTemplate | AIMClusterServiceTemplate) -> tuple[str, str, str] | None:
    ready = find_condition(obj.status.conditions, "Ready")
    return None if ready is None else (ready.status, ready.reason, ready.message)


def _of_other_cache(cache: Cache) -> bool:
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


PREDICATES: Final = (
    Predicate(ARTIFACTS, _of_artifact),
    Predicate(TEMPLATE_CACHES, _of_other_cache),
    Predicate(PROFILE_CACHES, _of_other_cache),
    Predicate(PROFILES, _of_profile),
    Predicate(CLUSTER_PROFILES, _of_profile),
    Predicate(TEMPLATES, _of_template),
    Predicate(CLUSTER_TEMPLATES, _of_template),
    *CONFIG_PREDICATES,
    Predicate(ARTIFACT_PODS, pod_predicate),
    Predicate(NAMESPACES, _of_namespace),
    Predicate(INFERENCE_SERVICES, _of_workload),
    Predicate(SERVICES, _of_service),
    Predicate(PREDICTOR_PODS, _of_predictor_pod),
    Predicate(STATUS_UPDATER_BINDINGS, _of_binding),
)


_PUBLISHED = (
    parts.ARTIFACTS,
    parts.TEMPLATE_CACHES,
    parts.PROFILE_CACHES,
    parts.ARTIFACT_CLAIMS,
    parts.ARTIFACT_JOBS,
    parts.ARTIFACT_PODS,
    parts.STATUS_UPDATER_BINDINGS,
)
_OF_OTHERS = (
    parts.TEMPLATES,
    parts.CLUSTER_TEMPLATES,
    parts.PROFILES,
    parts.CLUSTER_PROFILES,
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


SETTINGS: Final = ArtifactsSettings
"""The class of the settings that `definition` takes."""


def definition(settings: ArtifactsSettings) -> ServiceDefinition:
    """The declaration of the artifacts service."""
    return ServiceDefinition(
        name=SERVICE_NAME,
        publishes=_PUBLISHED,
        consumes=(*_PUBLISHED, *_OF_OTHERS),
        indexes=INDEXES,
        predicates=PREDICATES,
        reconcilers=(
            Reconciler(
                controller="artifact",
                part=parts.ARTIFACTS,
                reconcile=partial(reconcile_artifact, settings),
                mappings=ARTIFACT_MAPPINGS,
                status=StatusOwnership(foreign_fields=frozenset({"progress", "download"})),
                ignores=is_mere_progress,
            ),
            Reconciler(
                controller=CONTROLLER,
                part=parts.TEMPLATE_CACHES,
                reconcile=reconcile_cache,
                finalizer=labels.FINALIZER_TEMPLATE_CACHE,
                finalize=clean_up_cache,
            ),
            Reconciler(
                controller=PROFILE_CONTROLLER,
                part=parts.PROFILE_CACHES,
                reconcile=reconcile_cache,
                finalizer=labels.FINALIZER_PROFILE_CACHE,
                finalize=clean_up_cache,
            ),
        ),
        writes=(
            writes(parts.ARTIFACTS, Verb.CREATE, Verb.PATCH, Verb.DELETE),
            writes(parts.TEMPLATE_CACHES, Verb.PATCH),
            writes(parts.PROFILE_CACHES, Verb.PATCH),
            writes(parts.ARTIFACT_CLAIMS, Verb.CREATE, Verb.PATCH),
            writes(parts.ARTIFACT_JOBS, Verb.CREATE, Verb.DELETE),
            writes(parts.STATUS_UPDATER_BINDINGS, Verb.CREATE, Verb.PATCH),
        ),
        effects=(*POD_EFFECTS, MOUNTED_CLAIMS, DOWNLOAD_ACCOUNT, SECRET_VERSIONS),
        # A client that binds a role needs its permissions, or this one.
        other_access=(access(CLUSTER_ROLE, ApiVerb.BIND, name=settings.artifact_status_clusterrole),),
        readings=StorageReadings(),
        kept_decoded=_VOLUMES,
    )
