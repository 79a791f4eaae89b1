"""What the artifacts service publishes, consumes and reconciles."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from aim_artifacts import SERVICE_NAME
from aim_artifacts.artifact_reconcile import reconcile_artifact
from aim_artifacts.cache_reconcile import clean_up_cache, reconcile_cache
from aim_artifacts.download_account import DOWNLOAD_ACCOUNT
from aim_artifacts.effects.account import AccountMaker
from aim_artifacts.effects.mounts import MountReader
from aim_artifacts.indexes import INDEXES
from aim_artifacts.limits.mounts import MOUNTED_CLAIMS
from aim_artifacts.limits.wakes import ARTIFACT_WAKES
from aim_artifacts.metrics import StorageReadings
from aim_artifacts.progress import is_mere_progress
from aim_artifacts.secret_watch import SECRET_VERSIONS
from aim_artifacts.settings import ArtifactsSettings
from aim_artifacts.shown import SHOWN
from aim_domain import POD_ACCESS, POD_EFFECTS, kinds, labels, parts, pod_readers
from aim_domain.pull_secrets import read_secret_versions
from controller_runtime import (
    FACTS,
    ApiVerb,
    EffectRunner,
    KubeClient,
    Reconciler,
    ServiceDefinition,
    StatusOwnership,
    Verb,
    access,
    writes,
)
from controller_runtime.kinds import CLUSTER_ROLE, SECRET, SERVICE_ACCOUNT

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
        # Whoever binds a role has to have its permissions, or this one.
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
