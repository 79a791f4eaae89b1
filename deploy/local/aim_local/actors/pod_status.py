"""The status of a pod in each moment of its life, as the kubelet writes it. Pure functions."""

import zlib
from dataclasses import dataclass
from typing import Final

from aim_local.actors.failures import Ending
from aim_local.actors.objects import condition, timed
from controller_runtime import Backoff, JsonObject

_HOST_IP: Final = "127.0.0.1"
_BACK_OFF: Final = Backoff(base=10, cap=300)


@dataclass(frozen=True, slots=True)
class Past:
    """History of a container: restarts so far, and how it ended last, if it did."""

    restarts: int = 0
    last: JsonObject | None = None


NO_PAST: Final = Past()


def waiting(pod: JsonObject, now: str, reason: str, message: str = "") -> JsonObject:
    """Pending on the node: containers wait for a reason such as `ContainerCreating` or `ErrImagePull`."""
    state: JsonObject = {"reason": reason}
    if message:
        state["message"] = message
    containers = [_container(one, {"waiting": state}) for one in pod["spec"]["containers"]]
    return _status(pod, now, "Pending", ready=False, containers=containers)


def unschedulable(pod: JsonObject, now: str, message: str) -> JsonObject:
    """Pending without a node."""
    wanted = [condition("PodScheduled", False, "Unschedulable", message)]
    return {"phase": "Pending", "conditions": timed(wanted, _conditions(pod), now)}


def running(pod: JsonObject, now: str, *, ready: bool, past: Past = NO_PAST) -> JsonObject:
    """The containers run."""
    since = _running_since(pod, past) or now
    containers = [
        _container(one, {"running": {"startedAt": since}}, ready=ready, past=past) for one in pod["spec"]["containers"]
    ]
    return _status(pod, now, "Running", ready=ready, containers=containers)


def ended(pod: JsonObject, now: str, ending: Ending, past: Past = NO_PAST) -> JsonObject:
    """The containers ended and are not started again."""
    phase = "Failed" if ending.code else "Succeeded"
    state = {"terminated": terminated(pod, ending, now)}
    containers = [_container(one, state, past=past) for one in pod["spec"]["containers"]]
    return _status(pod, now, phase, ready=False, containers=containers)


def crash_looping(pod: JsonObject, now: str, past: Past) -> JsonObject:
    """The containers ended and wait to be started again."""
    containers = [
        _container(one, {"waiting": {"reason": "CrashLoopBackOff", "message": back_off(pod, past.restarts)}}, past=past)
        for one in pod["spec"]["containers"]
    ]
    return _status(pod, now, "Running", ready=False, containers=containers)


def back_off(pod: JsonObject, restarts: int) -> str:
    """What the kubelet says while it waits; the seconds are the real one's, however short we wait."""
    seconds = round(_BACK_OFF.nominal(max(restarts, 1)))
    shown = f"{seconds // 60}m{seconds % 60}s" if seconds >= 60 else f"{seconds}s"
    return f"back-off {shown} restarting failed container={pod['spec']['containers'][0]['name']} pod={full_name(pod)}"


def full_name(pod: JsonObject) -> str:
    """A pod as the kubelet names it in messages."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"


def evicted(pod: JsonObject, now: str) -> JsonObject:
    """Thrown out by the kubelet."""
    disrupted = condition("DisruptionTarget", True, "TerminationByKubelet", _LOW)
    status = _status(pod, now, "Failed", ready=False, containers=[], extra=(disrupted,))
    return {**status, "reason": "Evicted", "message": _LOW}


_LOW: Final = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 81Mi. "


def terminated(pod: JsonObject, ending: Ending, now: str) -> JsonObject:
    """The state of a container that has ended."""
    reason = ending.reason or ("Error" if ending.code else "Completed")
    began = _running_since(pod, NO_PAST) or now
    state: JsonObject = {"exitCode": ending.code, "reason": reason, "startedAt": began, "finishedAt": now}
    if ending.message:
        state["message"] = ending.message
    return state


def _running_since(pod: JsonObject, past: Past) -> str:
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        if "running" in (one.get("state") or {}) and one.get("restartCount", 0) >= past.restarts:
            return str(one["state"]["running"].get("startedAt", ""))
    return ""


def _container(spec: JsonObject, state: JsonObject, *, ready: bool = False, past: Past = NO_PAST) -> JsonObject:
    return {
        "name": spec["name"],
        "image": spec.get("image", ""),
        "imageID": spec.get("image", "") if "waiting" not in state or past.restarts else "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": past.restarts,
        "state": state,
        "lastState": {"terminated": past.last} if past.last else {},
    }


def pod_ip(pod: JsonObject) -> str:
    """An address of the pod's own that nothing answers at; a loopback address would be refused in Endpoints."""
    number = zlib.crc32(str(pod["metadata"]["uid"]).encode())
    return f"10.244.{number >> 8 & 0xFF}.{number & 0xFF}"


def _status(
    pod: JsonObject,
    now: str,
    phase: str,
    *,
    ready: bool,
    containers: list[JsonObject],
    extra: tuple[JsonObject, ...] = (),
) -> JsonObject:
    unready: tuple[str, str] = ("", "")
    if not ready:
        done = phase == "Succeeded"
        names = " ".join(one["name"] for one in pod["spec"]["containers"])
        unready = ("PodCompleted", "") if done else ("ContainersNotReady", f"containers with unready status: [{names}]")
    wanted = [
        *extra,
        condition("PodReadyToStartContainers", phase in ("Running", "Pending")),
        condition("Initialized", True, unready[0] if phase == "Succeeded" else ""),
        condition("Ready", ready, *unready),
        condition("ContainersReady", ready, *unready),
        condition("PodScheduled", True),
    ]
    initial = [
        _container(one, {"terminated": terminated(pod, Ending(), now)}, ready=True)
        for one in pod["spec"].get("initContainers") or ()
    ]
    return {
        "phase": phase,
        "hostIP": _HOST_IP,
        "hostIPs": [{"ip": _HOST_IP}],
        "podIP": pod_ip(pod),
        "podIPs": [{"ip": pod_ip(pod)}],
        "qosClass": (pod.get("status") or {}).get("qosClass") or "BestEffort",
        "startTime": (pod.get("status") or {}).get("startTime") or now,
        "conditions": timed(wanted, _conditions(pod), now),
        "containerStatuses": containers,
        **({"initContainerStatuses": initial} if initial else {}),
    }


def _conditions(pod: JsonObject) -> list[JsonObject]:
    return (pod.get("status") or {}).get("conditions") or []
