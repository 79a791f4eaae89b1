"""Caches for each of the five services in which every object has had its passes, with its children and its status."""

from functools import cache
from typing import Any, Final

from support.builders import condition, make, owner
from support.live import Live
from support.whole_platform import IMAGE, SERVICES, TEAM, variants
from support.woken import Awake

from aim_domain import kinds, labels
from aim_domain.naming import inference_service_name
from aim_domain.parts import PREDICTOR_PODS
from controller_runtime import JsonObject, Part, ServiceDefinition
from controller_runtime.testing import cache_of

_FAILING: Final = ("AIMModel", "AIMClusterModel", "AIMServiceTemplate", "AIMTemplateCache", "AIMArtifact")
SETTLING: Final = 4
"""Passes after which the objects of these caches have their children and their status."""


_TOKEN: Final = {"secretName": "hub", "secretKey": "token"}
_NAMESPACE_CONFIG: Final = {
    "gateway": {"name": "older", "namespace": "gateways"},
    "credentials": {
        "huggingFaceToken": _TOKEN,
        "s3": [{"endpointUrl": "https://s3.example.com", "accessKeyId": _TOKEN, "secretAccessKey": _TOKEN}],
    },
    "images": {"imagePullSecrets": ["pull"]},
}
SCALED: Final = "AIMService that is scaled"
FAILING: Final = "AIMService whose inputs fail"
PROFILED: Final = "AIMService by profile"


def surroundings(service: JsonObject) -> list[JsonObject]:
    """What the cluster adds to the objects of the platform: a workload with a pod, its Events, nodes, older configs."""
    name = inference_service_name(service["metadata"]["name"], TEAM)
    volume = {"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}
    pod_status = {"phase": "Running", "conditions": [condition("Ready", True)], "containerStatuses": []}
    involved = {"kind": "InferenceService", "name": name, "namespace": TEAM, "uid": "isvc"}
    return [
        make(kinds.NODE, "gpu-1", labels={labels.GPU_DEVICE_ID: "74a1"}),
        make(kinds.NAMESPACE, TEAM),
        make(kinds.NAMESPACE, "aim-system"),
        make(kinds.AIM_NAMESPACE_CONFIG, "old", namespace=TEAM, spec=_NAMESPACE_CONFIG),
        make(kinds.KAIWO_CONFIG, "kaiwo", spec={"storage": {"defaultStorageClass": "slow"}}),
        make(
            kinds.INFERENCE_SERVICE,
            name,
            namespace=TEAM,
            uid="isvc",
            owners=[owner(service)],
            spec={"predictor": {"volumes": [volume], "containers": [{"name": "kserve-container", "image": IMAGE}]}},
            status={"conditions": [condition("Ready", True)]},
        ),
        make(
            kinds.POD,
            "predictor",
            namespace=TEAM,
            labels={labels.KSERVE_INFERENCE_SERVICE: name},
            spec={"containers": [{"name": "kserve-container", "image": IMAGE}]},
            status=pod_status,
        ),
        make(
            kinds.EVENT,
            "event",
            namespace=TEAM,
            type="Warning",
            reason="InternalError",
            message="boom",
            involvedObject=involved,
        ),
    ]


def autoscaler(service: JsonObject) -> JsonObject:
    """The HPA that KServe makes for a service that is scaled."""
    workload = inference_service_name(service["metadata"]["name"], TEAM)
    return make(
        kinds.HORIZONTAL_POD_AUTOSCALER,
        f"{workload}-predictor",
        namespace=TEAM,
        labels={labels.SERVICE: service["metadata"]["name"]},
        spec={"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": workload}},
        status={"currentReplicas": 1, "desiredReplicas": 2, "conditions": [condition("ScalingActive", True)]},
    )


def inputs(variant: str) -> dict[str, JsonObject]:
    """Objects of the platform by kind."""
    every = variants()
    plain = {kind: one for kind, one in every.items() if " " not in kind}
    if variant in every:
        return plain | {"AIMService": every[variant]}
    if variant == PROFILED:
        by_profile: JsonObject = {
            "profile": {"selector": {"aimId": "qwen/qwen3"}},
            "profileOverrides": {"engineEnv": {"A": "1"}},
        }
        return plain | {"AIMService": {**plain["AIMService"], "spec": by_profile}}
    if variant == SCALED:
        spec = {"model": {"name": "qwen"}, "template": {"name": "lat"}, "minReplicas": 1, "maxReplicas": 3}
        service = {**plain["AIMService"], "spec": spec}
        return plain | {"AIMService": service, "HorizontalPodAutoscaler": autoscaler(service)}
    conditions = [
        condition("Ready", False, "ComponentsFailed", "something is wrong"),
        condition("ImageMetadataReady", False, "ImageNotFound", "there is no such image"),
        condition("ArtifactsReady", False, "ArtifactsFailed", "the disk is full"),
    ]
    broken = {"status": "Failed", "conditions": conditions}
    failing = {kind: {**plain[kind], "status": {**plain[kind].get("status", {}), **broken}} for kind in _FAILING}
    return plain | failing


def settled(service: ServiceDefinition, variant: str) -> Awake:
    """A cache in which every object has had some passes, with its children and its status."""
    awake = Awake(service, cache_of(service.consumes, indexes=service.indexes))
    for part, obj in after_some_passes(service.name, variant):
        awake.built.put(part, obj)
    awake.pass_of_all()
    return awake


@cache
def after_some_passes(name: str, variant: str) -> list[tuple[Part[Any], JsonObject]]:
    """What the service makes of these objects."""
    service = next(one for one in SERVICES if one.name == name)
    objects = inputs(variant)
    every = [*surroundings(objects["AIMService"]), *objects.values()]
    known = {(part.kind.api_version, part.kind.kind) for part in service.consumes}
    if PREDICTOR_PODS not in service.consumes:
        known.discard((kinds.POD.api_version, kinds.POD.kind))
    live = Live(service, *(one for one in every if (one["apiVersion"], one["kind"]) in known))
    for _ in range(SETTLING):
        for reconciler in service.reconcilers:
            for entry in list(live.cache.all(reconciler.part)):
                live.run(reconciler.part, entry.key.name, entry.key.namespace)
    return [(part, entry.raw) for part in service.consumes for entry in live.cache.all(part)]
