"""Objects around an AIMService, and a cache in which its plans come true."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from support.builders import EARLIER, condition, make, owner
from support.deciding import decide
from support.live import Live

from aim_domain import InferenceService, kinds, labels
from aim_domain.parts import INFERENCE_SERVICES, SERVICES
from aim_domain.pods.facts import POD_EVENTS
from aim_serving import indexes
from aim_serving.service import CONSUMED, SERVICE_RECONCILER, ServingSettings, definition
from controller_runtime import FACT, ClassifiedError, JsonObject, Plan
from controller_runtime.log.history.facts import fact_key
from controller_runtime.log.wire.part import GroupId
from controller_runtime.testing import NOW, BuiltCache, cache_of

DEFINITION = definition(ServingSettings(system_namespace="aim-system"))
TEAM = "ml-team"
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
WORKLOAD = "qwen-chat-a04542d9"
CLAIM = "hf-qwen-qwen3-32b-1234567890-cache"
ARTIFACT = "hf-qwen-qwen3-32b-1234567890"
GATEWAY: JsonObject = {"routing": {"enabled": True, "gatewayRef": {"name": "gateway", "namespace": "gateway-system"}}}
AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "amd.com/gpu.device-id", "operator": "In", "values": ["74a1"]}]}
        ]
    }
}


def aim_service(
    name: str = "qwen-chat", *, namespace: str = TEAM, status: JsonObject | None = None, **spec: Any
) -> JsonObject:
    """A service with its finalizer; by image unless a model is given."""
    spec = {"model": {"image": IMAGE}, "replicas": 1, **spec}
    body = {"spec": spec, **({"status": status} if status else {})}
    return {**make(kinds.AIM_SERVICE, name, namespace=namespace, finalizers=[labels.FINALIZER_SERVICE]), **body}


def model(
    name: str = "qwen", image: str = IMAGE, *, status: str = "Ready", namespace: str = TEAM, **spec: Any
) -> JsonObject:
    """A model of the namespace."""
    return make(kinds.AIM_MODEL, name, namespace=namespace, spec={"image": image, **spec}, status={"status": status})


def cluster_model(name: str = "qwen", image: str = IMAGE, *, status: str = "Ready", **spec: Any) -> JsonObject:
    """A model of the cluster."""
    return make(kinds.AIM_CLUSTER_MODEL, name, spec={"image": image, **spec}, status={"status": status})


def template(
    name: str = "qwen3-lat",
    of_model: str = "qwen",
    *,
    status: str = "Ready",
    gpu: str = "MI300X",
    count: int = 1,
    type_: str = "optimized",
    metric: str = "latency",
    precision: str = "fp8",
    cluster: bool = False,
    sources: Iterable[str] = ("Qwen/Qwen3-32B",),
    metadata: JsonObject | None = None,
    more_status: JsonObject | None = None,
    **spec: Any,
) -> JsonObject:
    """A template whose discovery is finished."""
    found: JsonObject = {
        "status": status,
        "profile": {
            "metadata": {"type": type_, "metric": metric, "precision": precision, "gpu": gpu, "gpuCount": count}
        },
        "resolvedHardware": {"gpu": {"requests": count, "model": gpu}} if gpu else {"cpu": {"requests": "4"}},
        "modelSources": [{"modelId": source, "sourceUri": f"hf://{source}"} for source in sources],
        **(more_status or {}),
    }
    kind = kinds.AIM_CLUSTER_SERVICE_TEMPLATE if cluster else kinds.AIM_SERVICE_TEMPLATE
    body = {"modelName": of_model, **spec}
    return make(kind, name, namespace=TEAM, spec=body, status=found, **(metadata or {}))


def node(name: str = "gpu-1", device_id: str = "74a1") -> JsonObject:
    """A node with an MI300X unless told otherwise."""
    return make(kinds.NODE, name, labels={labels.GPU_DEVICE_ID: device_id})


def template_cache(
    name: str,
    of_template: str = "qwen3-lat",
    *,
    status: str = "Ready",
    artifact_status: str | None = None,
    scope: str = "Namespace",
    mode: str = "Shared",
    **metadata: Any,
) -> JsonObject:
    """A template cache with one artifact."""
    entry = {
        "uid": f"aimartifact-{ARTIFACT}-uid",
        "name": ARTIFACT,
        "model": "Qwen/Qwen3-32B",
        "status": artifact_status or status,
        "persistentVolumeClaim": CLAIM,
    }
    return make(
        kinds.AIM_TEMPLATE_CACHE,
        name,
        namespace=TEAM,
        spec={"templateName": of_template, "templateScope": scope, "mode": mode},
        status={"status": status, "artifacts": {"Qwen/Qwen3-32B": entry}},
        **metadata,
    )


def artifact(
    status: str = "Failed", *, uid: str | None = None, made_by_cache: bool = True, **metadata: Any
) -> JsonObject:
    """The artifact of `cache`."""
    own = {labels.TEMPLATE_CACHE_NAME: "qwen3-lat-a04542d9"} if made_by_cache else {}
    body: JsonObject = {"spec": {"sourceUri": "hf://Qwen/Qwen3-32B"}, "status": {"status": status}}
    return make(kinds.AIM_ARTIFACT, ARTIFACT, namespace=TEAM, uid=uid, labels=own, **body, **metadata)


def config(name: str = "default", *, cluster: bool = False, **spec: Any) -> JsonObject:
    """A runtime config."""
    if cluster:
        return make(kinds.AIM_CLUSTER_RUNTIME_CONFIG, name, spec=spec)
    return make(kinds.AIM_RUNTIME_CONFIG, name, namespace=TEAM, spec=spec)


def workload(
    of_service: JsonObject,
    *,
    ready: bool | None = None,
    since: datetime = EARLIER,
    image: str = IMAGE,
    name: str = WORKLOAD,
    **predictor: Any,
) -> JsonObject:
    """An InferenceService as serving made it, with one volume of weights."""
    body = {
        "containers": [
            {"name": "kserve-container", "image": image, "volumeMounts": [{"name": "weights", "mountPath": "/weights"}]}
        ],
        "volumes": [{"name": "weights", "persistentVolumeClaim": {"claimName": CLAIM}}],
        **predictor,
    }
    conditions = [] if ready is None else [condition("Ready", ready, since=since)]
    return make(
        kinds.INFERENCE_SERVICE,
        name,
        namespace=TEAM,
        owners=[owner(of_service)],
        spec={"predictor": body},
        status={"conditions": conditions},
    )


def predictor_pod(
    phase: str,
    *,
    ready: bool | None = None,
    since: datetime = NOW,
    containers: Iterable[JsonObject] = (),
    name: str = "p",
) -> JsonObject:
    """A pod of the workload."""
    status: JsonObject = {"phase": phase, "containerStatuses": list(containers)}
    if ready is not None:
        status["conditions"] = [condition("Ready", ready, since=since)]
    own = {labels.KSERVE_INFERENCE_SERVICE: WORKLOAD}
    spec = {"containers": [{"name": "kserve-container", "image": IMAGE}]}
    return make(kinds.POD, name, namespace=TEAM, labels=own, created=NOW, spec=spec, status=status)


def pod_events(of_service: JsonObject, pod: JsonObject, *events: tuple[str, str], at: datetime = NOW) -> JsonObject:
    """The fact that holds Events of a pod, each given as reason and message."""
    uid = pod["metadata"]["uid"]
    about = f"{of_service['metadata']['uid']}/{uid}"
    where = fact_key("serving", POD_EVENTS.name, about)
    outcome = [
        {"reason": reason, "message": message, "involvedObject": {"uid": uid}, "lastTimestamp": at.isoformat()}
        for reason, message in events
    ]
    return {
        "apiVersion": FACT.api_version,
        "kind": FACT.kind,
        "metadata": {"namespace": where.namespace, "name": where.name, "uid": where.name},
        "effect": POD_EVENTS.name,
        "about": about,
        "owner": {"part": SERVICES.name, "name": of_service["metadata"]["name"], "uid": of_service["metadata"]["uid"]},
        "observedAt": at.isoformat(),
        "outcome": {"events": outcome},
    }


def serving_cache(*objects: JsonObject) -> BuiltCache:
    """A cache of all that serving consumes."""
    return cache_of(CONSUMED, *objects, indexes=indexes.ALL)


def plan_for(
    cache: BuiltCache, name: str = "qwen-chat", *, now: datetime | None = None, failure: ClassifiedError | None = None
) -> Plan:
    """The plan of one pass over a service, which nobody carries out."""
    service = cache.object(SERVICES, _namespace(cache, name), name)
    return decide(SERVICE_RECONCILER, service, cache.view(failure), now or cache.now)


def summaries_read(cache: BuiltCache, name: str) -> set[GroupId]:
    """Groups of summaries that a pass over a service reads: those by which it is enqueued."""
    view = cache.view()
    decide(SERVICE_RECONCILER, cache.object(SERVICES, _namespace(cache, name), name), view, NOW)
    return set(view.reads.summaries)


def _namespace(cache: BuiltCache, name: str) -> str:
    return next(entry.key.namespace for entry in cache.cache.all(SERVICES) if entry.key.name == name)


def living(*objects: JsonObject) -> Live:
    """The service at work in a cluster with these objects."""
    return Live(DEFINITION, *objects, namespace=TEAM)


def run(live: Live, name: str = "qwen-chat") -> Plan:
    """One pass over a service, carried out."""
    return live.run(SERVICES, name)


def route_reports(live: Live, status: bool, reason: str, name: str = "qwen-chat") -> None:
    """Let routing write its condition."""
    live.apply_status(SERVICES, name, {"conditions": [condition("HTTPRouteReady", status, reason)]}, "aim-routing")


def condition_of(plan: Plan, type_: str) -> tuple[str, str] | None:
    """Status and reason of a planned condition."""
    assert plan.status is not None
    found = (one for one in plan.status["conditions"] if one["type"] == type_)
    return next(((one["status"], one["reason"]) for one in found), None)


def message_of(plan: Plan, type_: str) -> str:
    """Message of a planned condition."""
    assert plan.status is not None
    return next(str(one["message"]) for one in plan.status["conditions"] if one["type"] == type_)


def overall(plan: Plan) -> str:
    """The planned status value."""
    assert plan.status is not None
    return str(plan.status["status"])


def children_of(plan: Plan, kind: str) -> list[JsonObject]:
    """Bodies of the planned children of one kind."""
    return [child.body for child in plan.children if child.body["kind"] == kind]


def stored(cache: BuiltCache, name: str = WORKLOAD) -> InferenceService:
    """The InferenceService in the cache."""
    return cache.object(INFERENCE_SERVICES, TEAM, name)
