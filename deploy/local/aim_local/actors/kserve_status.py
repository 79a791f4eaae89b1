"""The status that KServe gives an InferenceService in its Standard mode. Pure functions."""

from collections.abc import Sequence
from typing import Final

from aim_domain.naming import predictor_name
from aim_local.actors.kserve_objects import SERVING_CONTAINER
from aim_local.actors.objects import condition, is_ready
from controller_runtime import JsonObject

_DOMAIN: Final = "example.com"
_AVAILABLE, _PROGRESSING, _REPLICA_FAILURE = "Available", "Progressing", "ReplicaFailure"
_ERROR: Final = "Error"


def status_for(isvc: JsonObject, deployment: JsonObject | None, pods: Sequence[JsonObject], now: str) -> JsonObject:
    """The status; equal to the present one when nothing is new."""
    metadata, present = isvc["metadata"], isvc.get("status") or {}
    state = (deployment or {}).get("status") or {}
    predictor = _predictor_ready(state)
    ready = predictor if predictor["status"] != "True" else condition("Ready", True)
    conditions = [
        condition("IngressReady", True),
        predictor,
        {**ready, "type": "Ready"},
        condition("Stopped", False, severity="Info"),
    ]
    name, host = metadata["name"], f"{metadata['namespace']}.{_DOMAIN}"
    component = (present.get("components") or {}).get("predictor") or {}
    if predictor["status"] == "True":
        component = {"url": f"http://{predictor_name(name)}-{host}"}
    status = {
        "conditions": _timed(conditions, present.get("conditions") or (), now),
        "url": f"http://{name}-{host}",
        "address": {"url": f"http://{predictor_name(name)}.{metadata['namespace']}.svc.cluster.local"},
        "components": {"predictor": component},
        "deploymentMode": "Standard",
        "modelStatus": _model_status(present.get("modelStatus") or {}, pods, ready=ready["status"] == "True"),
    }
    # KServe repeats what the Deployment has seen, which says nothing about the InferenceService's own generation.
    observed = state.get("observedGeneration")
    return {**status, "observedGeneration": observed} if observed else status


def _predictor_ready(state: JsonObject) -> JsonObject:
    """The predictor's condition from the Deployment's; later rules outweigh earlier ones."""
    found = {one["type"]: one for one in state.get("conditions") or ()}
    available, progress = found.get(_AVAILABLE, {}), found.get(_PROGRESSING, {})
    if found.get(_REPLICA_FAILURE, {}).get("status") == "True":
        return _copied(found[_REPLICA_FAILURE], False)
    if available.get("status") == "False":
        return _copied(available, False)
    if progress.get("status") == "False":
        return _copied(progress, False)
    if progress.get("status") == "True" and progress["reason"] != "NewReplicaSetAvailable":
        return _copied(progress, None)
    return condition("PredictorReady", bool(available or progress))


def _copied(source: JsonObject, holds: bool | None) -> JsonObject:
    return condition("PredictorReady", holds, source.get("reason", ""), source.get("message", ""))


def _model_status(present: JsonObject, pods: Sequence[JsonObject], *, ready: bool) -> JsonObject:
    serving = sum(is_ready(pod) for pod in pods)
    failure = None if ready or not pods else _load_failure(pods[0])
    loaded = ready and bool(pods)
    states = {"activeModelState": (present.get("states") or {}).get("activeModelState", "")}
    if loaded:
        states = {"activeModelState": "Loaded", "targetModelState": "Loaded"}
        transition = "UpToDate"
    elif failure is not None:
        states["targetModelState"] = "FailedToLoad"
        transition = "BlockedByFailedLoad"
    else:
        states["targetModelState"] = "Pending"
        transition = "InProgress"
    made: JsonObject = {
        "copies": {"failedCopies": 0, **({"totalCopies": serving} if serving else {})},
        "states": states,
        "transitionStatus": transition,
    }
    last = failure or present.get("lastFailureInfo")
    return {**made, "lastFailureInfo": last} if last else made


def _load_failure(pod: JsonObject) -> JsonObject | None:
    """Why the first pod's engine does not come up, as far as its container has ended already."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    own: JsonObject = next((one for one in statuses if one["name"] == SERVING_CONTAINER), {})
    state = own.get("state") or {}
    ended = state.get("terminated")
    if (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff":
        ended = (own.get("lastState") or {}).get("terminated")
    elif ended and ended.get("reason") != _ERROR:
        ended = None
    if not ended:
        return None
    info = {"reason": "ModelLoadFailed", "message": ended.get("message", ""), "exitCode": ended.get("exitCode", 0)}
    return {name: value for name, value in info.items() if value}


def _timed(wanted: Sequence[JsonObject], present: Sequence[JsonObject], now: str) -> list[JsonObject]:
    """Knative's conditions: any change of content is a transition."""
    before = {one["type"]: one for one in present}
    result = []
    for one in wanted:
        old = before.get(one["type"], {})
        same = {name: value for name, value in old.items() if name != "lastTransitionTime"} == one
        result.append({**one, "lastTransitionTime": old["lastTransitionTime"] if same else now})
    return result
