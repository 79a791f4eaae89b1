"""What KServe makes of an InferenceService in its Standard mode, without the Deployment between. Pure functions."""

from collections.abc import Iterable, Sequence
from typing import Final

from aim_local.actors.objects import (
    condition,
    controlled_by,
    is_going,
    labels_of,
    local_annotations,
    short_hash,
    timed,
)
from aim_shared.api import labels
from aim_shared.json import JsonObject
from aim_shared.naming import predictor_name

_POD_SPEC: Final = (
    "containers",
    "initContainers",
    "volumes",
    "imagePullSecrets",
    "serviceAccountName",
    "priorityClassName",
    "affinity",
    "nodeSelector",
    "tolerations",
    "securityContext",
)
_HASH_LABEL: Final = "pod-template-hash"
_SERVING_CONTAINER: Final = "kserve-container"
_HTTP_PORT: Final = 8080
_DOMAIN: Final = "example.com"


def template_hash(isvc: JsonObject) -> str:
    """Changes with everything that makes the pods be made anew."""
    return short_hash(_pod_spec(isvc))


def pod_for(isvc: JsonObject, index: int) -> JsonObject:
    """A predictor pod; equal content and index give the same name."""
    metadata, revision = isvc["metadata"], template_hash(isvc)
    prefix = predictor_name(metadata["name"])
    own_labels = {
        **labels_of(isvc),
        labels.KSERVE_INFERENCE_SERVICE: metadata["name"],
        "app": f"isvc.{prefix}",
        "component": "predictor",
        _HASH_LABEL: revision,
    }
    annotations = {
        **local_annotations(isvc),
        **(isvc["spec"]["predictor"].get("annotations") or {}),
        "internal.serving.kserve.io/storage-initializer-sourceuri": "",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{prefix}-{revision}-{short_hash([metadata['uid'], revision, index], 5)}",
            "namespace": metadata["namespace"],
            "labels": own_labels,
            "annotations": {name: value for name, value in annotations.items() if value},
            "ownerReferences": [controlled_by(isvc)],
        },
        "spec": _pod_spec(isvc),
    }


def service_for(isvc: JsonObject) -> JsonObject:
    """The Service in front of the predictor's pods (SV-153)."""
    metadata = isvc["metadata"]
    name = predictor_name(metadata["name"])
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {**labels_of(isvc), labels.KSERVE_INFERENCE_SERVICE: metadata["name"], "component": "predictor"},
            "ownerReferences": [controlled_by(isvc)],
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {"app": f"isvc.{name}"},
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": _target_port(isvc)}],
        },
    }


def status_for(isvc: JsonObject, ready: int, wanted: int, now: str) -> JsonObject:
    """The InferenceService's status with that many ready pods; unchanged when nothing is new."""
    available = ready >= min(1, wanted)
    why = () if available else ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    conditions = [
        condition("IngressReady", True),
        condition("PredictorReady", available, *why),
        condition("Ready", available, *why),
        condition("Stopped", False),
    ]
    metadata = isvc["metadata"]
    present = isvc.get("status") or {}
    host = f"{metadata['name']}-{metadata['namespace']}.{_DOMAIN}"
    address = f"http://{predictor_name(metadata['name'])}.{metadata['namespace']}.svc.cluster.local"
    return {
        "observedGeneration": metadata.get("generation", 1),
        "conditions": timed(conditions, present.get("conditions") or (), now),
        "url": f"http://{host}",
        "address": {"url": address},
        "components": {
            "predictor": {"url": f"http://{predictor_name(metadata['name'])}-{metadata['namespace']}.{_DOMAIN}"}
        },
        "deploymentMode": "Standard",
        "modelStatus": {
            "copies": {"failedCopies": 0, "totalCopies": ready},
            "states": {
                "activeModelState": "Loaded" if available else "",
                "targetModelState": "Loaded" if available else "Pending",
            },
            "transitionStatus": "UpToDate" if available else "InProgress",
        },
    }


def replicas_wanted(isvc: JsonObject, scaled_to: int | None) -> int:
    """How many pods there should be: what an autoscaler says, within the bounds, else the lower bound."""
    predictor = isvc["spec"]["predictor"]
    least = predictor.get("minReplicas", 1)
    most = max(least, predictor.get("maxReplicas") or least)
    return int(least if scaled_to is None else max(least, min(most, scaled_to)))


def is_ready(pod: JsonObject) -> bool:
    """Whether the pod takes requests."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not is_going(pod)


def surplus(pods: Iterable[JsonObject], wanted: Sequence[JsonObject]) -> list[JsonObject]:
    """Pods to remove: too many of this revision at once, older ones once all wanted ones are ready."""
    names = {pod["metadata"]["name"] for pod in wanted}
    present = [pod for pod in pods if not is_going(pod)]
    current = [pod for pod in present if pod["metadata"]["name"] in names]
    replaced = len(current) == len(names) and all(is_ready(pod) for pod in current)
    revision = wanted[0]["metadata"]["labels"][_HASH_LABEL] if wanted else ""
    return [
        pod
        for pod in present
        if pod["metadata"]["name"] not in names and (replaced or labels_of(pod).get(_HASH_LABEL) == revision)
    ]


def model_name(isvc: JsonObject) -> str:
    """The name under which the engine serves: what the container is told, else its image."""
    container = _serving_container(isvc)
    env = {one["name"]: one.get("value", "") for one in container.get("env") or ()}
    image = str(container.get("image", ""))
    return env.get("AIM_MODEL_ID") or image.rsplit("/", 1)[-1].split(":", maxsplit=1)[0] or isvc["metadata"]["name"]


def _serving_container(isvc: JsonObject) -> JsonObject:
    containers: list[JsonObject] = isvc["spec"]["predictor"].get("containers") or [{}]
    return next((one for one in containers if one.get("name") == _SERVING_CONTAINER), containers[0])


def _target_port(isvc: JsonObject) -> int:
    ports = _serving_container(isvc).get("ports") or [{}]
    return int(ports[0].get("containerPort", _HTTP_PORT))


def _pod_spec(isvc: JsonObject) -> JsonObject:
    predictor = isvc["spec"]["predictor"]
    spec = {name: predictor[name] for name in _POD_SPEC if predictor.get(name)}
    # Nothing has to be brought to an end, so pods go as soon as they are deleted.
    return {**spec, "restartPolicy": "Always", "terminationGracePeriodSeconds": 0}
