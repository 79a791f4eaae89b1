"""What discovery publishes, consumes and reconciles."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from aim_discovery.effect_kinds import SERVICE_NAME, EffectKind
from aim_discovery.effects.image_inspection import ImageInspector
from aim_discovery.effects.job_log import JobLogReader
from aim_discovery.effects.node_taint import NodeTainter
from aim_discovery.effects.secrets import PullSecretReader
from aim_discovery.models.inspection import RetrySchedule
from aim_discovery.models.reconcile import ModelReconcile
from aim_discovery.node_taint import reconcile_node
from aim_discovery.scopes import (
    CLUSTER_MODEL,
    CLUSTER_TEMPLATE,
    CLUSTER_TEMPLATES_BY_MODEL,
    NAMESPACED_MODEL,
    NAMESPACED_TEMPLATE,
    TEMPLATES_BY_MODEL,
    ModelScope,
    TemplateScope,
)
from aim_discovery.settings import DiscoverySettings
from aim_discovery.shown import SHOWN
from aim_discovery.templates.caching import CACHES_BY_OWNER
from aim_discovery.templates.discovery import JOBS_BY_OWNER, PODS_BY_JOB
from aim_discovery.templates.reconcile import TemplateReconcile
from aim_discovery.templates.slots import ACTIVE_JOBS, CLUSTER_LINE, LINE, readings
from aim_discovery.wakes import wakes_of_line
from aim_domain import (
    GPUS,
    NAMESPACE_CONFIGS_BY_NAMESPACE,
    POD_ACCESS,
    POD_EFFECTS,
    mirror_credentials,
    pod_readers,
)
from aim_domain.parts import (
    CLUSTER_MODELS,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    CUSTOM_PROFILES,
    DISCOVERY_JOBS,
    DISCOVERY_PODS,
    KAIWO_CONFIGS,
    MODELS,
    NAMESPACE_CONFIGS,
    NAMESPACES,
    NODES,
    RUNTIME_CONFIGS,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from controller_runtime import (
    FACTS,
    ApiVerb,
    EffectRunner,
    KubeClient,
    Reconciler,
    ServiceDefinition,
    Verb,
    access,
    writes,
)
from controller_runtime.kinds import NODE, POD, SECRET, SERVICE_ACCOUNT
from oci_registry import RegistryClient, opened

_PUBLISHED = (
    MODELS,
    CLUSTER_MODELS,
    TEMPLATES,
    CLUSTER_TEMPLATES,
    DISCOVERY_JOBS,
    DISCOVERY_PODS,
    NODES,
    CUSTOM_PROFILES,
)

_EFFECT_ACCESS: Final = {
    **POD_ACCESS,
    EffectKind.PULL_SECRETS: (access(SECRET, ApiVerb.GET), access(SERVICE_ACCOUNT, ApiVerb.GET)),
    EffectKind.IMAGE_INSPECTION: (access(SECRET, ApiVerb.GET), access(SERVICE_ACCOUNT, ApiVerb.GET)),
    EffectKind.JOB_LOG: (access(POD, ApiVerb.LIST), access(POD, ApiVerb.GET, subresource="log")),
    EffectKind.NODE_TAINT: (access(NODE, ApiVerb.GET, ApiVerb.PATCH),),
}


def definition(settings: DiscoverySettings) -> ServiceDefinition:
    """The declaration of the discovery service."""
    return ServiceDefinition(
        name=SERVICE_NAME,
        publishes=_PUBLISHED,
        consumes=(
            *_PUBLISHED,
            RUNTIME_CONFIGS,
            CLUSTER_RUNTIME_CONFIGS,
            NAMESPACE_CONFIGS,
            KAIWO_CONFIGS,
            NAMESPACES,
            TEMPLATE_CACHES,
            FACTS,
        ),
        indexes=(
            TEMPLATES_BY_MODEL,
            CLUSTER_TEMPLATES_BY_MODEL,
            JOBS_BY_OWNER,
            PODS_BY_JOB,
            GPUS,
            ACTIVE_JOBS,
            LINE,
            CLUSTER_LINE,
            CACHES_BY_OWNER,
            NAMESPACE_CONFIGS_BY_NAMESPACE,
        ),
        shown=SHOWN,
        reconcilers=(
            _models(NAMESPACED_MODEL, settings),
            _models(CLUSTER_MODEL, settings),
            _templates(NAMESPACED_TEMPLATE, settings),
            _templates(CLUSTER_TEMPLATE, settings),
            Reconciler(controller="gpu-node", part=NODES, reconcile=reconcile_node),
        ),
        # Inspections are limited per registry host; a hanging one must not hold the others up.
        effect_kinds={
            **POD_EFFECTS,
            EffectKind.PULL_SECRETS: 16,
            EffectKind.IMAGE_INSPECTION: 256,
            EffectKind.JOB_LOG: 16,
            EffectKind.NODE_TAINT: 4,
        },
        writes=(
            writes(TEMPLATES, Verb.APPLY),
            writes(CLUSTER_TEMPLATES, Verb.APPLY),
            writes(TEMPLATE_CACHES, Verb.CREATE),
            writes(DISCOVERY_JOBS, Verb.CREATE, Verb.DELETE),
            writes(CUSTOM_PROFILES, Verb.APPLY, Verb.DELETE),
        ),
        effect_access=_EFFECT_ACCESS,
        readings=readings,
    )


def _models(scope: ModelScope, settings: DiscoverySettings) -> Reconciler[Any]:
    schedule = RetrySchedule(settings.extraction_retry_initial, settings.extraction_retry_max)
    reconcile = ModelReconcile(scope, settings.system_namespace, schedule)
    return Reconciler(controller=scope.controller, part=scope.part, reconcile=reconcile)


def _templates(scope: TemplateScope, settings: DiscoverySettings) -> Reconciler[Any]:
    reconcile = TemplateReconcile(scope, settings)
    wakes = wakes_of_line(scope.part.kind.namespaced, settings.max_discovery_jobs)
    return Reconciler(controller=scope.controller, part=scope.part, reconcile=reconcile, wakes=wakes)


@asynccontextmanager
async def effect_runners(settings: DiscoverySettings, kube: KubeClient) -> AsyncIterator[Mapping[str, EffectRunner]]:
    """Runners with their registry client, which follows the mirror configuration while it is open (FW-395)."""
    secrets = PullSecretReader(kube)
    client = RegistryClient(
        settings,
        mirror_secrets=partial(mirror_credentials, kube, settings.system_namespace),
        api_server=kube.server,
        inspection_timeout=settings.inspection_timeout,
    )
    async with opened(client, settings.registry_config) as registry:
        yield {
            **pod_readers(kube),
            EffectKind.PULL_SECRETS: secrets,
            EffectKind.IMAGE_INSPECTION: ImageInspector(registry, secrets),
            EffectKind.JOB_LOG: JobLogReader(kube),
            EffectKind.NODE_TAINT: NodeTainter(kube),
        }
