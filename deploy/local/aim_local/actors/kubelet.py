"""The kubelets: the life of the pods of our nodes, one task per pod, and the status that is reported."""

import asyncio
import base64
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

import structlog

from aim_local.actors.failures import Ending, Failure, Role, WantedFailure, WantedFailures
from aim_local.actors.objects import condition, is_going, now_text, timed, uid_of
from aim_local.actors.programs import ContainerKey, ContainerLog, ContainerLogs, Execution, role_of, run_program
from aim_local.actors.runtime import Informer, Workers, Writer
from aim_local.actors.settings import ActorSettings
from aim_local.registry.images import PRIVATE_PREFIX, find_image
from controller_runtime import ApiError, Backoff, JsonObject, Key, KubeClient, KubeError
from controller_runtime.kinds import CONFIG_MAP, POD, SECRET

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


def ended_status(pod: JsonObject, now: str, ending: Ending, past: Past = NO_PAST) -> JsonObject:
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


class UnresolvedReferenceError(Exception):
    """A referenced object or key is missing; the text is what the kubelet says."""


async def resolve_environment(client: KubeClient, namespace: str, container: JsonObject) -> dict[str, str]:
    """The variables of a container.

    Raises:
        UnresolvedReferenceError: a reference that is not optional leads nowhere.
    """
    variables: dict[str, str] = {}
    for entry in container.get("env") or ():
        source = entry.get("valueFrom")
        value = await _reference_problem(client, namespace, source) if source else entry.get("value", "")
        if value is not None:
            variables[entry["name"]] = value
    return variables


async def _reference_problem(client: KubeClient, namespace: str, source: JsonObject) -> str | None:
    for member, kind, noun in (("secretKeyRef", SECRET, "secret"), ("configMapKeyRef", CONFIG_MAP, "configmap")):
        reference = source.get(member)
        if reference is None:
            continue
        try:
            found = await client.get(kind, reference["name"], namespace)
        except ApiError as error:
            if not error.is_not_found:
                raise
            found = {}
            missing = f'{noun} "{reference["name"]}" not found'
        else:
            where = f"{noun.capitalize()} {namespace}/{reference['name']}"
            missing = f"couldn't find key {reference['key']} in {where}"
        text = (found.get("data") or {}).get(reference["key"])
        if text is None:
            if reference.get("optional"):
                return None
            raise UnresolvedReferenceError(missing)
        return base64.b64decode(text).decode() if kind is SECRET else str(text)
    return None


def no_such_image(image: str) -> str:
    """The registry does not have the image."""
    found = f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {image}: not found'
    # Only codes that say something are shown; `Unknown`, that of the other errors, is not.
    return f"rpc error: code = NotFound desc = {found}"


def no_access_to_image(image: str) -> str:
    """The registry wants other credentials."""
    return (
        f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": pull access denied, '
        "repository does not exist or may require authorization: authorization failed: no basic auth credentials"
    )


def too_many_pulls(image: str) -> str:
    """The registry has had enough."""
    return (
        f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": unexpected status from '
        f"HEAD request to https://registry-1.docker.io/v2/{_manifest(image)}: 429 Too Many Requests: toomanyrequests: "
        "You have reached your unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit"
    )


def _manifest(image: str) -> str:
    repository, _, tag = image.rpartition(":")
    return f"{repository.removeprefix('docker.io/')}/manifests/{tag}"


PULL_ERRORS: Final[Mapping[Failure, Callable[[str], str]]] = MappingProxyType(
    {
        Failure.IMAGE_PULL: no_such_image,
        Failure.IMAGE_AUTH: no_access_to_image,
        Failure.IMAGE_RATE_LIMIT: too_many_pulls,
    }
)
"""By failure, the text about an image."""


_LONGEST_RETRY: Final = 30.0
_SLOW: Final = 30.0
_CATALOGUE_ROLES: Final = frozenset({Role.DISCOVERY, Role.PREDICTOR})
_UNREADY: Final = frozenset({Failure.NOT_READY, Failure.HANG})


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What the pods of our nodes share."""

    writer: Writer
    settings: ActorSettings
    pods: Informer
    failures: WantedFailures
    logs: ContainerLogs


@final
class PodRun:
    """The life of one pod."""

    def __init__(self, node: NodeContext, key: Key) -> None:
        self._node = node
        self._key = key
        pod = node.pods.get(key)
        assert pod is not None
        self._pod = pod
        self._role = role_of(pod)
        self._attempts = 0

    async def play(self) -> None:
        """Live through it; returns when the pod has ended, never when it is a server."""
        await self._pull()
        env = await self._environment()
        await self._start_slowly()
        await self._start(env)

    @property
    def _wanted(self) -> WantedFailure | None:
        """What should go wrong, as asked for at this moment."""
        return self._node.failures.of_pod(self._node.pods.get(self._key) or self._pod, self._role)

    async def _report(self, status: JsonObject) -> None:
        written = await self._node.writer.status(POD, self._pod, status)
        if written is not None:
            self._pod = written
            self._node.pods.put(written)

    async def _warn(self, reason: str, message: str) -> None:
        await self._node.writer.event(POD, self._pod, reason, message, warning=True)

    async def _back_off(self) -> None:
        """Wait before another try, longer each time; no longer than what went wrong is asked for."""
        self._attempts += 1
        suffered = self._wanted
        backoff = Backoff(base=self._node.settings.retry_delay, cap=_LONGEST_RETRY)
        until = time.monotonic() + backoff.nominal(self._attempts)
        while self._wanted == suffered and (left := until - time.monotonic()) > 0:
            await self._node.failures.wait_changed(left)

    async def _pull(self) -> None:
        images = [container.get("image", "") for container in self._pod["spec"]["containers"]]
        while (problem := self._pull_problem(images)) is not None:
            image, text = problem
            await self._report(waiting(self._pod, now_text(), "ErrImagePull", text))
            await self._warn("Failed", f'Failed to pull image "{image}": {text}')
            await self._warn("Failed", "Error: ErrImagePull")
            await asyncio.sleep(self._node.settings.delay)
            backing_off = f'Back-off pulling image "{image}"'
            await self._report(
                waiting(self._pod, now_text(), "ImagePullBackOff", f"{backing_off}: ErrImagePull: {text}")
            )
            await self._warn("BackOff", backing_off)
            await self._back_off()
        await asyncio.sleep(self._node.settings.delay)

    def _pull_problem(self, images: list[str]) -> tuple[str, str] | None:
        wanted = self._wanted
        if wanted is not None and wanted.failure in PULL_ERRORS:
            return images[0], PULL_ERRORS[wanted.failure](images[0])
        if self._role not in _CATALOGUE_ROLES:
            return None
        for image in images:
            found = find_image(image)
            if found is None:
                return image, no_such_image(image)
            if found.repository.startswith(PRIVATE_PREFIX) and not self._pod["spec"].get("imagePullSecrets"):
                return image, no_access_to_image(image)
        return None

    async def _environment(self) -> dict[str, str]:
        container = self._pod["spec"]["containers"][0]
        while True:
            try:
                return await resolve_environment(self._node.writer.client, self._key.namespace, container)
            except UnresolvedReferenceError as problem:
                await self._report(waiting(self._pod, now_text(), "CreateContainerConfigError", str(problem)))
                await self._warn("Failed", f"Error: {problem}")
                await self._back_off()

    async def _start_slowly(self) -> None:
        """Containers other than servers are slow before they start, servers before they are ready."""
        wanted = self._wanted
        if wanted is not None and wanted.failure is Failure.SLOW_START and self._role is not Role.PREDICTOR:
            await self._report(waiting(self._pod, now_text(), "ContainerCreating"))
            await self._until_other(wanted, time.monotonic() + wanted.seconds(_SLOW))
        await asyncio.sleep(self._node.settings.delay)

    async def _start(self, env: dict[str, str]) -> None:
        """Run the container; again after each end, where the pod's restart policy says so."""
        past = NO_PAST
        while True:
            log = self._node.logs.start(ContainerKey(*self._key, self._pod["spec"]["containers"][0]["name"]))
            await self._report(running(self._pod, now_text(), ready=self._role is not Role.PREDICTOR, past=past))
            try:
                ending = await self._execute(env, log, past)
                log.write(ending.log.encode() if ending else b"")
            finally:
                log.close()
            if ending is None:
                return await self._report(evicted(self._pod, now_text()))
            if not self._restarts_after(ending):
                return await self._report(ended_status(self._pod, now_text(), ending, past))
            past = Past(past.restarts + 1, terminated(self._pod, ending, now_text()))
            await self._report(crash_looping(self._pod, now_text(), past))
            name = self._pod["spec"]["containers"][0]["name"]
            await self._warn("BackOff", f"Back-off restarting failed container {name} in pod {full_name(self._pod)}")
            await self._back_off()

    async def _execute(self, env: dict[str, str], log: ContainerLog, past: Past) -> Ending | None:
        """Run to the end; None if the pod is thrown out."""
        while (wanted := self._wanted) is not None:
            if wanted.failure is Failure.EVICTED:
                return None
            if wanted.ending is not None:
                await asyncio.sleep(self._node.settings.delay)
                return wanted.ending
            if wanted.failure is not Failure.HANG or self._role is Role.PREDICTOR:
                break
            await self._until_other(wanted, None)
        if self._role is Role.PREDICTOR:
            return await self._serve(log, past)
        container = self._pod["spec"]["containers"][0]
        return await run_program(Execution(self._pod, container, self._role, env, log), self._node.settings)

    async def _serve(self, log: ContainerLog, past: Past) -> Ending | None:
        """Be a server: ready unless something is asked for, until an end is."""
        await asyncio.sleep(self._node.settings.delay)
        log.write(b"INFO: Application startup complete.\n")
        started, is_ready = time.monotonic(), False
        while True:
            wanted = self._wanted
            if wanted is not None and wanted.failure is Failure.EVICTED:
                return None
            if wanted is not None and wanted.ending is not None:
                return wanted.ending
            slow = wanted is not None and wanted.failure is Failure.SLOW_START and not is_ready
            left = started + wanted.seconds(_SLOW) - time.monotonic() if wanted and slow else 0.0
            should = left <= 0 and (wanted is None or wanted.failure not in _UNREADY)
            if should is not is_ready:
                is_ready = should
                await self._report(running(self._pod, now_text(), ready=is_ready, past=past))
                # What was asked for while the status was written is not to be missed.
                continue
            await self._node.failures.wait_changed(left if left > 0 else None)

    async def _until_other(self, wanted: WantedFailure, until: float | None) -> None:
        """Wait until something else is asked for, or the time has come."""
        while self._wanted == wanted:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            await self._node.failures.wait_changed(left)

    def _restarts_after(self, ending: Ending) -> bool:
        policy = self._pod["spec"].get("restartPolicy", "Always")
        return policy == "Always" or (policy == "OnFailure" and ending.code != 0)


_log = structlog.get_logger(__name__)
_STOPPED: Final = Ending(143)
"""How a container ends that SIGTERM ends."""
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@final
class Kubelet:
    """Starts a pod when it is bound to one of our nodes, stops it when it goes."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._nodes = frozenset(node.settings.nodes)
        self._runs: dict[Key, tuple[str, asyncio.Task[None]]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.workers = Workers("kubelet", self._handle)
        node.pods.listen(self._on_pod)

    def _on_pod(self, key: Key, pod: JsonObject) -> None:
        """Reports of our own are no news: a pod concerns the kubelet when it comes, goes or is replaced."""
        run = self._runs.get(key)
        gone = self._node.pods.get(key) is None or is_going(pod)
        known = run is not None and run[0] == uid_of(pod)
        if gone or (not known and pod["spec"].get("nodeName") in self._nodes):
            self.workers.add(key)

    async def run(self) -> None:
        """Run pods until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            await self.workers.run()

    async def _handle(self, key: Key) -> None:
        pod = self._node.pods.get(key)
        run = self._runs.get(key)
        if run is not None and (pod is None or is_going(pod) or uid_of(pod) != run[0]):
            run[1].cancel()
            await asyncio.wait((run[1],))
            self._runs.pop(key, None)
            self._node.logs.drop_pod(*key)
        if pod is None or pod["spec"].get("nodeName") not in self._nodes:
            return
        if is_going(pod):
            await self._confirm_end(pod)
        elif key not in self._runs and _phase(pod) not in _ENDED:
            assert self._group is not None
            self._runs[key] = (uid_of(pod), self._group.create_task(self._play(key), name=f"pod {key}"))

    async def _confirm_end(self, pod: JsonObject) -> None:
        """Pods that were given time to end are gone when the kubelet says that they have."""
        if _phase(pod) not in _ENDED:
            await self._node.writer.status(POD, pod, ended_status(pod, now_text(), _STOPPED))
        await self._node.writer.remove_ended(pod)

    async def _play(self, key: Key) -> None:
        while True:
            try:
                return await PodRun(self._node, key).play()
            except KubeError as error:
                _log.info("pod failed; retrying", pod=str(key), error=str(error))
                await asyncio.sleep(self._node.settings.retry_delay)


def _phase(pod: JsonObject) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")
