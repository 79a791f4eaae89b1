"""What serving publishes, consumes and reconciles."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aim_domain import POD_ACCESS, POD_EFFECTS, AimSettings, labels, pod_readers
from aim_domain.component_names import ROUTE_RECONCILED, ComponentName
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACTS,
    AUTOSCALERS,
    CLUSTER_MODELS,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    CUSTOM_PROFILES,
    INFERENCE_SERVICE_EVENTS,
    INFERENCE_SERVICES,
    KAIWO_CONFIGS,
    MODELS,
    NAMESPACE_CONFIGS,
    NAMESPACES,
    NODES,
    PREDICTOR_PODS,
    RUNTIME_CONFIGS,
    SERVICE_PLANS,
    SERVICES,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from aim_serving import SERVICE_NAME, indexes
from aim_serving.cleanup import finalize
from aim_serving.effects.awakening import DEPLOYMENT, Awakener
from aim_serving.effects.gpu_free import GpuReader
from aim_serving.effects.scaler_removal import REMOVED, SCALED_OBJECT, ScalerRemover
from aim_serving.effects.scaler_report import ScalerReader
from aim_serving.gpu_free import GPU_FREE
from aim_serving.left_at_zero import AWAKENING
from aim_serving.older_config import reconcile_kaiwo_config, reconcile_namespace_config
from aim_serving.reconcile import CONTROLLER, reconcile
from aim_serving.runtime_config import reconcile_cluster_config, reconcile_config
from aim_serving.scaler_leftovers import SCALER_REMOVAL
from aim_serving.scaler_report import SCALER_REPORT
from aim_serving.shown import SHOWN
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
from controller_runtime.kinds import POD

PUBLISHED: Final = (
    SERVICES,
    RUNTIME_CONFIGS,
    CLUSTER_RUNTIME_CONFIGS,
    NAMESPACE_CONFIGS,
    KAIWO_CONFIGS,
    INFERENCE_SERVICES,
    INFERENCE_SERVICE_EVENTS,
    AUTOSCALERS,
    PREDICTOR_PODS,
    SERVICE_PLANS,
    NAMESPACES,
)
CONSUMED: Final = (
    *PUBLISHED,
    MODELS,
    CLUSTER_MODELS,
    TEMPLATES,
    CLUSTER_TEMPLATES,
    NODES,
    TEMPLATE_CACHES,
    ARTIFACTS,
    ARTIFACT_CLAIMS,
    CUSTOM_PROFILES,
    FACTS,
)

WRITTEN: Final = (
    writes(SERVICES, Verb.PATCH),
    writes(MODELS, Verb.CREATE),
    writes(TEMPLATES, Verb.CREATE, Verb.PATCH, Verb.DELETE),
    writes(TEMPLATE_CACHES, Verb.CREATE, Verb.PATCH, Verb.DELETE),
    writes(ARTIFACTS, Verb.DELETE),
    writes(INFERENCE_SERVICES, Verb.APPLY),
    writes(CUSTOM_PROFILES, Verb.APPLY),
    writes(SERVICE_PLANS, Verb.APPLY, Verb.DELETE),
)
EFFECT_ACCESS: Final = {
    **POD_ACCESS,
    SCALER_REMOVAL: tuple(access(kind, ApiVerb.GET, ApiVerb.DELETE) for kind in REMOVED),
    SCALER_REPORT: (access(SCALED_OBJECT, ApiVerb.GET),),
    GPU_FREE: (access(POD, ApiVerb.LIST),),
    AWAKENING: (access(DEPLOYMENT, ApiVerb.GET), access(DEPLOYMENT, ApiVerb.PATCH, subresource="scale")),
}

SERVICE_RECONCILER: Final = Reconciler(
    controller=CONTROLLER,
    part=SERVICES,
    reconcile=reconcile,
    finalizer=labels.FINALIZER_SERVICE,
    finalize=finalize,
    status=StatusOwnership(
        foreign_fields=frozenset({"routing"}),
        foreign_conditions=frozenset({ComponentName.HTTP_ROUTE.condition, ROUTE_RECONCILED}),
    ),
)
CONFIG_RECONCILER: Final = Reconciler(controller="runtime-config", part=RUNTIME_CONFIGS, reconcile=reconcile_config)
CLUSTER_CONFIG_RECONCILER: Final = Reconciler(
    controller="cluster-runtime-config", part=CLUSTER_RUNTIME_CONFIGS, reconcile=reconcile_cluster_config
)
NAMESPACE_CONFIG_RECONCILER: Final = Reconciler(
    controller="namespace-config", part=NAMESPACE_CONFIGS, reconcile=reconcile_namespace_config
)
KAIWO_CONFIG_RECONCILER: Final = Reconciler(
    controller="kaiwo-config", part=KAIWO_CONFIGS, reconcile=reconcile_kaiwo_config
)


def definition(_: AimSettings) -> ServiceDefinition:
    """The declaration of the serving service."""
    return ServiceDefinition(
        name=SERVICE_NAME,
        publishes=PUBLISHED,
        consumes=CONSUMED,
        indexes=indexes.ALL,
        shown=SHOWN,
        reconcilers=(
            SERVICE_RECONCILER,
            CONFIG_RECONCILER,
            CLUSTER_CONFIG_RECONCILER,
            NAMESPACE_CONFIG_RECONCILER,
            KAIWO_CONFIG_RECONCILER,
        ),
        effect_kinds={**POD_EFFECTS, SCALER_REMOVAL: 8, SCALER_REPORT: 8, GPU_FREE: 1, AWAKENING: 8},
        writes=WRITTEN,
        effect_access=EFFECT_ACCESS,
        governs_streams=True,
    )


@asynccontextmanager
async def effect_runners(_settings: AimSettings, kube: KubeClient) -> AsyncIterator[Mapping[str, EffectRunner]]:
    """Runners for what is read of pods, GPUs and KEDA on demand, and for what autoscalers leave behind."""
    own: dict[str, EffectRunner] = {
        SCALER_REMOVAL: ScalerRemover(kube),
        SCALER_REPORT: ScalerReader(kube),
        GPU_FREE: GpuReader(kube),
        AWAKENING: Awakener(kube),
    }
    yield {**pod_readers(kube), **own}
