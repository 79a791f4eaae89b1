"""The InferenceService of a service, in every field (serving.md sections 9 and 10)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aim_domain import (
    AIMService,
    PodDefaults,
    RuntimeConfigSpec,
    child_labels,
    labels,
    pod_annotations,
    strategy_of,
    with_settings,
)
from aim_domain.kinds import INFERENCE_SERVICE
from aim_domain.naming import optional_label_value
from aim_domain.parts import INFERENCE_SERVICES
from aim_serving.cache_volumes import Volumes
from aim_serving.container_env import container_env
from aim_serving.container_resources import container_resources
from aim_serving.pod_security import OF_CONTAINER, OF_POD
from aim_serving.profile_mount import ProfileMount
from aim_serving.references import Template
from aim_serving.replicas import Scaling, scaling_annotations
from aim_serving.template_traits import metadata_of
from controller_runtime import Child, JsonObject, kind_of, to_json
from controller_runtime.core import LocalObjectReference, ResourceRequirements

CONTAINER: Final = "kserve-container"
HTTP_PORT: Final = 8000
PROFILE_HASH: Final = f"{labels.PREFIX}profile-hash"
"""Annotation of the pods that changes with the mounted profile (SV-268)."""


@dataclass(frozen=True, slots=True)
class ModelPart:
    """What a model contributes."""

    image: str
    resources: ResourceRequirements | None = None
    pull_secrets: tuple[LocalObjectReference, ...] = ()


def build_inference_service(
    service: AIMService,
    name: str,
    template: Template,
    *,
    model: ModelPart,
    config: RuntimeConfigSpec,
    scaling: Scaling,
    volumes: Volumes,
    pods: PodDefaults,
    profile: ProfileMount | None = None,
    restricted: bool = False,
) -> Child:
    """The complete desired object; a repeated call gives the same body (FW-205).

    Args:
        restricted: whether the namespace takes restricted pods alone (SV-301).
    """
    mounted = volumes.with_profile(profile).with_hf_home(pods.hf_home)
    metadata = {
        "name": name,
        "namespace": service.namespace,
        "labels": child_labels(
            _labels(service, template, pods), parent=service, controller="service", propagation=config.label_propagation
        ),
        "annotations": scaling_annotations(scaling, name),
    }
    container = {
        "name": CONTAINER,
        "image": model.image,
        "env": container_env(service, template, config, profile.rendered if profile else None, hf_home=pods.hf_home),
        "resources": container_resources(
            template.status.resolved_hardware,
            (resources_of(config), model.resources, template.spec.resources, service.spec.resources),
            usual_gpu=pods.gpu_resource,
        ),
        "ports": [{"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"}],
        "volumeMounts": list(mounted.mounts),
        **(OF_CONTAINER if restricted else {}),
    }
    predictor: JsonObject = {
        "minReplicas": scaling.minimum,
        "maxReplicas": scaling.maximum,
        "containers": [container],
        "volumes": list(mounted.volumes),
        **(OF_POD if restricted else {}),
        **_optional(service, template, model, scaling, pods),
    }
    annotations = {**pod_annotations(config.predictors), **({PROFILE_HASH: profile.hash} if profile else {})}
    strategy = strategy_of(service.spec.deployment_strategy, config.predictors)
    predictor = {
        **with_settings(predictor, config.predictors),
        **({"annotations": annotations} if annotations else {}),
        **({"deploymentStrategy": strategy} if strategy else {}),
    }
    body = kind_of({"metadata": metadata, "spec": {"predictor": predictor}}, INFERENCE_SERVICE)
    return Child(INFERENCE_SERVICES, body)


def resources_of(config: RuntimeConfigSpec) -> ResourceRequirements | None:
    """What the runtime config says of the resources of serving containers; the lowest layer that is written."""
    return config.predictors.resources if config.predictors is not None else None


def _labels(service: AIMService, template: Template, pods: PodDefaults) -> dict[str, str]:
    found = metadata_of(template.status.profile)
    derived = {
        labels.SERVICE: service.name,
        labels.TEMPLATE: template.name,
        labels.MODEL: template.spec.model_name,
        labels.METRIC: found.metric or "",
        labels.PRECISION: found.precision or "",
        labels.KUEUE_QUEUE: pods.queue,
    }
    valued = {key: optional_label_value(text) for key, text in derived.items()}
    return {
        labels.APP_COMPONENT: labels.APP_COMPONENT_INFERENCE,
        labels.APP_MANAGED_BY: labels.APP_MANAGED_BY_ENGINE,
        **{key: value for key, value in valued.items() if value},
    }


def _optional(
    service: AIMService, template: Template, model: ModelPart, scaling: Scaling, pods: PodDefaults
) -> JsonObject:
    """Fields that are left out when there is nothing to say, so that nobody's value is overwritten (SV-179)."""
    secrets = pull_secrets(service.spec.image_pull_secrets, template.spec.image_pull_secrets, model.pull_secrets)
    affinity = template.status.resolved_node_affinity
    fields: JsonObject = {
        "imagePullSecrets": secrets or None,
        "serviceAccountName": service.spec.service_account_name or template.spec.service_account_name or None,
        "priorityClassName": service.spec.priority_class_name or None,
        "schedulerName": pods.scheduler or None,
        "tolerations": _tolerations(template, pods) or None,
        "affinity": None if affinity is None else {"nodeAffinity": to_json(affinity)},
        "autoScaling": None if scaling.metrics is None else {"metrics": list(scaling.metrics)},
    }
    return {name: value for name, value in fields.items() if value is not None}


def _tolerations(template: Template, pods: PodDefaults) -> list[JsonObject]:
    """Of the taint that keeps everything else away from nodes with GPUs; only pods that are meant for them get it."""
    hardware = template.status.resolved_hardware
    if not pods.gpu_taint or hardware is None or hardware.gpu is None:
        return []
    return [{"key": pods.gpu_taint, "operator": "Exists"}]


def pull_secrets(*levels: Iterable[LocalObjectReference]) -> list[JsonObject]:
    """Union by name, in the order of the levels (SV-151)."""
    names = dict.fromkeys(secret.name for level in levels for secret in level if secret.name)
    return [{"name": name} for name in names]
