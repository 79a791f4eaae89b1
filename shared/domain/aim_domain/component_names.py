"""The closed set of components (FW-039); which of them a kind has, it declares itself."""

from enum import StrEnum
from typing import Final

from controller_runtime import condition_type


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
    PROFILE = "Profile"
    PROFILE_CACHE = "ProfileCache"
    NODES = "Nodes"
    DERIVATION = "Derivation"
    MANAGED_PROFILES = "ManagedProfiles"

    @property
    def condition(self) -> str:
        """Type of the component's condition (FW-035)."""
        return condition_type(self)


NO_TEMPLATES_EXPECTED: Final = "NoTemplatesExpected"
"""Reason of a model that has no template and will make none (DI-420, DI-422)."""

ROUTE_RECONCILED: Final = "HTTPRouteReconciled"
"""Condition that routing writes while another manager keeps overwriting fields of a route (FW-814)."""
