"""Every label, annotation and finalizer key (framework.md sections 12 and 16); no other module spells them out."""

from __future__ import annotations

from typing import Final

from controller_runtime import annotation_keys

PREFIX: Final = "aim.eai.amd.com/"

# Labels of our own objects (FW-250).
SERVICE: Final = PREFIX + "service"
SERVICE_NAME: Final = PREFIX + "service.name"
MODEL: Final = PREFIX + "model"
MODEL_NAME: Final = PREFIX + "model.name"
CLUSTER_MODEL_NAME: Final = PREFIX + "cluster-model.name"
CLUSTER_MODEL_SOURCE_NAME: Final = PREFIX + "cluster-model-source.name"
MODEL_SOURCE: Final = PREFIX + "model-source"
MODEL_ORIGIN: Final = PREFIX + "model.source"
SOURCE_MODEL: Final = PREFIX + "source-model"
TEMPLATE: Final = PREFIX + "template"
TEMPLATE_NAME: Final = PREFIX + "template.name"
TEMPLATE_SCOPE: Final = PREFIX + "template.scope"
TEMPLATE_INDEX: Final = PREFIX + "template.index"
TEMPLATE_ALIAS: Final = PREFIX + "template.alias"
TEMPLATE_METRIC: Final = PREFIX + "template.metric"
TEMPLATE_PRECISION: Final = PREFIX + "template.precision"
METRIC: Final = PREFIX + "metric"
PRECISION: Final = PREFIX + "precision"
SERVICE_TEMPLATE_NAME: Final = PREFIX + "service-template.name"
CLUSTER_SERVICE_TEMPLATE_NAME: Final = PREFIX + "cluster-service-template.name"
TEMPLATE_CACHE_NAME: Final = PREFIX + "template-cache.name"
ARTIFACT_NAME: Final = PREFIX + "artifact.name"
ARTIFACT: Final = PREFIX + "artifact"
"""Kept for documented queries (FW-254)."""
CACHE_NAME: Final = PREFIX + "cache.name"
CACHE_TYPE: Final = PREFIX + "cache.type"
CACHE_TYPE_RESERVED: Final = PREFIX + "cache-type"
COMPONENT: Final = PREFIX + "component"
ORIGIN: Final = PREFIX + "origin"
MANAGED_BY: Final = PREFIX + "managed-by"
CUSTOM_MODEL: Final = PREFIX + "custom-model"
GPU_MODEL: Final = PREFIX + "gpu.model"
GPU_COUNT: Final = PREFIX + "gpu.count"

# Values of these labels.
CACHE_TYPE_TEMPLATE_CACHE: Final = "template-cache"
CACHE_TYPE_ARTIFACT: Final = "artifact"
COMPONENT_DOWNLOAD: Final = "download"
COMPONENT_CHECK_SIZE: Final = "check-size"
COMPONENT_CUSTOM_PROFILE: Final = "custom-profile"
COMPONENT_SERVICE_PLAN: Final = "service-plan"
COMPONENT_DISCOVERY: Final = "discovery"
ORIGIN_AUTO_GENERATED: Final = "auto-generated"
ORIGIN_DERIVED: Final = "derived"
TRUE: Final = "true"

# Other label keys that we set (FW-251).
TEMPLATE_CREATED: Final = "template-created"
APP_NAME: Final = "app.kubernetes.io/name"
APP_COMPONENT: Final = "app.kubernetes.io/component"
APP_MANAGED_BY: Final = "app.kubernetes.io/managed-by"

APP_NAME_DISCOVERY: Final = "aim-discovery"
APP_COMPONENT_INFERENCE: Final = "inference"
APP_COMPONENT_ROUTING: Final = "routing"
APP_COMPONENT_DISCOVERY: Final = "discovery"
APP_MANAGED_BY_ENGINE: Final = "aim-engine"

# Label keys of other systems (FW-252).
KSERVE_INFERENCE_SERVICE: Final = "serving.kserve.io/inferenceservice"
JOB_NAME: Final = "job-name"
POD_SECURITY: Final = "pod-security.kubernetes.io/enforce"
AMD_PREFIX: Final = "amd.com/"
AMD_BETA_PREFIX: Final = "beta.amd.com/"
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
GPU_DEVICE_ID: Final = AMD_PREFIX + "gpu.device-id"
GPU_FAMILY: Final = AMD_PREFIX + "gpu.family"
GPU_VRAM: Final = AMD_PREFIX + "gpu.vram"
BETA_GPU_DEVICE_ID: Final = AMD_BETA_PREFIX + "gpu.device-id"
BETA_GPU_FAMILY: Final = AMD_BETA_PREFIX + "gpu.family"
BETA_GPU_VRAM: Final = AMD_BETA_PREFIX + "gpu.vram"

# Annotations (FW-253).
ANNOTATION_PAUSED: Final = annotation_keys.PAUSED
ANNOTATION_DRY_RUN: Final = PREFIX + "dry-run"
ANNOTATION_SOURCE_REGISTRY: Final = PREFIX + "source-registry"
ANNOTATION_SOURCE_REPOSITORY: Final = PREFIX + "source-repository"
ANNOTATION_SOURCE_TAG: Final = PREFIX + "source-tag"
ANNOTATION_EVICTION_PROTECTED: Final = PREFIX + "eviction-protected"
ANNOTATION_STORAGE_QUOTA: Final = PREFIX + "artifact-storage-quota"
ANNOTATION_PVC_HEADROOM: Final = PREFIX + "pvc-headroom-percent"
ANNOTATION_DOWNLOAD_FILTER: Final = PREFIX + "download-filter"
ANNOTATION_RESOLVED_DOWNLOAD_FILTER: Final = PREFIX + "resolved-download-filter"
ANNOTATION_HEADROOM: Final = PREFIX + "headroom-percent"
ANNOTATION_DOWNLOAD_VERIFIED: Final = PREFIX + "download-verified"
ANNOTATION_PVC_UID: Final = PREFIX + "pvc-uid"
ANNOTATION_ARTIFACT_GENERATION: Final = PREFIX + "artifact-generation"
ANNOTATION_PROMOTED_FROM: Final = PREFIX + "promoted-from"
ANNOTATION_ENV_AS_OF: Final = PREFIX + "env-as-of"
ANNOTATION_EVICTED_SOURCES: Final = PREFIX + "evicted-sources"
ANNOTATION_STORAGE_CLAIM: Final = PREFIX + "storage-claim"
ANNOTATION_WORKLOAD_GENERATIONS: Final = PREFIX + "workload-generations"
ANNOTATION_TRACEPARENT: Final = annotation_keys.TRACEPARENT
ANNOTATION_GPU_TAINT: Final = PREFIX + "gpu-taint"
ANNOTATION_KEPT_WORKLOAD: Final = PREFIX + "kept-workload"
ANNOTATION_MIGRATED_FROM: Final = PREFIX + "migrated-from"
ANNOTATION_APPLIED_HASH: Final = annotation_keys.APPLIED_HASH
ANNOTATION_AUTOSCALER_CLASS: Final = "serving.kserve.io/autoscalerClass"
ANNOTATION_OTEL_INJECT: Final = "sidecar.opentelemetry.io/inject"
ANNOTATION_PROMETHEUS_PORT: Final = "prometheus.kserve.io/port"

# Finalizers (FW-180).
FINALIZER_SERVICE: Final = PREFIX + "template-cache-cleanup"
FINALIZER_TEMPLATE_CACHE: Final = PREFIX + "artifactcleanup"
