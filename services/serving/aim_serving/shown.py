"""What a service's pass looks at in other objects; a change of the rest wakes no service (serving.md section 17)."""

from typing import Final

from aim_domain import SHOWN_OF_OLDER_CONFIGS, AIMArtifact, AIMService, shown_of_config, shown_of_pod
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACTS,
    AUTOSCALERS,
    CLUSTER_MODELS,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    MODELS,
    NAMESPACES,
    PREDICTOR_PODS,
    RUNTIME_CONFIGS,
    SERVICES,
    TEMPLATES,
)
from aim_serving.cache_health import has_failed
from aim_serving.pod_security import is_restricted
from aim_serving.references import Model, Template, expects_no_template, own_words
from controller_runtime import ConditionStatus, Resource, Shown, StatusValue, find_condition
from controller_runtime.core import HorizontalPodAutoscaler, Namespace

_WITHOUT_COMPLAINT: Final = (StatusValue.READY, StatusValue.PENDING, StatusValue.PROGRESSING)
_WATCHED_HPA_CONDITIONS: Final = ("ScalingActive", "AbleToScale")


def _of_model(model: Model) -> tuple[object, ...]:
    """Progress reports in conditions change nothing that serving reads; what has failed is quoted."""
    metadata = model.metadata
    own = (model.deleting, metadata.generation, metadata.labels, metadata.owner_references)
    return (*own, model.status.status, _complaint(model), expects_no_template(model))


def _of_template(template: Template) -> tuple[object, ...]:
    metadata, status = template.metadata, template.status
    return (
        template.deleting,
        metadata.generation,
        metadata.labels,
        metadata.owner_references,
        status.status,
        status.profile,
        status.resolved_hardware,
        status.resolved_node_affinity,
        status.model_sources,
        _complaint(template),
    )


def _complaint(obj: Model | Template) -> str:
    return "" if obj.status.status in _WITHOUT_COMPLAINT else own_words(obj)


def _of_artifact(artifact: AIMArtifact) -> tuple[object, ...]:
    """Only whether it has failed: who waits for it follows the cache (SV-134…SV-137)."""
    return (artifact.deleting, artifact.status.status, has_failed(artifact))


def _of_autoscaler(hpa: HorizontalPodAutoscaler) -> tuple[object, ...]:
    """Replicas and the two conditions count; metric values do not (SV-253, FW-114)."""
    spec, status = hpa.spec, hpa.status
    return (
        spec.min_replicas,
        spec.max_replicas,
        status.current_replicas,
        status.desired_replicas,
        *(_condition(hpa, type_) for type_ in _WATCHED_HPA_CONDITIONS),
    )


def _condition(hpa: HorizontalPodAutoscaler, type_: str) -> tuple[ConditionStatus, str] | None:
    """What does not work is quoted; what works may say another number every few seconds."""
    found = find_condition(hpa.status.conditions, type_)
    return (found.status, "" if found.status is ConditionStatus.TRUE else found.message) if found else None


def _of_other_service(service: AIMService) -> tuple[object, ...]:
    """Whether it demands a shared cache (SV-234)."""
    return (service.deleting, service.metadata.generation, service.status.resolved_template)


def _leaving(obj: Resource) -> bool:
    return obj.deleting


def _of_namespace(namespace: Namespace) -> tuple[bool, bool]:
    return namespace.deleting, is_restricted(namespace)


SHOWN: Final = (
    Shown(MODELS, _of_model),
    Shown(CLUSTER_MODELS, _of_model),
    Shown(TEMPLATES, _of_template),
    Shown(CLUSTER_TEMPLATES, _of_template),
    Shown(RUNTIME_CONFIGS, shown_of_config),
    Shown(CLUSTER_RUNTIME_CONFIGS, shown_of_config),
    *SHOWN_OF_OLDER_CONFIGS,
    Shown(ARTIFACTS, _of_artifact),
    Shown(ARTIFACT_CLAIMS, _leaving),
    Shown(PREDICTOR_PODS, shown_of_pod),
    Shown(AUTOSCALERS, _of_autoscaler),
    Shown(NAMESPACES, _of_namespace),
    Shown(SERVICES, _of_other_service),
)
