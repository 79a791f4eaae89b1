"""A change of a service that does not come out: the former pods serve, and the new ones cannot start (SV-321, SV-322).

Pure. KServe and its Deployment say nothing of it for ten minutes, and then only that time is up.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from aim_domain import (
    EventsOf,
    InferenceService,
    LogOf,
    PodFacts,
    inspect_pods,
    is_pod_ready,
    newest_refusal,
    words_of,
)
from aim_domain.component_names import ComponentName
from controller_runtime import ERROR_STATES, Component, Effect, PodPhase, State, find_condition
from controller_runtime.core import Pod

_REVISION: Final = "pod-template-hash"
_PODS: Final = ComponentName.INFERENCE_SERVICE_PODS
_ON_THE_WAY: Final = frozenset({"PodsReady", "PodsStarting", "PodsPending", "PodsProgressing", "Pulling", "NoPods"})
"""What new pods say of themselves while a rollout goes on as it should."""
_UNSCHEDULED: Final = "FailedScheduling"
_RECREATE: Final = (
    "free what the new pod asks for, or set spec.deploymentStrategy.type to Recreate, which ends the former pod first"
)
_REFUSED: Final = "correct what it names, or set predictors of the runtime config"


def with_rollout(component: Component, pods: Sequence[Pod], log_of: LogOf, events_of: EventsOf) -> Component:
    """The component of the pods; where those of a new revision are held up while former ones serve, that (SV-322)."""
    if component.effective_state is not State.READY:
        return component
    staying = [pod for pod in pods if not pod.deleting]
    serving = [pod for pod in staying if _is_serving(pod)]
    latest = max(staying, key=lambda pod: (_created(pod), pod.name), default=None)
    if not serving or latest is None or any(_revision(pod) == _revision(latest) for pod in serving):
        return component
    new = [pod for pod in staying if _revision(pod) == _revision(latest)]
    told = inspect_pods(_PODS, new, log_of=log_of, events_of=events_of)
    if told.effective_reason in _ON_THE_WAY:
        return component
    remedy = f"; {_RECREATE}" if told.effective_reason == _UNSCHEDULED else ""
    message = f"pod {latest.key} of the new revision: {told.effective_message}; {_still(serving)}{remedy}"
    state = told.effective_state if told.effective_state in ERROR_STATES else State.STARTING
    return Component(_PODS, state, told.effective_reason, message)


def with_refusal(
    component: Component, pods: Sequence[Pod], workload: InferenceService, facts: PodFacts
) -> tuple[Component, tuple[Effect, ...], datetime | None]:
    """The component where something refuses the pods of an InferenceService that is not ready (SV-321).

    Besides, what is to be read to know that, and when to look again; nothing while a pod is there that says more.
    """
    if component.errors and component.effective_reason != "NoPods":
        return component, (), None
    if any(not _is_serving(pod) for pod in pods):
        return component, (), None
    since = _waiting_since(workload)
    left = facts.patience(since)
    if left is not None:
        return component, (), facts.now + timedelta(seconds=left)
    effects = facts.due_replica_set_events(workload)
    event = newest_refusal(facts.replica_set_events(workload), f"{workload.name}-predictor-")
    if event is None or (event.last_seen is not None and any(_created(pod) > event.last_seen for pod in pods)):
        return component, effects, None
    still = f"; {_still(pods)}" if pods else ""
    message = f"ReplicaSet {event.involved_object.name} cannot create a pod: {words_of(event)}{still}; {_REFUSED}"
    return Component(_PODS, State.STARTING if pods else State.PENDING, event.reason, message), effects, None


def _waiting_since(workload: InferenceService) -> datetime | None:
    """Since when the InferenceService is not ready."""
    ready = find_condition(workload.status.conditions, "Ready")
    changed = None if ready is None else ready.last_transition_time
    return changed or workload.metadata.creation_timestamp


def _still(serving: Sequence[Pod]) -> str:
    return f"pod {serving[0].key} of the former revision still serves"


def _revision(pod: Pod) -> str:
    return pod.metadata.labels.get(_REVISION, "")


def _created(pod: Pod) -> datetime:
    return pod.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)


def _is_serving(pod: Pod) -> bool:
    return pod.status.phase is PodPhase.RUNNING and is_pod_ready(pod)
