"""Fixed replicas or autoscaling (serving.md section 10), and ``status.runtime`` (11.5)."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aim_domain import (
    AIMService,
    AIMServiceSpec,
    MetricTarget,
    MetricTargetType,
    PodMetric,
    PodMetricSource,
    RuntimeStatus,
    ScalingMetric,
    labels,
)
from aim_domain.naming import autoscaler_name, predictor_name
from aim_serving.containers import canonical_text, exact_number
from controller_runtime import (
    Category,
    ClassifiedError,
    ConditionStatus,
    Desired,
    JsonObject,
    condition,
    find_condition,
)
from controller_runtime.core import HorizontalPodAutoscaler

METRICS_PORT: Final = "8000"
LARGEST: Final = 2**31 - 1
"""What KServe can decode, on either side of zero. The API server admits 64 bits, and one InferenceService with a larger
number stops KServe for all."""


_OPERATIONS: Final = ("last_one", "avg", "max", "min", "rate", "count")
"""What KEDA's scaler can do with the samples of a metric; it takes its default for any other word, without a sign."""
_OF_ENGINE: Final = ("vllm:", "vllm_")
"""How names of metrics begin that the serving engine makes."""


class AutoscalerClass(StrEnum):
    """Who scales, in KServe's annotation."""

    NONE = "none"
    HPA = "hpa"
    KEDA = "keda"


@dataclass(frozen=True, slots=True)
class Scaling:
    """Effective bounds; equal ones without autoscaling.

    Attributes:
        metrics: as the InferenceService takes them; ``None`` leaves the field out (SV-183).
    """

    minimum: int
    maximum: int
    scaler: AutoscalerClass
    metrics: tuple[JsonObject, ...] | None = None

    @property
    def autoscaled(self) -> bool:
        return self.scaler is not AutoscalerClass.NONE


def scaling_of(spec: AIMServiceSpec) -> Scaling | ClassifiedError:
    """What the service asks for, or why that cannot be (SV-180…SV-189, SV-289)."""
    given = spec.auto_scaling.metrics if spec.auto_scaling else ()
    for path, number in _counts(spec, given):
        if number is not None and abs(number) > LARGEST:
            return _invalid(f"{path} is {number}; the largest allowed value is {LARGEST}")
    if spec.auto_scaling is None and spec.min_replicas is None and spec.max_replicas is None:
        if spec.replicas < 1:
            return _invalid(f"spec.replicas is {spec.replicas}; set at least 1, or scale to zero with spec.minReplicas")
        return Scaling(spec.replicas, spec.replicas, AutoscalerClass.NONE)
    minimum = spec.min_replicas if spec.min_replicas is not None else 1
    maximum = spec.max_replicas if spec.max_replicas is not None else max(1, minimum)
    if maximum < minimum:
        return _invalid(f"spec.maxReplicas {maximum} is below spec.minReplicas {minimum}; raise it")
    if any(metric.podmetric is None for metric in given):
        return _invalid("a metric of spec.autoScaling.metrics has no podmetric; describe the metric there")
    if minimum < 1 and (why := _cannot_wake(given)):
        return _invalid(f"spec.minReplicas is {minimum}, but {why}")
    for index, metric in enumerate(given):
        if metric.podmetric is not None and (why := _refusal(metric.podmetric)):
            return _invalid(f"spec.autoScaling.metrics[{index}].podmetric.{why}")
    scaler = AutoscalerClass.KEDA if given else AutoscalerClass.HPA
    metrics = None if spec.auto_scaling is None else tuple(_metric(metric) for metric in given)
    return Scaling(minimum, maximum, scaler, metrics)


def _cannot_wake(metrics: Sequence[ScalingMetric]) -> str:
    """Why a service without replicas would never get one again; empty when some metric can wake it (SV-285)."""
    sources = [metric.podmetric.metric for metric in metrics if metric.podmetric is not None]
    if not sources:
        return "without a metric in spec.autoScaling.metrics nothing would wake the service: CPU needs pods"
    of_pods = {name for source in sources for name in source.metric_names}
    if any(_is_from_elsewhere((source.query or "").strip(), of_pods) for source in sources):
        return ""
    return (
        "every metric comes from the pods, of which there would be none: one of spec.autoScaling.metrics needs a query "
        "for a metric that something else sends, and that is no metric of the engine and in no metricNames"
    )


def _is_from_elsewhere(query: str, of_pods: Collection[str]) -> bool:
    """What the collector beside the engine reads, and the engine's own metrics, end with the last pod."""
    return bool(query) and query not in of_pods and not query.lower().startswith(_OF_ENGINE)


def _refusal(source: PodMetricSource) -> str:
    """The field, and why KServe's webhook or KEDA's scaler would refuse the metric; empty if neither (SV-289)."""
    target = source.target
    if not source.metric.query:
        return "metric.query is missing; KServe takes no metric without one"
    over_time = source.metric.operation_over_time
    if over_time and over_time not in _OPERATIONS:
        return f"metric.operationOverTime is {over_time!r}; use one of {', '.join(_OPERATIONS)}"
    if target.type is MetricTargetType.UTILIZATION:
        return (
            "target.type is Utilization, which is for resources such as CPU; a PodMetric takes Value with target.value "
            "or AverageValue with target.averageValue"
        )
    if target.type is MetricTargetType.AVERAGE_VALUE and not target.average_value:
        return "target.averageValue is missing for a target of type AverageValue"
    if target.type is MetricTargetType.VALUE and not target.value:
        return "target.value is missing for a target of type Value"
    return ""


def _counts(spec: AIMServiceSpec, metrics: Sequence[ScalingMetric]) -> Iterator[tuple[str, int | None]]:
    yield from (
        ("spec.replicas", spec.replicas),
        ("spec.minReplicas", spec.min_replicas),
        ("spec.maxReplicas", spec.max_replicas),
    )
    for index, metric in enumerate(metrics):
        if metric.podmetric is not None:
            path = f"spec.autoScaling.metrics[{index}].podmetric.target.averageUtilization"
            yield path, metric.podmetric.target.average_utilization


def _invalid(message: str) -> ClassifiedError:
    return ClassifiedError(Category.INVALID_SPEC, "InvalidSpec", message)


def _metric(metric: ScalingMetric) -> JsonObject:
    assert metric.podmetric is not None
    source = metric.podmetric
    return {
        "type": metric.type.value,
        "podmetric": {"metric": _pod_metric(source.metric), "target": _target(source.target)},
    }


def _pod_metric(metric: PodMetric) -> JsonObject:
    optional: JsonObject = {
        "serverAddress": metric.server_address,
        "metricNames": list(metric.metric_names),
        "query": metric.query,
        "operationOverTime": metric.operation_over_time,
    }
    return {"backend": metric.backend.value, **{name: value for name, value in optional.items() if value}}


def _target(target: MetricTarget) -> JsonObject:
    """The target, with ``value`` as the number that counts: KServe gives KEDA nothing else, whatever the type (SV-306).

    KServe hands the text on as it is written, and the scaler reads a plain number, not a quantity with a suffix.
    """
    utilization = target.average_utilization
    counts = target.average_value if target.type is MetricTargetType.AVERAGE_VALUE else target.value
    return {
        "type": target.type.value,
        **({"value": exact_number(counts)} if counts else {}),
        **({"averageValue": canonical_text(target.average_value)} if target.average_value else {}),
        **({"averageUtilization": utilization} if utilization is not None else {}),
    }


def scaling_annotations(scaling: Scaling, workload: str) -> dict[str, str]:
    """Annotations of the InferenceService that choose and feed the autoscaler (SV-147, SV-181)."""
    chosen = {labels.ANNOTATION_AUTOSCALER_CLASS: scaling.scaler.value}
    if scaling.scaler is not AutoscalerClass.KEDA:
        return chosen
    return {
        **chosen,
        labels.ANNOTATION_OTEL_INJECT: predictor_name(workload),
        labels.ANNOTATION_PROMETHEUS_PORT: METRICS_PORT,
    }


def hpa_name(scaling: Scaling, workload: str) -> str:
    """Name of the service's autoscaler."""
    return autoscaler_of(scaling.scaler, workload)


def autoscaler_of(scaler: AutoscalerClass, workload: str) -> str:
    """Name of the autoscaler that KEDA or KServe makes (SV-185)."""
    return autoscaler_name(workload) if scaler is AutoscalerClass.KEDA else predictor_name(workload)


def is_scaled_to_zero(scaling: Scaling, hpa: HorizontalPodAutoscaler | None) -> bool:
    """Whether KEDA has taken the last replica: its autoscaler rests until a metric wakes the service (SV-285)."""
    return scaling.minimum == 0 and rests(hpa)


def rests(hpa: HorizontalPodAutoscaler | None) -> bool:
    """Whether the autoscaler leaves its target alone, because that has no replica."""
    active = None if hpa is None else find_condition(hpa.status.conditions, "ScalingActive")
    return active is not None and active.status is not ConditionStatus.TRUE and active.reason == "ScalingDisabled"


# What has no effect

REPLICAS_IN_EFFECT: Final = "ReplicasInEffect"
"""Condition of an autoscaled service that a user scaled by hand (SV-280)."""


def replicas_in_effect(spec: AIMServiceSpec) -> tuple[Desired, ...]:
    """The answer to ``kubectl scale`` while autoscaling decides; the default of 1 says nothing."""
    scaling = scaling_of(spec)
    if isinstance(scaling, ClassifiedError) or not scaling.autoscaled or spec.replicas == 1:
        return ()
    message = (
        f"spec.replicas is {spec.replicas}, but autoscaling keeps {scaling.minimum} to {scaling.maximum} replicas; "
        "change spec.minReplicas and spec.maxReplicas, or remove them and spec.autoScaling for a fixed number"
    )
    return (condition(REPLICAS_IN_EFFECT, False, "AutoscalingDecides", message),)


AUTOSCALING_IN_EFFECT: Final = "AutoscalingInEffect"
"""Condition of a service whose autoscaling can change nothing (SV-307)."""


def autoscaling_in_effect(spec: AIMServiceSpec) -> tuple[Desired, ...]:
    """The answer to autoscaling without ``maxReplicas``, which leaves as many replicas as there have to be at least.

    Equal bounds that are both written are an answer themselves.
    """
    scaling = scaling_of(spec)
    if isinstance(scaling, ClassifiedError) or not scaling.autoscaled or spec.max_replicas is not None:
        return ()
    if scaling.minimum < scaling.maximum:
        return ()
    message = (
        f"autoscaling is configured, but without spec.maxReplicas the service always has {scaling.maximum} replicas; "
        f"set spec.maxReplicas above {scaling.maximum}"
    )
    return (condition(AUTOSCALING_IN_EFFECT, False, "MaxReplicasMissing", message),)


# Status


def runtime_status(service: AIMService, workload: str, hpa: HorizontalPodAutoscaler | None) -> RuntimeStatus:
    """``status.runtime``: of the autoscaler if there is one, else as configured (SV-209…SV-213, SV-276).

    Args:
        workload: name of the InferenceService; empty when it has none.
    """
    scaling = scaling_of(service.spec)
    numbers = _numbers(service, scaling, hpa)
    current, desired, minimum, maximum = numbers
    fixed = minimum == maximum
    return RuntimeStatus(
        current_replicas=current,
        desired_replicas=desired,
        min_replicas=minimum,
        max_replicas=maximum,
        replicas=str(current) if fixed else f"{current}/{desired} ({minimum}-{maximum})",
        **({"selector": f"{labels.KSERVE_INFERENCE_SERVICE}={workload}"} if workload else {}),
    )


def _numbers(
    service: AIMService, scaling: Scaling | ClassifiedError, hpa: HorizontalPodAutoscaler | None
) -> tuple[int, int, int, int]:
    """Current, desired, smallest, largest."""
    if isinstance(scaling, ClassifiedError):
        # A status that says the impossible number would be refused, and its conditions with it.
        return _same(max(-LARGEST, min(LARGEST, service.spec.replicas)))
    if scaling.autoscaled and hpa is not None:
        status, lowest = hpa.status, hpa.spec.min_replicas
        return (
            status.current_replicas,
            status.desired_replicas,
            # From one to none KEDA scales by itself; its autoscaler never goes below one.
            0 if scaling.minimum == 0 else 1 if lowest is None else lowest,
            hpa.spec.max_replicas,
        )
    return (scaling.minimum, scaling.minimum, scaling.minimum, scaling.maximum)


def _same(count: int) -> tuple[int, int, int, int]:
    return (count, count, count, count)
