"""AIMService: serve a model (CC-070, CC-071)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from aim_domain.api.aim_shapes import Hardware, ModelSource, ResolvedReference, Routing, Storage
from aim_domain.api.enums import CachingMode, Metric, MetricBackend, MetricSourceType, MetricTargetType, Precision
from aim_domain.api.group import API_VERSION
from controller_runtime import (
    DEFAULTED,
    REQUIRED,
    ApiModel,
    CelRule,
    Conditions,
    Int32,
    Int64,
    Items,
    Resource,
    Schema,
    StatusValue,
    immutable,
)
from controller_runtime.core import EnvList, PullSecrets, ResourceRequirements

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
    """The weights."""
    hardware: Annotated[Hardware, REQUIRED] = Hardware()
    """Hardware that the model needs."""


class ServiceModel(ApiModel):
    """The model to serve: by name, by image, or described inline."""

    schema_info: ClassVar[Schema] = Schema(
        rules=(
            CelRule(  # CEL-10
                "[has(self.name), has(self.image), has(self.custom)].filter(given, given).size() == 1",
                "exactly one of name, image and custom is required",
            ),
            *immutable("model").rules,  # CEL-11
        )
    )

    name: str | None = None
    """Name of an AIMModel or AIMClusterModel."""
    image: str | None = None
    """Image of the model; a model object is made when none exists."""
    custom: CustomModel | None = None
    """A custom model."""


class ServiceTemplateRef(ApiModel):
    """Which template the service uses."""

    name: str | None = None
    """Name of the template; selected automatically when absent."""
    allow_unoptimized: bool | None = None
    """Whether automatic selection may take an unoptimized profile; false when absent."""


class Caching(ApiModel):
    """How the service shares weights."""

    mode: Annotated[CachingMode, DEFAULTED] = CachingMode.SHARED
    """Dedicated or Shared; Auto and Always mean Shared, Never means Dedicated."""


class PodMetric(ApiModel):
    """Which metric of the pods is read, and how."""

    backend: Annotated[MetricBackend, DEFAULTED] = MetricBackend.OPENTELEMETRY
    """Backend of the metric."""
    server_address: str | None = None
    """Address of the scaler; keda-otel-scaler.keda.svc:4317 when absent."""
    metric_names: Items[str] = ()
    """Metrics that the pods export."""
    query: str | None = None
    """Query on the metrics."""
    operation_over_time: str | None = None
    """Aggregation: last_one, avg, max, min, rate or count."""


class MetricTarget(ApiModel):
    """The level that autoscaling aims at."""

    type: Annotated[MetricTargetType, REQUIRED] = MetricTargetType.VALUE
    """How the level is read."""
    value: str | None = None
    """Level for type Value."""
    average_value: str | None = None
    """Level per pod for type AverageValue."""
    average_utilization: Int32 | None = None
    """Level in percent for type Utilization."""


class PodMetricSource(ApiModel):
    """A pod metric with its target."""

    metric: Annotated[PodMetric, REQUIRED] = PodMetric()
    """The metric."""
    target: Annotated[MetricTarget, REQUIRED] = MetricTarget()
    """The level to hold."""


class ScalingMetric(ApiModel):
    """One metric of autoscaling."""

    type: Annotated[MetricSourceType, REQUIRED] = MetricSourceType.POD_METRIC
    """Source of the metric."""
    podmetric: PodMetricSource | None = None
    """A metric of the pods."""


class AutoScaling(ApiModel):
    """What autoscaling follows."""

    metrics: Items[ScalingMetric] = ()
    """Metrics; the one that asks for most replicas decides."""


class Overrides(ApiModel):
    """What the service wants differently from the template."""

    metric: Annotated[Metric | None, immutable("metric")] = None  # CEL-15
    """What the profile is optimised for."""
    precision: Annotated[Precision | None, immutable("precision")] = None
    """Numeric precision."""
    hardware: Annotated[Hardware | None, immutable("hardware")] = None
    """Hardware."""


_SHARED_IN_EFFECT: Final = "['Shared', 'Always', 'Auto']"
# CEL-16: adding or removing `caching` may not change the mode in effect; an absent mode is defaulted before.
_CACHING_KEPT: Final = CelRule(
    "has(self.caching) == has(oldSelf.caching)"
    f" || (has(self.caching) && self.caching.mode in {_SHARED_IN_EFFECT})"
    f" || (has(oldSelf.caching) && oldSelf.caching.mode in {_SHARED_IN_EFFECT})",
    "caching is immutable: adding or removing it may not change the mode in effect",
    field_path=".caching",
)


class AIMServiceSpec(ApiModel):
    """What is served and how."""

    schema_info: ClassVar[Schema] = Schema(rules=(_CACHING_KEPT,))

    model: Annotated[ServiceModel, REQUIRED] = ServiceModel()
    """The model; immutable."""
    template: Annotated[ServiceTemplateRef | None, immutable("template")] = None  # CEL-13
    """The template; immutable once given."""
    caching: Annotated[Caching | None, immutable("caching")] = None  # CEL-14
    """How weights are shared; absent means Shared; immutable."""
    cache_model: bool | None = None
    """Deprecated, without effect; use caching.mode."""
    replicas: Annotated[Int32, DEFAULTED] = 1
    """Number of replicas without autoscaling."""
    min_replicas: Annotated[Int32 | None, Schema(minimum=1)] = None
    """Lower bound of autoscaling."""
    max_replicas: Annotated[Int32 | None, Schema(minimum=1)] = None
    """Upper bound of autoscaling."""
    auto_scaling: AutoScaling | None = None
    """What autoscaling follows."""
    runtime_config_name: str | None = None
    """Runtime config to use; empty means default."""
    storage: Storage | None = None
    """Storage settings; they win over the runtime config."""
    routing: Routing | None = None
    """Routing settings; they win over the runtime config."""
    env: EnvList = ()
    """Environment of the serving container."""
    resources: ResourceRequirements | None = None
    """Resources of the serving container; they win over what the template derives."""
    overrides: Overrides | None = None
    """What the service wants differently from the template."""
    image_pull_secrets: PullSecrets = ()
    """Secrets for pulling images."""
    service_account_name: str | None = None
    """Service account of the serving pods."""
    priority_class_name: str | None = None
    """Priority class of the serving pods."""


class ServiceRoutingStatus(ApiModel):
    """Where the service can be reached."""

    path: str | None = None
    """Path of the route."""


class ServiceCacheStatus(ApiModel):
    """The template cache in use."""

    template_cache_ref: ResolvedReference | None = None
    """The template cache."""
    retry_attempts: int | None = None
    """How often a failed cache was retried."""


class RuntimeStatus(ApiModel):
    """Replicas of the running workload."""

    current_replicas: Int32 | None = None
    """Replicas that run."""
    desired_replicas: Int32 | None = None
    """Replicas that are wanted."""
    min_replicas: Int32 | None = None
    """Lower bound."""
    max_replicas: Int32 | None = None
    """Upper bound."""
    replicas: str | None = None
    """Summary, such as 2/4 (1-8)."""
    selector: str | None = None
    """Label selector of the serving pods, for the scale subresource."""


class AIMServiceStatus(ApiModel):
    """What became of the service."""

    observed_generation: Int64 | None = None
    """Generation that this status is about."""
    conditions: Conditions = ()
    """Aspects of the state."""
    status: Annotated[StatusValue, SERVICE_STATUS] = StatusValue.PENDING
    """Overall status."""
    resolved_runtime_config: ResolvedReference | None = None
    """Runtime config in use."""
    resolved_model: ResolvedReference | None = None
    """Model in use."""
    resolved_template: ResolvedReference | None = None
    """Template in use."""
    routing: ServiceRoutingStatus | None = None
    """Where the service can be reached."""
    cache: ServiceCacheStatus | None = None
    """The template cache in use."""
    runtime: RuntimeStatus | None = None
    """Replicas of the running workload."""


class AIMService(Resource):
    """Serves a model behind an OpenAI-compatible endpoint."""

    api_version: str = API_VERSION
    kind: str = "AIMService"
    spec: Annotated[AIMServiceSpec, REQUIRED] = AIMServiceSpec()
    """What is served and how."""
    status: AIMServiceStatus = AIMServiceStatus()
    """What became of the service."""
