"""AIMService: serve a model (CC-070, CC-071)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from aim_domain.api.aim_shapes import SOURCE_URI, Hardware, ModelSource, ResolvedReference, Routing, Storage
from aim_domain.api.enums import (
    API_VERSION,
    AdapterMode,
    AdapterState,
    CachingMode,
    Metric,
    MetricBackend,
    MetricSourceType,
    MetricTargetType,
    Precision,
    RolloutPhase,
)
from aim_domain.api.own import AGE, STATUS, Column, OwnResource, Scale
from aim_domain.api.pod_settings import DeploymentStrategy
from aim_domain.api.profile_shapes import ProfileSelector, ServiceProfileOverrides
from aim_domain.component_names import ComponentName
from controller_runtime import (
    DEFAULTED,
    REQUIRED,
    ApiModel,
    CelRule,
    Conditions,
    Int32,
    Int64,
    Items,
    QuantityText,
    Schema,
    StatusValue,
    Time,
    immutable,
    list_map,
)
from controller_runtime.core import EnvList, PullSecrets, ResourceRequirements
from controller_runtime.duration import LONGEST_TEXT, UNSIGNED_PATTERN

SERVICE_STATUS: Final = Schema(
    defaulted=True,
    enum=(
        StatusValue.PENDING,
        StatusValue.STARTING,
        StatusValue.RUNNING,
        StatusValue.DEGRADED,
        StatusValue.FAILED,
    ),
)


class CustomModel(ApiModel):
    """A model described inline."""

    schema_info: ClassVar[Schema] = Schema(
        rules=(CelRule("self.modelSources.size() > 0", "at least one model source is required"),)  # CEL-12
    )

    base_image: Annotated[str, REQUIRED] = ""
    """Image that serves the weights."""
    model_sources: Annotated[Items[ModelSource], REQUIRED, Schema(min_items=1, max_items=1)] = ()
    """The model weights."""
    hardware: Annotated[Hardware, REQUIRED] = Hardware()
    """Hardware requirements of the model."""


class ServiceModel(ApiModel):
    """The model to serve: by name, by image, or described inline."""

    schema_info: ClassVar[Schema] = Schema(
        rules=(
            CelRule(  # CEL-10
                "[has(self.name), has(self.image), has(self.custom)].filter(given, given).size() == 1",
                "exactly one of name, image and custom is required",
            ),
        )
    )

    name: str | None = None
    """Name of an AIMModel or AIMClusterModel."""
    image: str | None = None
    """Image of the model; an AIMModel is created for it when none exists."""
    custom: CustomModel | None = None
    """A custom model."""


class ServiceTemplateRef(ApiModel):
    """Which template the service uses."""

    name: str | None = None
    """Name of the service template; selected automatically when absent."""
    allow_unoptimized: bool | None = None
    """Whether automatic selection may choose an unoptimized profile; defaults to false."""


class Caching(ApiModel):
    """How the service shares weights."""

    mode: Annotated[CachingMode, DEFAULTED] = CachingMode.SHARED
    """Dedicated or Shared; Auto and Always mean Shared, Never means Dedicated."""


class PodMetric(ApiModel):
    """Which metric of the pods is read, and how."""

    backend: Annotated[MetricBackend, DEFAULTED] = MetricBackend.OPENTELEMETRY
    """Backend of the metric."""
    server_address: str | None = None
    """Address of the scaler; defaults to keda-otel-scaler.keda.svc:4318."""
    metric_names: Items[str] = ()
    """Metrics that the pods export."""
    query: str | None = None
    """Query over the metrics."""
    operation_over_time: str | None = None
    """Aggregation: last_one, avg, max, min, rate or count."""


class MetricTarget(ApiModel):
    """The level that autoscaling aims at."""

    type: Annotated[MetricTargetType, REQUIRED] = MetricTargetType.VALUE
    """Type of the target."""
    value: str | None = None
    """Target for type Value."""
    average_value: str | None = None
    """Target per pod, for type AverageValue."""
    average_utilization: Int32 | None = None
    """Target in percent, for type Utilization."""


class PodMetricSource(ApiModel):
    """A pod metric with its target."""

    metric: Annotated[PodMetric, REQUIRED] = PodMetric()
    """The metric."""
    target: Annotated[MetricTarget, REQUIRED] = MetricTarget()
    """The target value."""


class ScalingMetric(ApiModel):
    """A metric to scale on."""

    type: Annotated[MetricSourceType, REQUIRED] = MetricSourceType.POD_METRIC
    """Source of the metric."""
    podmetric: PodMetricSource | None = None
    """A metric exported by the pods."""


class AutoScaling(ApiModel):
    """Settings of autoscaling."""

    metrics: Items[ScalingMetric] = ()
    """Metrics to scale on; the one that asks for the most replicas decides."""


class Overrides(ApiModel):
    """Settings that override those of the template."""

    metric: Annotated[Metric | None, immutable("metric")] = None  # CEL-15
    """Metric that the profile is optimized for."""
    precision: Annotated[Precision | None, immutable("precision")] = None
    """Numeric precision."""
    hardware: Annotated[Hardware | None, immutable("hardware")] = None
    """Hardware requirements that replace those of the template."""


class RolloutStep(ApiModel):
    """A share of the requests for the new version, and how long it lasts."""

    weight: Annotated[Int32, REQUIRED, Schema(minimum=1, maximum=100)] = 1
    """Percentage of the requests that the new version answers."""
    pause: Annotated[str | None, Schema(pattern=UNSIGNED_PATTERN, max_length=LONGEST_TEXT)] = None
    """How long the step lasts; when absent, until the rollout is continued by annotation."""


class Rollout(ApiModel):
    """How a new version of the service replaces the one that runs: beside it, by shares of the requests."""

    steps: Annotated[Items[RolloutStep], REQUIRED, Schema(min_items=1, max_items=16)] = ()
    """Steps in their order; behind the last one the new version replaces the old one."""
    replicas: Annotated[Int32, DEFAULTED, Schema(minimum=1)] = 1
    """Replicas of the new version until it replaces the old one."""
    progress_deadline: Annotated[str, DEFAULTED, Schema(pattern=UNSIGNED_PATTERN, max_length=LONGEST_TEXT)] = "1h"
    """How long the new version may take until it runs; after that the rollout is aborted."""


_RANK: Final = Schema(  # CEL-18
    rules=(CelRule("self in [8, 16, 32, 64, 128, 256, 320, 512]", "maxRank is 8, 16, 32, 64, 128, 256, 320 or 512"),)
)


class Adapter(ApiModel):
    """A LoRA adapter beside the model."""

    name: Annotated[str, REQUIRED, Schema(max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = ""
    """Name in requests, as the model."""
    source_uri: Annotated[str | None, SOURCE_URI] = None
    """URI of the adapter, hf:// or s3://; when absent, the AIMArtifact of that name."""
    kind: Annotated[str | None, Schema(enum=("AIMArtifact",))] = None
    """Kept for the Go operator; AIMArtifact."""


class AdapterRuntime(ApiModel):
    """Where adapters lie, and how many of which rank the engine takes."""

    disk: Annotated[str | None, Schema(min_length=1, max_length=253)] = None
    """AIMArtifact of type adapterDisk; a disk of the service's own when absent."""
    disk_size: QuantityText | None = None
    """Size of the service's own disk; defaults to 20Gi."""
    max_loras: Annotated[Int32 | None, Schema(minimum=1, maximum=64)] = None
    """Adapters in one batch; defaults to what the profile says, or 8."""
    max_cpu_loras: Annotated[Int32 | None, Schema(minimum=1, maximum=1024)] = None
    """Adapters that the engine keeps in memory; defaults to what the profile says, or 16."""
    max_rank: Annotated[Int32 | None, _RANK] = None
    """Highest rank of an adapter: 8, 16, 32, 64, 128, 256, 320 or 512; defaults to what the profile says, or 32."""


_SHARED_IN_EFFECT: Final = "['Shared', 'Always', 'Auto']"
# CEL-16: adding or removing `caching` may not change the mode in effect; an absent mode is defaulted before.
_CACHING_KEPT: Final = CelRule(
    "has(self.caching) == has(oldSelf.caching)"
    f" || (has(self.caching) && self.caching.mode in {_SHARED_IN_EFFECT})"
    f" || (has(oldSelf.caching) && oldSelf.caching.mode in {_SHARED_IN_EFFECT})",
    "caching is immutable: adding or removing it may not change the mode in effect",
    field_path=".caching",
)


_MODEL_GIVEN: Final = (  # CEL-17
    CelRule("has(self.model) || has(self.profile)", "model is required", field_path=".model"),
    CelRule("has(self.model) || !has(oldSelf.model)", "model is immutable: it cannot be removed", field_path=".model"),
)
_KEPT_WITHOUT_ROLLOUT: Final = tuple(
    CelRule(
        f"has(self.rollout) || !has(self.{name}) || !has(oldSelf.{name}) || self.{name} == oldSelf.{name}",
        f"{name} is immutable without a rollout",
        field_path=f".{name}",
    )
    for name in ("model", "template")  # CEL-11, CEL-13
)


class ServiceProfileRef(ApiModel):
    """Which profile the service uses."""

    schema_info: ClassVar[Schema] = Schema(
        rules=(
            CelRule(  # CEL-70
                "has(self.name) != has(self.selector)", "exactly one of name and selector is required"
            ),
            CelRule(  # CEL-71
                "!has(self.selector) || !has(self.selector.role) || self.selector.role == 'deployable'",
                "selector.role must be deployable: a service needs weights",
                field_path=".selector",
            ),
        )
    )

    name: Annotated[str | None, Schema(min_length=1)] = None
    """Name of an AIMProfile or AIMClusterProfile."""
    selector: ProfileSelector | None = None
    """Among which profiles one is selected; with spec.model among those of the model."""


class AIMServiceSpec(ApiModel):
    """Which model to serve, and how."""

    schema_info: ClassVar[Schema] = Schema(rules=(_CACHING_KEPT, *_MODEL_GIVEN, *_KEPT_WITHOUT_ROLLOUT))

    model: ServiceModel = ServiceModel()
    """The model to serve; immutable without a rollout."""
    template: ServiceTemplateRef | None = None
    """The service template to use; immutable once set, without a rollout."""
    caching: Annotated[Caching | None, immutable("caching")] = None  # CEL-14
    """How weights are cached; defaults to Shared; immutable."""
    cache_model: bool | None = None
    """Deprecated and without effect; use caching.mode."""
    replicas: Annotated[Int32, DEFAULTED] = 1
    """Number of replicas when autoscaling is off."""
    min_replicas: Annotated[Int32 | None, Schema(minimum=0)] = None
    """Minimum number of replicas for autoscaling; 0 needs a metric that does not come from the pods."""
    max_replicas: Annotated[Int32 | None, Schema(minimum=1)] = None
    """Maximum number of replicas for autoscaling."""
    auto_scaling: AutoScaling | None = None
    """Settings of autoscaling."""
    runtime_config_name: str | None = None
    """Name of the runtime config to use; empty means default."""
    storage: Storage | None = None
    """Storage settings; they take precedence over the runtime config."""
    routing: Routing | None = None
    """Routing settings; they take precedence over the runtime config."""
    env: EnvList = ()
    """Environment variables of the serving container."""
    resources: ResourceRequirements | None = None
    """Resources of the serving container; they take precedence over those of the template."""
    overrides: Overrides | None = None
    """Settings that override those of the template."""
    image_pull_secrets: PullSecrets = ()
    """Secrets with credentials for pulling images."""
    service_account_name: str | None = None
    """ServiceAccount of the serving pods."""
    priority_class_name: str | None = None
    """PriorityClass of the serving pods."""
    deployment_strategy: DeploymentStrategy | None = None
    """How pods are replaced when the service changes; Recreate needs no spare GPU."""
    rollout: Rollout | None = None
    """How a new version replaces the one that runs; by default all pods are replaced at once."""
    profile: ServiceProfileRef | None = None
    """The profile to use; the service is served by a profile in place of a template."""
    profile_overrides: ServiceProfileOverrides | None = None
    """Settings that override those of the profile."""
    adapters: Annotated[Items[Adapter], Schema(max_items=64), list_map("name")] = ()
    """LoRA adapters, served beside the model under their own names."""
    adapter_mode: AdapterMode | None = None
    """With dynamic, the engine is ready for adapters though none is listed."""
    adapter_runtime: AdapterRuntime | None = None
    """Where adapters lie, and how many of which rank the engine takes."""


class ServiceRoutingStatus(ApiModel):
    """Observed state of the route."""

    path: str | None = None
    """Path under which the service can be reached."""
    hostnames: Items[str] = ()
    """Hosts under which it can be reached; all of the gateway when empty."""


class ServiceCacheStatus(ApiModel):
    """Cache of the service."""

    template_cache_ref: ResolvedReference | None = None
    """Reference to the template cache."""
    profile_cache_ref: ResolvedReference | None = None
    """Reference to the profile cache."""
    retry_attempts: int | None = None
    """Number of retries of a failed cache."""


class RuntimeStatus(ApiModel):
    """Observed replicas."""

    current_replicas: Int32 | None = None
    """Number of running replicas."""
    desired_replicas: Int32 | None = None
    """Number of desired replicas."""
    min_replicas: Int32 | None = None
    """Minimum number of replicas."""
    max_replicas: Int32 | None = None
    """Maximum number of replicas."""
    replicas: str | None = None
    """Summary, such as 2/4 (1-8)."""
    selector: str | None = None
    """Label selector of the serving pods, for the scale subresource."""


class RolloutStatus(ApiModel):
    """Observed state of the rollout."""

    phase: RolloutPhase = RolloutPhase.COMPLETE
    """How far the rollout is: Preparing, Progressing, Paused, Promoting, Draining, Complete or Aborted."""
    revision: str = ""
    """Digest of the version that is rolled out."""
    running: str = ""
    """Digest of the version that the InferenceService of this service runs."""
    step: Int32 | None = None
    """Number of the present step, from 1."""
    weight: Int32 | None = None
    """Percentage of the requests that the new version answers."""
    since: Time | None = None
    """When the phase or the step began."""
    candidate: str | None = None
    """AIMService of the new version."""
    pod_template: str | None = None
    """Digest of the pods that the InferenceService was given last."""
    former_pods: Annotated[Items[str], Schema(max_items=64)] = ()
    """Each pod-template-hash of the pods that are replaced."""
    request: str | None = None
    """What an annotation asked for, as long as it is there."""
    message: str | None = None
    """What the rollout waits for, or why it was aborted."""


class AdapterStatus(ApiModel):
    """Observed state of an adapter."""

    name: str = ""
    """Name in requests."""
    artifact: str | None = None
    """AIMArtifact that holds it."""
    state: AdapterState = AdapterState.PENDING
    """How far it is: Pending, Downloading, Loading, Ready or Failed."""
    pods: str | None = None
    """In how many of the ready pods it is loaded, such as 2/3."""
    message: Annotated[str | None, Schema(max_length=32_768)] = None
    """What it waits for, or why it failed."""


class AIMServiceStatus(ApiModel):
    """Observed state of the service."""

    observed_generation: Int64 | None = None
    """Generation of the spec that this status was computed from."""
    conditions: Conditions = ()
    """Latest observations of the state."""
    status: Annotated[StatusValue, SERVICE_STATUS] = StatusValue.PENDING
    """Overall status, summarized from the conditions."""
    resolved_runtime_config: ResolvedReference | None = None
    """Effective runtime config."""
    resolved_model: ResolvedReference | None = None
    """Effective model."""
    resolved_template: ResolvedReference | None = None
    """Effective service template."""
    resolved_profile: ResolvedReference | None = None
    """Effective profile."""
    routing: ServiceRoutingStatus | None = None
    """Observed state of the route."""
    cache: ServiceCacheStatus | None = None
    """Template cache of the service."""
    runtime: RuntimeStatus | None = None
    """Observed replicas."""
    rollout: RolloutStatus | None = None
    """Observed state of the rollout."""
    adapters: Items[AdapterStatus] = ()
    """Observed state of the adapters."""


class AIMService(OwnResource):
    """Serves a model behind an OpenAI-compatible endpoint."""

    columns = (
        STATUS,
        Column("Model", ".status.resolvedModel.name"),
        Column("Template", ".status.resolvedTemplate.name"),
        Column("Profile", ".status.resolvedProfile.name", priority=1),
        Column("Replicas", ".status.runtime.replicas"),
        AGE,
    )
    components = (
        ComponentName.RUNTIME_CONFIG,
        ComponentName.MODEL,
        ComponentName.TEMPLATE,
        ComponentName.PROFILE,
        ComponentName.CACHE,
        ComponentName.PROFILE_CACHE,
        ComponentName.INFERENCE_SERVICE_PODS,
        ComponentName.INFERENCE_SERVICE,
        ComponentName.HTTP_ROUTE,
        ComponentName.HPA,
    )
    scale = Scale(".spec.replicas", ".status.runtime.currentReplicas", ".status.runtime.selector")

    api_version: str = API_VERSION
    kind: str = "AIMService"
    spec: Annotated[AIMServiceSpec, REQUIRED] = AIMServiceSpec()
    """Which model to serve, and how."""
    status: AIMServiceStatus = AIMServiceStatus()
    """Observed state of the service."""
