"""The InferenceService of a service: its manifest, how its pods are replaced, and what of a present one is kept."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

from aim_domain import (
    AIMService,
    EventsOf,
    InferenceService,
    LogOf,
    PodDefaults,
    PodFacts,
    ResolvedConfig,
    RuntimeConfigSpec,
    child_labels,
    inspect_pods,
    is_pod_ready,
    labels,
    newest_refusal,
    pod_annotations,
    strategy_of,
    with_settings,
    words_of,
)
from aim_domain.component_names import ComponentName
from aim_domain.kinds import INFERENCE_SERVICE
from aim_domain.naming import optional_label_value
from aim_domain.parts import INFERENCE_SERVICES, SERVICES
from aim_serving.containers import container_env, container_resources
from aim_serving.references import Model, Template, is_profile
from aim_serving.replicas import Scaling, scaling_annotations
from aim_serving.template_selection import metadata_of
from aim_serving.volumes import AdapterMount, ProfileMount, Volumes
from controller_runtime import (
    ERROR_STATES,
    Child,
    Component,
    Effect,
    FieldOwner,
    JsonObject,
    Patch,
    PodPhase,
    State,
    canonical,
    find_condition,
    kind_of,
    to_json,
)
from controller_runtime.core import LocalObjectReference, Namespace, Pod, ResourceRequirements

_RESTRICTED: Final = "restricted"
_USER: Final = 65532
"""That of the discovery Job, which runs the same image (DI-252)."""

OF_POD: Final[Mapping[str, JsonObject]] = MappingProxyType(
    {"securityContext": {"runAsNonRoot": True, "runAsUser": _USER, "seccompProfile": {"type": "RuntimeDefault"}}}
)
OF_CONTAINER: Final[Mapping[str, JsonObject]] = MappingProxyType(
    {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
)


def is_restricted(namespace: Namespace | None) -> bool:
    """Whether pods that do not say so are refused."""
    return namespace is not None and namespace.metadata.labels.get(labels.POD_SECURITY) == _RESTRICTED


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
    adapters: AdapterMount | None = None,
    restricted: bool = False,
) -> Child:
    """The complete desired object; a repeated call gives the same body (FW-205).

    Args:
        restricted: whether the namespace takes restricted pods alone (SV-301).
    """
    mounted = volumes.with_profile(profile).with_adapters(adapters).with_hf_home(pods.hf_home)
    custom, engine = profile.rendered if profile else None, adapters.env if adapters else {}
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
        "env": container_env(service, template, config, custom, hf_home=pods.hf_home, engine=engine),
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
        labels.PROFILE if is_profile(template) else labels.TEMPLATE: template.name,
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
    """Fields that are left out when there is nothing to say, so that no foreign value is overwritten (SV-179)."""
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


POD_REVISION: Final = "pod-template-hash"
"""Label of the pods of one version of a Deployment."""
_PODS: Final = ComponentName.INFERENCE_SERVICE_PODS
_ON_THE_WAY: Final = frozenset({"PodsReady", "PodsStarting", "PodsPending", "PodsProgressing", "Pulling", "NoPods"})
"""What new pods say of themselves while a rollout goes on as it should."""
_UNSCHEDULED: Final = "FailedScheduling"
_RECREATE: Final = (
    "free what the new pod asks for, or set spec.deploymentStrategy.type to Recreate, which ends the former pod first"
)
_REFUSED: Final = "correct what it names, or set predictors of the runtime config"


def with_rollout(component: Component, pods: Sequence[Pod], log_of: LogOf, events_of: EventsOf) -> Component:
    """The component of the pods; where those of a new revision are held up while former ones serve, that (SV-322)."""
    if component.effective_state is not State.READY:
        return component
    staying = [pod for pod in pods if not pod.deleting]
    serving = [pod for pod in staying if is_serving(pod)]
    latest = max(staying, key=lambda pod: (_created(pod), pod.name), default=None)
    if not serving or latest is None or any(_revision(pod) == _revision(latest) for pod in serving):
        return component
    new = [pod for pod in staying if _revision(pod) == _revision(latest)]
    reported = inspect_pods(_PODS, new, log_of=log_of, events_of=events_of)
    if reported.effective_reason in _ON_THE_WAY:
        return component
    remedy = f"; {_RECREATE}" if reported.effective_reason == _UNSCHEDULED else ""
    message = f"pod {latest.key} of the new revision: {reported.effective_message}; {_still(serving)}{remedy}"
    state = reported.effective_state if reported.effective_state in ERROR_STATES else State.STARTING
    return Component(_PODS, state, reported.effective_reason, message)


def with_refusal(
    component: Component, pods: Sequence[Pod], workload: InferenceService, facts: PodFacts
) -> tuple[Component, tuple[Effect, ...], datetime | None]:
    """The component where something refuses the pods of an InferenceService that is not ready (SV-321).

    Besides, what is to be read to know that, and when to look again; nothing while a pod is there that says more.
    """
    if component.errors and component.effective_reason != "NoPods":
        return component, (), None
    if any(not is_serving(pod) for pod in pods):
        return component, (), None
    since = _waiting_since(workload)
    left = facts.patience(since)
    if left is not None:
        return component, (), facts.now + timedelta(seconds=left)
    effects = facts.due_replica_set_events(workload)
    event = newest_refusal(facts.replica_set_events(workload), f"{workload.name}-predictor-")
    if event is None or (event.last_seen is not None and any(_created(pod) > event.last_seen for pod in pods)):
        return component, effects, None
    still = f"; {_still(pods)}" if pods else ""
    message = f"ReplicaSet {event.involved_object.name} cannot create a pod: {words_of(event)}{still}; {_REFUSED}"
    return Component(_PODS, State.STARTING if pods else State.PENDING, event.reason, message), effects, None


def _waiting_since(workload: InferenceService) -> datetime | None:
    """Since when the InferenceService is not ready."""
    ready = find_condition(workload.status.conditions, "Ready")
    changed = None if ready is None else ready.last_transition_time
    return changed or workload.metadata.creation_timestamp


def _still(serving: Sequence[Pod]) -> str:
    return f"pod {serving[0].key} of the former revision still serves"


def _revision(pod: Pod) -> str:
    return pod.metadata.labels.get(POD_REVISION, "")


def _created(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)


def is_serving(pod: Pod) -> bool:
    """Whether it answers."""
    return pod.status.phase is PodPhase.RUNNING and is_pod_ready(pod)


_DIGITS: Final = 16
_OF_ROUTING: Final = frozenset({"routing"})
OF_SCALE: Final = frozenset(
    {"replicas", "minReplicas", "maxReplicas", "autoScaling", "deploymentStrategy", "rollout", "adapters"}
)
"""What a service says about the number of its pods, how they are replaced and what they load, not what they are."""
_UNSAID: Final = PodDefaults()


def is_left(workload: InferenceService | None) -> bool:
    """Whether the Go operator still owns fields of it (FW-517)."""
    entries = () if workload is None else workload.metadata.managed_fields
    return any(
        FieldOwner(one.manager, one.operation, one.subresource) in INFERENCE_SERVICES.predecessors for one in entries
    )


def asked_for(
    service: AIMService,
    template: Template,
    model: Model,
    config: ResolvedConfig,
    ignored: frozenset[str] = frozenset(),
) -> str:
    """A digest of what users say about the pods of a service.

    Not of what discovery reports, as that is read again when the services change; nor of routes, which are no pods.

    Args:
        ignored: further members of the spec that do not count.
    """
    spec = {name: value for name, value in to_json(service.spec).items() if name not in _OF_ROUTING | ignored}
    asked = {
        "service": spec,
        "template": [template.name, to_json(template.spec)],
        "model": to_json(model.spec),
        "env": [to_json(variable) for variable in config.spec.env],
        # Of these only what is said: no user asked for a default of the next release.
        "pods": {name: value for name, value in asdict(config.pods).items() if value != getattr(_UNSAID, name)},
    }
    if config.spec.predictors is not None:
        asked["predictors"] = to_json(config.spec.predictors)
    return hashlib.sha256(canonical(asked)).hexdigest()[:_DIGITS]


def is_kept(service: AIMService, workload: InferenceService | None, asked: str) -> bool:
    """Whether the InferenceService stays as it is: it was left, and what is asked for was not changed since."""
    return is_left(workload) and _note_of(service) in ("", asked)


def notes(service: AIMService, workload: InferenceService | None, asked: str) -> tuple[Patch, ...]:
    """What is remembered on the service while its InferenceService is kept, and forgotten when that is its own."""
    if is_left(workload):
        wanted, why = asked, "its InferenceService stays as it was left"
        missing = not _note_of(service)
    else:
        wanted, why = None, "its InferenceService is made by this service now"
        missing = bool(_note_of(service)) and workload is not None
    body = {"metadata": {"annotations": {labels.ANNOTATION_KEPT_WORKLOAD: wanted}}}
    patch = Patch(SERVICES, service.namespace, service.name, service.metadata.resource_version, body, why)
    return (patch,) if missing else ()


def _note_of(service: AIMService) -> str:
    return service.metadata.annotations.get(labels.ANNOTATION_KEPT_WORKLOAD, "")
