"""Whether the InferenceService and its pods work, and the steps of a pod that starts (serving.md section 11)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from aim_domain import InferenceService
from aim_domain.component_names import ComponentName
from controller_runtime import (
    BRIEFLY,
    ERROR_STATES,
    Category,
    ClassifiedError,
    Component,
    Condition,
    ConditionStatus,
    EventType,
    State,
    find_condition,
)
from controller_runtime.core import Event, Pod

CREATING: Final = "CreatingRuntime"
_NO_KNATIVE: Final = "ServerlessModeRejected"
_INTERNAL: Final = "InternalError"
_CONFLICTS: Final = ("the object has been modified", "operation cannot be fulfilled")
_MEANWHILE_GONE: Final = re.compile(
    r"(scaledobjects\.keda\.sh|opentelemetrycollectors\.opentelemetry\.io) \"[^\"]*\" not found"
)
"""What serving removes when the autoscaler changes (SV-272); KServe, which was just writing it, tries again."""
_LEAST_SILENCE: Final = timedelta(seconds=60)
_MOST_SILENCE: Final = timedelta(seconds=1300)
"""KServe waits at most 1,000 s for a retry, and an Event may be withheld for five minutes."""
_LIMITS_NOT_BLANKED: Final = "must be less than or equal to cpu limit"
_CRD_MISSING: Final = "no matches for kind"
_HINTS: Final = (
    (_LIMITS_NOT_BLANKED, "blank KServe's default container limits and requests"),
    (_CRD_MISSING, "restart KServe after KEDA and the OpenTelemetry operator are installed"),
)


def absent_workload(name: str, *, being_created: bool) -> Component:
    """Nothing is there yet (SV-190), or only just."""
    words = "is not ready yet" if being_created else "does not exist yet; it is created once the cache is ready"
    return _component(State.PROGRESSING, CREATING, f"InferenceService {name} {words}")


def left_workload(workload: InferenceService) -> Component:
    """Garbage collection is about to remove it, then the service's own can be made (SV-146)."""
    return _component(
        State.PROGRESSING, CREATING, f"InferenceService {workload.name} of an earlier AIMService is still there"
    )


def unreadable_workload(error: ClassifiedError) -> Component:
    """It is not known whether it exists: nothing may be applied (SV-191)."""
    return _component(State.FAILED, "FetchError", error.message, error)


def invalid_workload(error: ClassifiedError) -> Component:
    """The service asks for an InferenceService that cannot be (SV-145, SV-146, SV-186…SV-189)."""
    return _component(State.FAILED, error.reason, error.message, error)


def occupied(workload: InferenceService, service_uid: str) -> ClassifiedError | None:
    """The error of an InferenceService with another controller (SV-146)."""
    owners = workload.metadata.owner_references
    controller = next((owner for owner in owners if owner.controller and owner.uid != service_uid), None)
    if controller is None:
        return None
    return ClassifiedError(
        Category.INVALID_SPEC,
        "AlreadyExists",
        f"InferenceService {workload.key} exists and is controlled by {controller.kind} {controller.name}; "
        "rename the AIMService or delete that object",
    )


def workload_component(workload: InferenceService, events: Sequence[Event], now: datetime) -> Component:
    """How it is doing, by its Events and its condition ``Ready``; never an error category (SV-197)."""
    own = [event for event in events if event.involved_object.uid == workload.uid]
    if any(event.reason == _NO_KNATIVE for event in own):
        message = "KServe rejected the InferenceService: Knative is missing; run KServe in raw (Standard) mode"
        return _component(State.FAILED, _NO_KNATIVE, message)
    ready = _ready(workload)
    trouble = _latest_trouble(own, ready, now)
    if trouble is not None:
        return _component(State.FAILED, _INTERNAL, _with_hint(trouble.message))
    if ready is not None:
        return _component(State.READY, "RuntimeReady", f"InferenceService {workload.name} is ready")
    return _component(State.PROGRESSING, CREATING, f"InferenceService {workload.name} is not ready yet")


def trouble_ends(workload: InferenceService, events: Sequence[Event], now: datetime) -> datetime | None:
    """When a Warning stops counting unless KServe repeats it; ``None`` where there is none, or it has to be healed."""
    ready = _ready(workload)
    trouble = _latest_trouble([one for one in events if one.involved_object.uid == workload.uid], ready, now)
    return None if ready is None or trouble is None else _over(trouble)


def _ready(workload: InferenceService) -> Condition | None:
    """The condition, while it is True."""
    ready = find_condition(workload.status.conditions, "Ready")
    return ready if ready is not None and ready.status is ConditionStatus.TRUE else None


def _latest_trouble(events: Iterable[Event], ready: Condition | None, now: datetime) -> Event | None:
    """The newest Warning that counts; one that the workload has outlived does not (SV-193, SV-195)."""
    counted = [event for event in events if _is_trouble(event) and not (ready and _is_outlived(event, ready, now))]
    return max(counted, key=lambda event: str(event.last_seen or ""), default=None)


def _is_outlived(event: Event, ready: Condition, now: datetime) -> bool:
    over = _over(event)
    return _is_before(event.last_seen, ready.last_transition_time) or (over is not None and over <= now)


def _over(event: Event) -> datetime | None:
    """A failed retry is reported again, and retries wait at most as long as all of them have lasted (SV-195)."""
    last = event.last_seen
    if last is None:
        return None
    lasted = last - (event.first_timestamp or last)
    return last + min(max(2 * lasted, _LEAST_SILENCE), _MOST_SILENCE)


def is_informative(event: Event) -> bool:
    """Whether an Event can have a say in how a workload is doing; most Warnings cannot (SV-193)."""
    return event.reason == _NO_KNATIVE or _is_trouble(event)


def _is_trouble(event: Event) -> bool:
    text = event.message.lower()
    return (
        event.type is EventType.WARNING
        and event.reason == _INTERNAL
        and not any(conflict in text for conflict in _CONFLICTS)
        and _MEANWHILE_GONE.search(text) is None
    )


def _is_before(moment: datetime | None, healed: datetime | None) -> bool:
    return healed is not None and (moment is None or moment < healed)


def _with_hint(message: str) -> str:
    hint = next((advice for pattern, advice in _HINTS if pattern in message), None)
    return f"{message} ({hint})" if hint else message


def _component(state: State, reason: str, message: str, error: ClassifiedError | None = None) -> Component:
    return Component(
        ComponentName.INFERENCE_SERVICE,
        state,
        reason,
        message,
        () if error is None else (error,),
        is_input=error is not None,
    )


_EARLIER: Final[Mapping[str, State]] = MappingProxyType(
    {
        "NoPods": State.PROGRESSING,
        "PodsPending": State.PENDING,
        "PodsStarting": State.STARTING,
    }
)
"""Steps of the same start that may stand for another moment."""


@dataclass(frozen=True, slots=True)
class Explained:
    """Whether everything has been read that may give the state of the pods another reason."""

    events: bool
    logs: bool

    def explain(self, state: State) -> bool:
        """Whether this state is known with its reason."""
        return self.events if state is State.PENDING else self.logs or state not in ERROR_STATES


def held_back(component: Component, pods: Sequence[Pod], explained: Explained, *, workload_ready: bool) -> Component:
    """The component of the pods, held if it is a step that will be overtaken or has still to be explained."""
    if not explained.explain(component.effective_state):
        return component.hold_until_known(over=_EARLIER)
    since = _since(component.effective_reason, pods, workload_ready=workload_ready)
    return component if since is None else component.hold_for(BRIEFLY, since=since, over=_EARLIER)


def _since(reason: str, pods: Sequence[Pod], *, workload_ready: bool) -> datetime | None:
    if reason == "PodsStarting":
        return _latest(_starts(pods))
    if reason == "PodsReady" and not workload_ready:
        return _latest(_readiness(pods))
    return None


def _starts(pods: Iterable[Pod]) -> list[datetime | None]:
    statuses = (status for pod in pods for status in pod.status.container_statuses)
    return [status.state.running.started_at for status in statuses if status.state.running is not None]


def _readiness(pods: Iterable[Pod]) -> list[datetime | None]:
    found = (find_condition(pod.status.conditions, "Ready") for pod in pods)
    return [one.last_transition_time for one in found if one is not None and one.status is ConditionStatus.TRUE]


def _latest(moments: Iterable[datetime | None]) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)
