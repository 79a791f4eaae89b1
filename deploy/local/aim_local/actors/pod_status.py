"""The status of a pod in each moment of its life, as the kubelet writes it. Pure functions."""

from typing import Final

from aim_local.actors.failures import Ending
from aim_local.actors.objects import condition, timed
from aim_shared.json import JsonObject

UNSCHEDULABLE: Final = "0/1 nodes are available: 1 Insufficient amd.com/gpu."
_POD_IP: Final = "127.0.0.1"


def waiting(pod: JsonObject, now: str, reason: str, message: str = "") -> JsonObject:
    """Pending on the node: containers wait for a reason such as `ContainerCreating` or `ErrImagePull`."""
    state: JsonObject = {"reason": reason}
    if message:
        state["message"] = message
    containers = [_container(one, {"waiting": state}) for one in pod["spec"]["containers"]]
    return _status(pod, now, "Pending", ready=False, containers=containers)


def unschedulable(pod: JsonObject, now: str) -> JsonObject:
    """Pending without a node."""
    wanted = [condition("PodScheduled", False, "Unschedulable", UNSCHEDULABLE)]
    return {"phase": "Pending", "conditions": timed(wanted, _conditions(pod), now)}


def running(pod: JsonObject, now: str, *, ready: bool, restarts: int = 0) -> JsonObject:
    """The containers run."""
    containers = [
        _container(one, {"running": {"startedAt": now}}, ready=ready, restarts=restarts)
        for one in pod["spec"]["containers"]
    ]
    return _status(pod, now, "Running", ready=ready, containers=containers)


def ended(pod: JsonObject, now: str, ending: Ending) -> JsonObject:
    """The containers ended and are not started again."""
    phase = "Failed" if ending.code else "Succeeded"
    containers = [_container(one, {"terminated": _terminated(ending, now)}) for one in pod["spec"]["containers"]]
    return _status(pod, now, phase, ready=False, containers=containers)


def crash_looping(pod: JsonObject, now: str, ending: Ending, restarts: int) -> JsonObject:
    """The containers ended and wait to be started again."""
    name = pod["metadata"]["name"]
    message = f"back-off 10s restarting failed container={pod['spec']['containers'][0]['name']} pod={name}"
    containers = []
    for one in pod["spec"]["containers"]:
        made = _container(one, {"waiting": {"reason": "CrashLoopBackOff", "message": message}}, restarts=restarts)
        made["lastState"] = {"terminated": _terminated(ending, now)}
        containers.append(made)
    return _status(pod, now, "Running", ready=False, containers=containers)


def evicted(pod: JsonObject, now: str) -> JsonObject:
    """Thrown out by the kubelet."""
    message = "The node was low on resource: memory."
    status = _status(pod, now, "Failed", ready=False, containers=[])
    return {**status, "reason": "Evicted", "message": message}


def _terminated(ending: Ending, now: str) -> JsonObject:
    reason = ending.reason or ("Error" if ending.code else "Completed")
    state: JsonObject = {"exitCode": ending.code, "reason": reason, "startedAt": now, "finishedAt": now}
    if ending.message:
        state["message"] = ending.message
    return state


def _container(spec: JsonObject, state: JsonObject, *, ready: bool = False, restarts: int = 0) -> JsonObject:
    return {
        "name": spec["name"],
        "image": spec.get("image", ""),
        "imageID": spec.get("image", "") if "waiting" not in state else "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
    }


def _status(pod: JsonObject, now: str, phase: str, *, ready: bool, containers: list[JsonObject]) -> JsonObject:
    unready: tuple[str, str] = ("", "")
    if not ready:
        done = phase == "Succeeded"
        names = " ".join(one["name"] for one in pod["spec"]["containers"])
        unready = ("PodCompleted", "") if done else ("ContainersNotReady", f"containers with unready status: [{names}]")
    wanted = [
        condition("PodReadyToStartContainers", True),
        condition("Initialized", True),
        condition("Ready", ready, *unready),
        condition("ContainersReady", ready, *unready),
        condition("PodScheduled", True),
    ]
    return {
        "phase": phase,
        "hostIP": _POD_IP,
        "podIP": _POD_IP,
        "podIPs": [{"ip": _POD_IP}],
        "qosClass": "BestEffort",
        "startTime": (pod.get("status") or {}).get("startTime") or now,
        "conditions": timed(wanted, _conditions(pod), now),
        "containerStatuses": containers,
    }


def _conditions(pod: JsonObject) -> list[JsonObject]:
    return (pod.get("status") or {}).get("conditions") or []
