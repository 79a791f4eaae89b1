"""All parts of the platform, as a table (docs/spec/README.md section 8).

Who publishes and who consumes which part stands in each service's ``service.py``.
"""

from typing import Final

from aim_domain import kinds, labels, trim
from controller_runtime import FieldOwner, Part

_CONTROLLERS: Final = (
    "service",
    "model",
    "cluster-model",
    "cluster-model-source",
    "service-template",
    "cluster-service-template",
    "template-cache",
    "artifact",
    "profile",
    "cluster-profile",
    "profile-set",
    "cluster-profile-set",
    "profile-cache",
)
_APPLIED_BEFORE: Final = frozenset(FieldOwner(f"aim-{name}-controller", "Apply") for name in _CONTROLLERS)
"""Of the existing Go operator's, on kinds that are applied (FW-209)."""
_STATUS_BEFORE: Final = frozenset(
    {
        *(FieldOwner(f"aim-{name}-controller", "Apply", "status") for name in _CONTROLLERS),
        # Other operators' binaries have this name as well, so only on kinds that no other operator writes.
        FieldOwner("manager", "Update", "status"),
        FieldOwner("aim-go", "Update", "status"),
    }
)
"""Of the existing Go operator's, on the kinds whose status it writes."""

SERVICES: Final = Part("aimservices", kinds.AIM_SERVICE, predecessors=_STATUS_BEFORE)
MODELS: Final = Part("aimmodels", kinds.AIM_MODEL, predecessors=_STATUS_BEFORE)
CLUSTER_MODELS: Final = Part("aimclustermodels", kinds.AIM_CLUSTER_MODEL, predecessors=_STATUS_BEFORE)
TEMPLATES: Final = Part(
    "aimservicetemplates", kinds.AIM_SERVICE_TEMPLATE, predecessors=_APPLIED_BEFORE | _STATUS_BEFORE
)
CLUSTER_TEMPLATES: Final = Part(
    "aimclusterservicetemplates", kinds.AIM_CLUSTER_SERVICE_TEMPLATE, predecessors=_APPLIED_BEFORE | _STATUS_BEFORE
)
TEMPLATE_CACHES: Final = Part("aimtemplatecaches", kinds.AIM_TEMPLATE_CACHE, predecessors=_STATUS_BEFORE)
ARTIFACTS: Final = Part("aimartifacts", kinds.AIM_ARTIFACT, predecessors=_STATUS_BEFORE)
PROFILES: Final = Part("aimprofiles", kinds.AIM_PROFILE, predecessors=_APPLIED_BEFORE | _STATUS_BEFORE)
CLUSTER_PROFILES: Final = Part(
    "aimclusterprofiles", kinds.AIM_CLUSTER_PROFILE, predecessors=_APPLIED_BEFORE | _STATUS_BEFORE
)
PROFILE_SETS: Final = Part("aimprofilesets", kinds.AIM_PROFILE_SET, predecessors=_APPLIED_BEFORE | _STATUS_BEFORE)
CLUSTER_PROFILE_SETS: Final = Part("aimclusterprofilesets", kinds.AIM_CLUSTER_PROFILE_SET, predecessors=_STATUS_BEFORE)
PROFILE_CACHES: Final = Part("aimprofilecaches", kinds.AIM_PROFILE_CACHE, predecessors=_STATUS_BEFORE)
PROFILE_CATALOGUES: Final = Part(
    "configmaps-profile-catalogue",
    kinds.CONFIG_MAP,
    label_selector=f"{labels.COMPONENT}={labels.COMPONENT_PROFILE_CATALOGUE}",
)
"""Profiles that were read from an image; those of `sourceRef` carry the label as well (PR-094, PR-112)."""
RUNTIME_CONFIGS: Final = Part("aimruntimeconfigs", kinds.AIM_RUNTIME_CONFIG)
CLUSTER_RUNTIME_CONFIGS: Final = Part("aimclusterruntimeconfigs", kinds.AIM_CLUSTER_RUNTIME_CONFIG)
NAMESPACE_CONFIGS: Final = Part("aimnamespaceconfigs", kinds.AIM_NAMESPACE_CONFIG, read_only=True, optional=True)
KAIWO_CONFIGS: Final = Part("kaiwoconfigs", kinds.KAIWO_CONFIG, read_only=True, optional=True)
MODEL_SOURCES: Final = Part("aimclustermodelsources", kinds.AIM_CLUSTER_MODEL_SOURCE, predecessors=_STATUS_BEFORE)

DISCOVERY_JOBS: Final = Part(
    "jobs-discovery",
    kinds.JOB,
    label_selector=f"{labels.APP_COMPONENT}={labels.APP_COMPONENT_DISCOVERY}",
    trim=trim.job,
)
DISCOVERY_PODS: Final = Part(
    "pods-discovery",
    kinds.POD,
    label_selector=f"{labels.APP_COMPONENT}={labels.APP_COMPONENT_DISCOVERY}",
    trim=trim.pod,
    read_only=True,
)
NODES: Final = Part("nodes", kinds.NODE, trim=trim.node, read_only=True)
CUSTOM_PROFILES: Final = Part(
    "configmaps-custom-profile",
    kinds.CONFIG_MAP,
    label_selector=f"{labels.COMPONENT}={labels.COMPONENT_CUSTOM_PROFILE}",
    predecessors=_APPLIED_BEFORE,
)
SERVICE_PLANS: Final = Part(
    "configmaps-service-plan",
    kinds.CONFIG_MAP,
    label_selector=f"{labels.COMPONENT}={labels.COMPONENT_SERVICE_PLAN}",
)

ARTIFACT_CLAIMS: Final = Part("persistentvolumeclaims", kinds.PERSISTENT_VOLUME_CLAIM, label_selector=labels.CACHE_NAME)
ARTIFACT_JOBS: Final = Part(
    "jobs-artifacts",
    kinds.JOB,
    label_selector=f"{labels.CACHE_TYPE}={labels.CACHE_TYPE_ARTIFACT}",
    trim=trim.job,
)
ARTIFACT_PODS: Final = Part(
    "pods-artifacts",
    kinds.POD,
    label_selector=f"{labels.CACHE_TYPE}={labels.CACHE_TYPE_ARTIFACT}",
    trim=trim.pod,
    read_only=True,
)
STATUS_UPDATER_BINDINGS: Final = Part(
    "rolebindings", kinds.ROLE_BINDING, field_selector="metadata.name=aim-engine-artifact-status-updater"
)

INFERENCE_SERVICES: Final = Part(
    "inferenceservices", kinds.INFERENCE_SERVICE, trim=trim.inference_service, predecessors=_APPLIED_BEFORE
)
INFERENCE_SERVICE_EVENTS: Final = Part(
    "events-inferenceservices",
    kinds.EVENT,
    field_selector="involvedObject.kind=InferenceService",
    trim=trim.event,
    read_only=True,
)
AUTOSCALERS: Final = Part(
    "horizontalpodautoscalers",
    kinds.HORIZONTAL_POD_AUTOSCALER,
    label_selector=labels.SERVICE,
    trim=trim.autoscaler,
    read_only=True,
)
PREDICTOR_PODS: Final = Part(
    "pods-predictor", kinds.POD, label_selector=labels.KSERVE_INFERENCE_SERVICE, trim=trim.pod, read_only=True
)
NAMESPACES: Final = Part("namespaces", kinds.NAMESPACE, trim=trim.namespace, read_only=True)

HTTP_ROUTES: Final = Part("httproutes", kinds.HTTP_ROUTE, predecessors=_APPLIED_BEFORE)
GATEWAYS: Final = Part("gateways", kinds.GATEWAY, trim=trim.gateway, read_only=True)
