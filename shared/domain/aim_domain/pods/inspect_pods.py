"""Health of a workload's pods (FW-140…FW-157).

Logs and pod events are read by effects of the service that owns the workload. They enter here as functions over
facts; what they do not know yet they answer with nothing, and the classification goes on without it (FW-146).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, TypeAlias

from aim_domain.pods.log_patterns import LogGroup, excerpt, match_log
from controller_runtime import (
    Category,
    ClassifiedError,
    Component,
    ConditionStatus,
    PodPhase,
    State,
    find_condition,
)
from controller_runtime.core import ContainerStatus, Event, Pod
from oci_registry import RegistryErrorCategory, category_of_text

LogOf: TypeAlias = Callable[["LogRequest"], str | None]
"""The log tail of a container, credentials masked; ``None`` while it is not known."""
EventsOf: TypeAlias = Callable[[Pod], Sequence[Event]]
"""The pod's Kubernetes Events; empty while they are not known."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """A container log that a classification can use (FW-146, FW-157)."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    previous: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed pod says about itself; ``container`` is empty where no container is to blame (FW-145)."""

    container: str
    exit_code: int
    reason: str
    message: str


IMAGE_PULL_REASONS: Final = frozenset({"ImagePullBackOff", "ErrImagePull"})
"""Waiting reasons that mean the image cannot be pulled (FW-143)."""
CREATION_REASONS: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "InvalidImageName", "ErrImageNeverPull"}
)
"""Waiting reasons that mean the container cannot be made as specified (FW-144)."""
CRASH_LOOP: Final = "CrashLoopBackOff"
NODE_NOT_READY: Final = "NodeNotReady"
"""What Kubernetes calls the Event of a pod whose node is lost."""
OOM_KILLED: Final = "OOMKilled"

_PULL_ERRORS: Final[Mapping[RegistryErrorCategory, tuple[Category, str]]] = MappingProxyType(
    {
        RegistryErrorCategory.AUTH: (Category.AUTH, "ImagePullAuthFailure"),
        RegistryErrorCategory.NOT_FOUND: (Category.MISSING_UPSTREAM, "ImageNotFound"),
        RegistryErrorCategory.GENERIC: (Category.INFRASTRUCTURE, "ImagePullBackOff"),
    }
)
_LOG_ERRORS: Final[Mapping[LogGroup, tuple[Category, str]]] = MappingProxyType(
    {
        LogGroup.SOURCE_NOT_FOUND: (Category.INVALID_SPEC, "SourceNotFound"),
        LogGroup.AUTH: (Category.AUTH, "AuthError"),
        LogGroup.STORAGE_FULL: (Category.RESOURCE_EXHAUSTION, "StorageFull"),
        LogGroup.CLUSTER_PERMISSIONS: (Category.INFRASTRUCTURE, "PodInfrastructureError"),
    }
)
_TERMINATION_ERRORS: Final[Mapping[str, tuple[Category, str]]] = MappingProxyType(
    {
        OOM_KILLED: (Category.RESOURCE_EXHAUSTION, "PodOOMKilled"),
        "DeadlineExceeded": (Category.INVALID_SPEC, "PodDeadlineExceeded"),
        "Evicted": (Category.INFRASTRUCTURE, "PodEvicted"),
    }
)
_POD_FAILED: Final = (Category.INVALID_SPEC, "PodFailed")
_SCHEDULING_PROBLEMS: Final = frozenset(
    {"FailedScheduling", "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"}
)
_STEPS_FORWARD: Final = frozenset({"Scheduled", "Pulling"})
_ENDED: Final = frozenset({PodPhase.FAILED, PodPhase.SUCCEEDED})
_REPLICA_SET: Final = "ReplicaSet"
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)


def no_log(_: LogRequest) -> str | None:
    """For callers that read no logs."""
    return None


def no_events(_: Pod) -> Sequence[Event]:
    """For callers that read no pod events."""
    return ()


def inspect_pods(
    name: str,
    pods: Sequence[Pod],
    *,
    log_of: LogOf = no_log,
    events_of: EventsOf = no_events,
    of_job: bool = False,
) -> Component:
    """Component of a workload's pods, in the order of FW-141.

    Args:
        of_job: the pods are attempts of one Job, of which the newest decides (FW-145).
    """
    considered = _considered(pods, of_job=of_job)
    if not considered:
        missing = ClassifiedError(Category.MISSING_DOWNSTREAM, "NoPods", "no pod exists yet")
        return Component(name, errors=(missing,))
    error = _first_error(considered, log_of)
    if error is not None:
        return Component(name, errors=(error,))
    return _readiness(name, considered, log_of, events_of)


def _considered(pods: Sequence[Pod], *, of_job: bool) -> Sequence[Pod]:
    """Pods that count: one that was asked to end is no failure, nor is one that was replaced (FW-141)."""
    staying = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    if of_job:
        return newest_pod(staying)
    latest = max((_created(pod) for pod in staying if pod.status.phase not in _ENDED), default=None)
    return [pod for pod in staying if not _is_left_over(pod, latest)]


def _is_left_over(pod: Pod, latest: datetime | None) -> bool:
    """Whether a pod has ended that a ReplicaSet replaces, as an evicted one: its object stays for hours.

    A pod that ends well on SIGTERM has Succeeded even so, but serves nothing any more. A failed one counts until a pod
    has come in its place.

    Args:
        latest: when the newest pod that has not ended was created.
    """
    if not any(owner.controller and owner.kind == _REPLICA_SET for owner in pod.metadata.owner_references):
        return False
    if pod.status.phase == PodPhase.FAILED:
        return latest is not None and _created(pod) <= latest
    return pod.status.phase == PodPhase.SUCCEEDED


def newest_pod(pods: Sequence[Pod]) -> Sequence[Pod]:
    """The newest pod by creation time alone in a list; empty without pods."""
    newest = max(pods, key=lambda pod: (_created(pod), pod.name), default=None)
    return [] if newest is None else [newest]


def _created(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or _OLDEST


def wanted_logs(pods: Sequence[Pod], *, of_job: bool = False) -> tuple[LogRequest, ...]:
    """Logs that would sharpen the classification: of failed and of crashing containers (FW-146, FW-157)."""
    return tuple(request for pod in _considered(pods, of_job=of_job) for request in _wanted_logs(pod))


def _wanted_logs(pod: Pod) -> Iterator[LogRequest]:
    if pod.status.phase == PodPhase.FAILED:
        failure = failure_of(pod)
        if failure.container and failure.reason != OOM_KILLED:
            yield _log_request(pod, failure.container, previous=False)
    for status in _waiting(pod, {CRASH_LOOP}):
        yield _log_request(pod, status.name, previous=True)


def pods_wanting_events(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """Pending pods, whose events tell what they wait for (FW-155)."""
    return tuple(pod for pod in pods if pod.status.phase == PodPhase.PENDING)


# Problems


def _first_error(pods: Sequence[Pod], log_of: LogOf) -> ClassifiedError | None:
    checks: tuple[Callable[[Pod], ClassifiedError | None], ...] = (
        image_pull_error,
        creation_error,
        lambda pod: failed_pod_error(pod, log_of),
    )
    found = (check(pod) for check in checks for pod in pods)
    return next((error for error in found if error is not None), None)


def image_pull_error(pod: Pod) -> ClassifiedError | None:
    """The error of a container whose image cannot be pulled (FW-143)."""
    status = next(_waiting(pod, IMAGE_PULL_REASONS), None)
    if status is None or status.state.waiting is None:
        return None
    text = status.state.waiting.message
    category, reason = _PULL_ERRORS[category_of_text(text)]
    return ClassifiedError(category, reason, f"container {status.name} of pod {pod.key} cannot pull its image: {text}")


def creation_error(pod: Pod) -> ClassifiedError | None:
    """The error of a container that cannot be made as specified (FW-144)."""
    status = next(_waiting(pod, CREATION_REASONS), None)
    if status is None or status.state.waiting is None:
        return None
    waiting = status.state.waiting
    message = f"container {status.name} of pod {pod.key} cannot be created: {waiting.message or waiting.reason}"
    return ClassifiedError(Category.INVALID_SPEC, waiting.reason, message)


def failed_pod_error(pod: Pod, log_of: LogOf = no_log) -> ClassifiedError | None:
    """Why a failed pod failed (FW-145…FW-149); ``None`` for pods in other phases."""
    if pod.status.phase != PodPhase.FAILED:
        return None
    failure = failure_of(pod)
    readable = failure.container and failure.reason != OOM_KILLED
    tail = log_of(_log_request(pod, failure.container, previous=False)) if readable else None
    return classify_failure(failure, tail, what=f"pod {pod.key}")


def failure_of(pod: Pod) -> Failure:
    """The container to blame: the first that ended with a non-zero code, regular ones first (FW-145)."""
    for status in _statuses(pod):
        ended = status.state.terminated
        if ended is not None and ended.exit_code != 0:
            return Failure(status.name, ended.exit_code, ended.reason, ended.message)
    return Failure("", 0, pod.status.reason, pod.status.message)


def classify_failure(failure: Failure, log_tail: str | None, *, what: str) -> ClassifiedError:
    """Error of a failed container: by its log, else by its termination reason (FW-147…FW-149)."""
    message = _failure_message(failure, what)
    match = match_log(log_tail) if log_tail else None
    if match is not None:
        category, reason = _LOG_ERRORS[match.group]
        return ClassifiedError(category, reason, f"{message}: {match.line}")
    category, reason = _TERMINATION_ERRORS.get(failure.reason, _POD_FAILED)
    quoted = excerpt(log_tail) if log_tail else failure.message.strip()
    return ClassifiedError(category, reason, f"{message}: {quoted}" if quoted else message)


def _failure_message(failure: Failure, what: str) -> str:
    why = f" ({failure.reason})" if failure.reason else ""
    if failure.container:
        return f"container {failure.container} of {what} exited with code {failure.exit_code}{why}"
    return f"{what} failed{why}"


def _log_request(pod: Pod, container: str, *, previous: bool) -> LogRequest:
    return LogRequest(pod.namespace, pod.name, pod.uid, container, previous)


def _statuses(pod: Pod) -> Iterable[ContainerStatus]:
    """Container statuses, regular ones before init ones (FW-143, FW-145)."""
    return (*pod.status.container_statuses, *pod.status.init_container_statuses)


def _waiting(pod: Pod, reasons: Iterable[str]) -> Iterator[ContainerStatus]:
    wanted = frozenset(reasons)
    return (
        status
        for status in _statuses(pod)
        if status.state.waiting is not None and status.state.waiting.reason in wanted
    )


# Readiness


def is_pod_ready(pod: Pod) -> bool:
    """Succeeded, or running and ready (FW-153)."""
    if pod.status.phase == PodPhase.SUCCEEDED:
        return True
    ready = find_condition(pod.status.conditions, "Ready")
    holds = ready is not None and ready.status == ConditionStatus.TRUE
    return pod.status.phase == PodPhase.RUNNING and holds


def is_forsaken(pod: Pod) -> bool:
    """Whether the pod's node has stopped reporting (FW-860).

    A kubelet never writes a pod that is not ready while all its containers are, without a reason: Kubernetes takes the
    one condition away from the pods of a node that is lost.
    """
    ready, containers = (find_condition(pod.status.conditions, name) for name in ("Ready", "ContainersReady"))
    if ready is None or containers is None or pod.status.phase != PodPhase.RUNNING:
        return False
    return ready.status != ConditionStatus.TRUE and not ready.reason and containers.status == ConditionStatus.TRUE


def is_unschedulable(pod: Pod) -> bool:
    """Whether the scheduler has found no node for the pod."""
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    return scheduled is not None and scheduled.status == ConditionStatus.FALSE and scheduled.reason == "Unschedulable"


def quiet_since(pod: Pod) -> datetime | None:
    """Since when a new pod gives no reason to speak of it; ``None`` = it gives one.

    When the scheduler has given up already, its Event tells why.
    """
    return None if is_unschedulable(pod) else pod.metadata.creation_timestamp


def _readiness(name: str, pods: Sequence[Pod], log_of: LogOf, events_of: EventsOf) -> Component:
    if any(is_pod_ready(pod) for pod in pods):
        return _observed(name, State.READY, "PodsReady", "at least one pod is ready")
    crashing = next((pod for pod in pods if any(_waiting(pod, {CRASH_LOOP}))), None)
    if crashing is not None:
        return _crash_loop(name, crashing, log_of)
    running = next((pod for pod in pods if pod.status.phase == PodPhase.RUNNING and not is_forsaken(pod)), None)
    if running is not None:
        return _observed(name, State.STARTING, "PodsStarting", f"pod {running.key} is running but not ready")
    pending = pods_wanting_events(pods)
    if pending:
        explained = (_explained_by_events(name, pod, events_of(pod)) for pod in pending)
        waiting = _observed(name, State.PENDING, "PodsPending", f"pod {pending[0].key} is pending")
        return next((component for component in explained if component is not None), waiting)
    forsaken = next(filter(is_forsaken, pods), None)
    if forsaken is not None:
        return _observed(name, State.DEGRADED, NODE_NOT_READY, _forsaken_message(forsaken))
    return _observed(name, State.PROGRESSING, "PodsProgressing", f"pod {pods[0].key} is {pods[0].status.phase}")


def _forsaken_message(pod: Pod) -> str:
    node = pod.spec.node_name
    return (
        f"pod {pod.key} unreachable: its node {node} has stopped reporting; Kubernetes replaces the pod when it no "
        f"longer tolerates that, after 5 minutes by default; see `kubectl describe node {node}`"
    )


def _observed(name: str, state: State, reason: str, message: str) -> Component:
    return Component(name, state, reason, message)


def _crash_loop(name: str, pod: Pod, log_of: LogOf) -> Component:
    """A container that keeps crashing: classified by its previous log, else merely degraded (FW-157)."""
    status = next(_waiting(pod, {CRASH_LOOP}))
    ended = status.last_state.terminated
    code = "unknown" if ended is None else str(ended.exit_code)
    why = f" ({ended.reason})" if ended is not None and ended.reason else ""
    message = (
        f"container {status.name} of pod {pod.key} keeps crashing: {status.restart_count} restarts, "
        f"last exit code {code}{why}"
    )
    tail = log_of(_log_request(pod, status.name, previous=True))
    match = match_log(tail) if tail else None
    if match is None:
        return _observed(name, State.DEGRADED, CRASH_LOOP, message)
    category, reason = _LOG_ERRORS[match.group]
    error = ClassifiedError(category, reason, f"{message}: {match.line}")
    return Component(name, errors=(error,))


def _explained_by_events(name: str, pod: Pod, events: Sequence[Event]) -> Component | None:
    """What a pending pod waits for (FW-155)."""
    own = [event for event in events if event.involved_object.uid == pod.uid and event.last_seen is not None]
    reached = max((_last_seen(event) for event in own if event.reason in _STEPS_FORWARD), default=None)
    recent = [event for event in own if reached is None or _last_seen(event) >= reached]
    problem = _latest(recent, _SCHEDULING_PROBLEMS)
    if problem is not None:
        return _observed(name, State.PENDING, problem.reason, problem.message)
    pulling = _latest(recent, {"Pulling"})
    if pulling is None:
        return None
    return _observed(name, State.PROGRESSING, pulling.reason, pulling.message)


def _last_seen(event: Event) -> datetime:
    assert event.last_seen is not None
    return event.last_seen


def _latest(events: Iterable[Event], reasons: Iterable[str]) -> Event | None:
    wanted = frozenset(reasons)
    return max((event for event in events if event.reason in wanted), key=_last_seen, default=None)


def pod_predicate(pod: Pod) -> tuple[object, ...]:
    """Which changes of a pod concern the owner of the workload (FW-170)."""
    status = pod.status
    return (
        pod.deleting,
        status.phase,
        is_pod_ready(pod),
        _waiting_reasons(status.container_statuses),
        _waiting_reasons(status.init_container_statuses),
        is_unschedulable(pod),
    )


def _waiting_reasons(statuses: Iterable[ContainerStatus]) -> tuple[str, ...]:
    return tuple(status.state.waiting.reason if status.state.waiting else "" for status in statuses)
