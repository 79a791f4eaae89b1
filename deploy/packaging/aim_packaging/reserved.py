"""Labels and annotations by which services judge: the admission policy keeps other clients from writing them (FW-508).

What users write to be obeyed is not among them: pause, dry run, limits and filters of storage, the trace.
"""

from typing import Final

from aim_domain import labels
from controller_runtime import JsonObject

LABELS: Final = (
    labels.SERVICE,
    labels.SERVICE_NAME,
    labels.MODEL,
    labels.MODEL_NAME,
    labels.CLUSTER_MODEL_NAME,
    labels.CLUSTER_MODEL_SOURCE_NAME,
    labels.MODEL_SOURCE,
    labels.MODEL_ORIGIN,
    labels.SOURCE_MODEL,
    labels.TEMPLATE,
    labels.TEMPLATE_NAME,
    labels.TEMPLATE_SCOPE,
    labels.TEMPLATE_INDEX,
    labels.TEMPLATE_ALIAS,
    labels.SERVICE_TEMPLATE_NAME,
    labels.CLUSTER_SERVICE_TEMPLATE_NAME,
    labels.TEMPLATE_CACHE_NAME,
    labels.PROFILE,
    labels.PROFILE_NAME,
    labels.PROFILE_SCOPE,
    labels.PROFILE_INDEX,
    labels.CLUSTER_PROFILE_NAME,
    labels.PROFILE_SET_NAME,
    labels.CLUSTER_PROFILE_SET_NAME,
    labels.PROFILE_CACHE_NAME,
    labels.PROFILE_ROLE,
    labels.PROFILE_ORIGIN,
    labels.SOURCE_MODEL_SCOPE,
    labels.DISCOVERY_TARGET,
    labels.ARTIFACT_NAME,
    labels.ARTIFACT,
    labels.CACHE_NAME,
    labels.CACHE_TYPE,
    labels.COMPONENT,
    labels.ORIGIN,
    labels.MANAGED_BY,
    labels.CUSTOM_MODEL,
)
ANNOTATIONS: Final = (
    labels.ANNOTATION_RESOLVED_DOWNLOAD_FILTER,
    labels.ANNOTATION_DOWNLOAD_VERIFIED,
    labels.ANNOTATION_ADAPTER_VERIFIED,
    labels.ANNOTATION_PVC_UID,
    labels.ANNOTATION_ARTIFACT_GENERATION,
    labels.ANNOTATION_PROMOTED_FROM,
    labels.ANNOTATION_ENV_AS_OF,
    labels.ANNOTATION_EVICTED_SOURCES,
    labels.ANNOTATION_STORAGE_CLAIM,
    labels.ANNOTATION_WORKLOAD_GENERATIONS,
    labels.ANNOTATION_PROFILE_SOURCE,
    labels.ANNOTATION_BASE_IMAGE,
    labels.ANNOTATION_OVERLAY_SERVICE,
    labels.ANNOTATION_OVERLAY_SEED,
    labels.ANNOTATION_DISCOVERY_HASH,
    labels.ANNOTATION_APPLIED_HASH,
)


def reserved() -> JsonObject:
    """As the chart reads them."""
    return {"labels": list(LABELS), "annotations": list(ANNOTATIONS)}
