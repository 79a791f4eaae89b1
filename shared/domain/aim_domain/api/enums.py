"""Group and version of the AIM kinds, and the closed sets of their values (CC-030)."""

from __future__ import annotations

from typing import Final

from aim_domain.kind_names import GROUP, NEWER_VERSION, VERSION
from controller_runtime import OpenEnum

API_VERSION: Final = f"{GROUP}/{VERSION}"
NEWER_API_VERSION: Final = f"{GROUP}/{NEWER_VERSION}"
"""Of the profile kinds, which have no other (PR-001)."""


class Metric(OpenEnum):
    """What a profile is optimised for."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"


class Precision(OpenEnum):
    """Numeric precision of a profile."""

    AUTO = "auto"
    FP4 = "fp4"
    FP8 = "fp8"
    FP16 = "fp16"
    FP32 = "fp32"
    BF16 = "bf16"
    INT4 = "int4"
    INT8 = "int8"


class ProfileType(OpenEnum):
    """How far a profile has been tuned."""

    OPTIMIZED = "optimized"
    GENERAL = "general"
    PREVIEW = "preview"
    UNOPTIMIZED = "unoptimized"


class DeploymentStrategyType(OpenEnum):
    """How the pods of a Deployment are replaced."""

    RECREATE = "Recreate"
    ROLLING_UPDATE = "RollingUpdate"


class NamespaceOwnership(OpenEnum):
    """Whether services of several namespaces may have overlapping paths on one gateway."""

    STRICT = "Strict"
    INTER_NAMESPACE_ALLOWED = "InterNamespaceAllowed"


class CacheMode(OpenEnum):
    """Ownership of a template cache or an artifact."""

    DEDICATED = "Dedicated"
    SHARED = "Shared"


class CachingMode(OpenEnum):
    """What a service asks of caching; `Auto`, `Always` and `Never` are older names."""

    DEDICATED = "Dedicated"
    SHARED = "Shared"
    AUTO = "Auto"
    ALWAYS = "Always"
    NEVER = "Never"

    @property
    def effective(self) -> CacheMode:
        """`Never` and `Dedicated` mean Dedicated, everything else Shared."""
        return CacheMode.DEDICATED if self in _DEDICATED_MODES else CacheMode.SHARED


_DEDICATED_MODES: Final = frozenset({CachingMode.DEDICATED, CachingMode.NEVER})


class RolloutPhase(OpenEnum):
    """How far a rollout is."""

    PREPARING = "Preparing"
    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    PROMOTING = "Promoting"
    DRAINING = "Draining"
    COMPLETE = "Complete"
    ABORTED = "Aborted"


class TemplateScope(OpenEnum):
    """Which of the two template kinds a cache belongs to."""

    NAMESPACE = "Namespace"
    CLUSTER = "Cluster"
    UNKNOWN = "Unknown"


class ResolutionScope(OpenEnum):
    """Where a reference was found; `Merged` means at both levels."""

    NAMESPACE = "Namespace"
    CLUSTER = "Cluster"
    MERGED = "Merged"
    UNKNOWN = "Unknown"


class ModelSourceType(OpenEnum):
    """Whether a model is an AIM image or a custom model."""

    IMAGE = "Image"
    CUSTOM = "Custom"


class MetricSourceType(OpenEnum):
    """Source of an autoscaling metric."""

    POD_METRIC = "PodMetric"


class MetricTargetType(OpenEnum):
    """How an autoscaling target is read."""

    VALUE = "Value"
    AVERAGE_VALUE = "AverageValue"
    UTILIZATION = "Utilization"


class MetricBackend(OpenEnum):
    """Backend that serves an autoscaling metric."""

    OPENTELEMETRY = "opentelemetry"


class ArtifactType(OpenEnum):
    """What an AIMArtifact is."""

    MODEL = "model"
    ADAPTER = "adapter"
    ADAPTER_DISK = "adapterDisk"


class AdapterMode(OpenEnum):
    """Whether the engine is ready for adapters though none is listed."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class AdapterState(OpenEnum):
    """How far an adapter is."""

    PENDING = "Pending"
    DOWNLOADING = "Downloading"
    LOADING = "Loading"
    READY = "Ready"
    FAILED = "Failed"


class MinimumType(OpenEnum):
    """How far a profile has to be tuned at least."""

    OPTIMIZED = "optimized"
    GENERAL = "general"
    PREVIEW = "preview"
    UNOPTIMIZED = "unoptimized"
    ANY = "any"


class AutoSelection(OpenEnum):
    """For which services a profile is selected that name no least type."""

    OPTIMIZED = "optimized"
    ANY = "any"


class AcceleratorType(OpenEnum):
    """What runs the engine."""

    GPU = "gpu"
    CPU = "cpu"


class AcceleratorVendor(OpenEnum):
    """Whose accelerator it is."""

    AMD = "amd"
    NVIDIA = "nvidia"


class ProfileRole(OpenEnum):
    """Whether a profile has weights of its own."""

    BASE = "base"
    DEPLOYABLE = "deployable"


class ProfileOrigin(OpenEnum):
    """How a profile came to be."""

    DISCOVERED = "discovered"
    DERIVED = "derived"
    USER_AUTHORED = "user-authored"
    GENERATED = "generated"


class ModelScopeChoice(OpenEnum):
    """Which of the two model kinds a reference means; `Auto` means the namespace's, else the cluster's."""

    AUTO = "Auto"
    NAMESPACE = "Namespace"
    CLUSTER = "Cluster"


class VersionPolicy(OpenEnum):
    """Which versions of matching profiles a set takes."""

    PINNED = "pinned"
    LATEST = "latest"
    ALL = "all"
