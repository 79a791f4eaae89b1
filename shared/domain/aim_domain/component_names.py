"""The closed set of components, and their order per kind (FW-039, FW-080)."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from controller_runtime.reconcile.conditions import condition_type


class ComponentName(StrEnum):
    """Aspects of an object's health; the condition type adds ``Ready`` (FW-035)."""

    MODEL = "Model"
    CLUSTER_MODEL = "ClusterModel"
    TEMPLATE = "Template"
    RUNTIME_CONFIG = "RuntimeConfig"
    INFERENCE_SERVICE = "InferenceService"
    INFERENCE_SERVICE_PODS = "InferenceServicePods"
    CACHE = "Cache"
    HTTP_ROUTE = "HTTPRoute"
    HPA = "HPA"
    IMAGE_METADATA = "ImageMetadata"
    SERVICE_TEMPLATES = "ServiceTemplates"
    CLUSTER_SERVICE_TEMPLATES = "ClusterServiceTemplates"
    CUSTOM_PROFILE = "CustomProfile"
    DISCOVERY_JOB = "DiscoveryJob"
    DISCOVERY_PODS = "DiscoveryPods"
    GPU = "GPU"
    SERVICE_TEMPLATE = "ServiceTemplate"
    ARTIFACTS = "Artifacts"
    CHECK_SIZE_JOB = "CheckSizeJob"
    CHECK_SIZE_JOB_PODS = "CheckSizeJobPods"
    CHECK_SIZE_OUTPUT = "CheckSizeOutput"
    STORAGE_QUOTA = "StorageQuota"
    CACHE_PVC = "CachePvc"
    DOWNLOAD_JOB = "DownloadJob"
    DOWNLOAD_JOB_PODS = "DownloadJobPods"
    EXISTING_MODELS = "ExistingModels"
    FILTERS = "Filters"

    @property
    def condition(self) -> str:
        """Type of the component's condition (FW-035)."""
        return condition_type(self)


_N: Final = ComponentName
_TEMPLATE_REST: Final = (_N.CUSTOM_PROFILE, _N.DISCOVERY_JOB, _N.DISCOVERY_PODS, _N.GPU)

COMPONENT_ORDER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "AIMService": (
            _N.MODEL,
            _N.TEMPLATE,
            _N.RUNTIME_CONFIG,
            _N.INFERENCE_SERVICE,
            _N.INFERENCE_SERVICE_PODS,
            _N.CACHE,
            _N.HTTP_ROUTE,
            _N.HPA,
        ),
        "AIMModel": (_N.RUNTIME_CONFIG, _N.IMAGE_METADATA, _N.SERVICE_TEMPLATES),
        "AIMClusterModel": (_N.RUNTIME_CONFIG, _N.IMAGE_METADATA, _N.CLUSTER_SERVICE_TEMPLATES),
        "AIMServiceTemplate": (_N.RUNTIME_CONFIG, _N.MODEL, *_TEMPLATE_REST),
        "AIMClusterServiceTemplate": (_N.RUNTIME_CONFIG, _N.CLUSTER_MODEL, *_TEMPLATE_REST),
        "AIMTemplateCache": (_N.RUNTIME_CONFIG, _N.SERVICE_TEMPLATE, _N.ARTIFACTS),
        "AIMArtifact": (
            _N.RUNTIME_CONFIG,
            _N.CHECK_SIZE_JOB,
            _N.CHECK_SIZE_JOB_PODS,
            _N.CHECK_SIZE_OUTPUT,
            _N.STORAGE_QUOTA,
            _N.CACHE_PVC,
            _N.DOWNLOAD_JOB,
            _N.DOWNLOAD_JOB_PODS,
        ),
        "AIMClusterModelSource": (_N.EXISTING_MODELS, _N.FILTERS),
        "AIMRuntimeConfig": (),
        "AIMClusterRuntimeConfig": (),
    }
)
"""Components of each kind. Only these take part in the aggregation of FW-076, in this order (FW-080)."""

NO_TEMPLATES_EXPECTED: Final = "NoTemplatesExpected"
"""Reason of a model that has no template and will make none (DI-420, DI-422)."""

ROUTE_RECONCILED: Final = "HTTPRouteReconciled"
"""Condition that routing writes while another manager keeps overwriting fields of a route (FW-814)."""
