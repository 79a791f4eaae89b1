"""The running workload as a pass sees it: InferenceService, Events, pods, autoscaler (serving.md section 11)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from aim_domain import AIMService, InferenceService, PodFacts, inspect_pods, wanted_logs
from aim_domain.component_names import ComponentName
from aim_domain.kinds import AIM_SERVICE
from aim_domain.naming import NamingError, inference_service_name
from aim_domain.parts import AUTOSCALERS, INFERENCE_SERVICES
from aim_serving import SERVICE_NAME
from aim_serving.autoscaling import (
    SCALED_TO_ZERO,
    WAITING_FOR_METRICS,
    autoscaler_component,
    keda_event,
    left_at_zero,
    metrics_due,
    reading,
)
from aim_serving.gpu import with_gpu_fit
from aim_serving.indexes import EVENTS_BY_OBJECT, PODS_BY_WORKLOAD
from aim_serving.inference_service import with_refusal, with_rollout
from aim_serving.replicas import AutoscalerClass, Scaling, hpa_name, is_scaled_to_zero, scaling_of
from aim_serving.workload_health import (
    Explained,
    absent_workload,
    held_back,
    invalid_workload,
    left_workload,
    occupied,
    trouble_ends,
    unreadable_workload,
    workload_component,
)
from controller_runtime import (
    Category,
    ClassifiedError,
    Component,
    Effect,
    Lookup,
    State,
    View,
    is_left_by_predecessor,
    scoped,
)
from controller_runtime.core import Event, HorizontalPodAutoscaler, Pod


@dataclass(frozen=True, slots=True)
class Workload:
    """What is known of a service's InferenceService.

    Attributes:
        name: its name; empty when none can be derived (SV-145).
        found: the object, if it exists and is the service's own.
        unreadable: why it is not known whether it exists.
        invalid: why it cannot be as the service asks.
        scaling: effective replicas; ``None`` when they are invalid.
        left: the one of an earlier service of this name; while it is there, none can be made.
    """

    name: str = ""
    found: InferenceService | None = None
    unreadable: ClassifiedError | None = None
    invalid: ClassifiedError | None = None
    scaling: Scaling | None = None
    left: InferenceService | None = None


def read_workload(view: View, service: AIMService) -> Workload:
    """Look it up under its derived name."""
    scaling = scaling_of(service.spec)
    fault = scaling if isinstance(scaling, ClassifiedError) else None
    wanted = None if isinstance(scaling, ClassifiedError) else scaling
    try:
        name = inference_service_name(service.name, service.namespace)
    except NamingError as error:
        return Workload(invalid=ClassifiedError(Category.INVALID_SPEC, "InvalidSpec", str(error)), scaling=wanted)
    lookup = view.get(INFERENCE_SERVICES, service.namespace, name)
    if lookup.value is None:
        return Workload(name, None, lookup.error, fault, wanted)
    if is_left_by_predecessor(lookup.value, service, AIM_SERVICE):
        return Workload(name, invalid=fault, scaling=wanted, left=lookup.value)
    foreign = occupied(lookup.value, service.uid)
    found = None if foreign is not None else lookup.value
    return Workload(name, found, lookup.error, foreign or fault, wanted)


@dataclass(frozen=True, slots=True)
class Observation:
    """Components of the workload, and what has to be read to know more."""

    components: tuple[Component, ...]
    effects: tuple[Effect, ...] = ()
    autoscaler: HorizontalPodAutoscaler | None = None
    again: datetime | None = None


def observe_workload(
    view: View, service: AIMService, workload: Workload, now: datetime, *, being_created: bool
) -> Observation:
    """How the workload is doing.

    Args:
        being_created: this pass creates the InferenceService, so the status speaks of it as existing.
    """
    events = () if workload.found is None else view.select(EVENTS_BY_OBJECT, workload.found.uid).items
    component = _workload_component(workload, events, now, being_created=being_created)
    again = None if workload.found is None else trouble_ends(workload.found, events, now)
    ready = component.effective_state is State.READY
    hpa, autoscaler, due = _autoscaler(view, workload, now, ready=ready)
    pods, effects = _pods(view, service, workload, now, being_created=being_created, ready=ready)
    at_zero = _is_at_zero(workload, autoscaler)
    if pods is not None and pods.effective_reason == "NoPods" and at_zero:
        pods = _no_pods_wanted()
    elif pods is not None and workload.found is not None and not ready:
        facts, own = PodFacts(view, SERVICE_NAME, service.uid, now), _own_pods(view, service, workload)
        pods, readings, later = with_refusal(pods, own, workload.found, facts)
        effects, again = (*effects, *readings), min((one for one in (again, later) if one), default=None)
    present = (one for one in (component, pods, hpa) if one is not None)
    return Observation(
        tuple(present), (*effects, *_scaler_reading(view, workload, autoscaler, now)), autoscaler, _first(again, due)
    )


def _workload_component(
    workload: Workload, events: Sequence[Event], now: datetime, *, being_created: bool
) -> Component:
    if workload.unreadable is not None:
        return unreadable_workload(workload.unreadable)
    if workload.invalid is not None:
        return invalid_workload(workload.invalid)
    if workload.left is not None:
        return left_workload(workload.left)
    if workload.found is None:
        return absent_workload(workload.name, being_created=being_created)
    return workload_component(workload.found, events, now)


def _pods(
    view: View, service: AIMService, workload: Workload, now: datetime, *, being_created: bool, ready: bool
) -> tuple[Component | None, tuple[Effect, ...]]:
    """Component, and what is to be read."""
    if workload.found is None:
        none_yet = inspect_pods(ComponentName.INFERENCE_SERVICE_PODS, ())
        return (none_yet if being_created else None), ()
    pods = _own_pods(view, service, workload)
    facts = PodFacts(view, SERVICE_NAME, service.uid, now)
    unread = facts.unread_logs(wanted_logs(pods))
    component = inspect_pods(ComponentName.INFERENCE_SERVICE_PODS, pods, log_of=facts.log_of, events_of=facts.events_of)
    component = with_rollout(component, pods, facts.log_of, facts.events_of)
    explained = Explained(events=facts.events_known(pods), logs=not unread)
    reported = held_back(component, pods, explained, workload_ready=ready)
    fitted, readings = with_gpu_fit(view, service, workload.found, reported, now)
    return fitted, (*unread, *facts.due_events(pods), *readings)


def _own_pods(view: View, service: AIMService, workload: Workload) -> Sequence[Pod]:
    return view.select(PODS_BY_WORKLOAD, scoped(service.namespace, workload.name)).items


def _autoscaler(
    view: View, workload: Workload, now: datetime, *, ready: bool
) -> tuple[Component | None, HorizontalPodAutoscaler | None, datetime | None]:
    """Component, the autoscaler, and when metrics that are not there yet become a fault."""
    if workload.scaling is None or not workload.scaling.autoscaled:
        return None, None, None
    name = hpa_name(workload.scaling, workload.name)
    lookup: Lookup[HorizontalPodAutoscaler] = Lookup()
    due: datetime | None = None
    if workload.found is not None:
        lookup = view.get(AUTOSCALERS, workload.found.namespace, name)
        due = metrics_due(workload.found, lookup.value)
    because = keda_event(view, workload.found) if workload.found is not None and lookup.value is None else ""
    part = autoscaler_component(
        name,
        lookup,
        workload_ready=ready,
        metrics_due=due is None or due <= now,
        absent_because=because,
        at_zero=_is_at_zero(workload, lookup.value),
        left_at_zero=left_at_zero(workload.scaling, workload.name, lookup.value),
    )
    waiting = ready and part.reason == WAITING_FOR_METRICS
    return part, lookup.value, due if waiting else None


def _first(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _is_at_zero(workload: Workload, autoscaler: HorizontalPodAutoscaler | None) -> bool:
    return workload.scaling is not None and is_scaled_to_zero(workload.scaling, autoscaler)


def _no_pods_wanted() -> Component:
    return Component(
        ComponentName.INFERENCE_SERVICE_PODS,
        State.READY,
        SCALED_TO_ZERO,
        "scaled to zero; the first active metric starts a pod",
    )


def _scaler_reading(
    view: View, workload: Workload, autoscaler: HorizontalPodAutoscaler | None, now: datetime
) -> tuple[Effect, ...]:
    scaling, running = workload.scaling, workload.found
    by_keda = scaling is not None and scaling.scaler is AutoscalerClass.KEDA
    return (reading(view, running, now),) if by_keda and running is not None and autoscaler is None else ()
