"""Health of a Job (FW-160…FW-162)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from controller_runtime import (
    ERROR_STATES,
    Category,
    ClassifiedError,
    Component,
    Condition,
    ConditionStatus,
    Observability,
    PodPhase,
    State,
    find_condition,
)
from controller_runtime.core import Job, Pod

_FAILURES: Final[Mapping[str, tuple[Category, str]]] = MappingProxyType(
    {
        "BackoffLimitExceeded": (Category.INVALID_SPEC, "JobBackoffLimitExceeded"),
        "DeadlineExceeded": (Category.INVALID_SPEC, "JobDeadlineExceeded"),
        "Evicted": (Category.INFRASTRUCTURE, "JobEvicted"),
    }
)

EXPLANATION_WAIT: Final = timedelta(seconds=5)
"""How long a failed Job's pod may take to say why, before the Job's own reason is believed."""


def inspect_job(name: str, job: Job | None, *, what: str, pods: Sequence[Pod] | None = None) -> Component:
    """Component of a Job.

    Args:
        what: kind and name for messages, needed where the Job is missing.
        pods: of the Job; without a pod that has started nothing runs. `None` where they are not known.
    """
    component = Component(name)
    if job is None:
        missing = ClassifiedError(Category.MISSING_DOWNSTREAM, "JobNotFound", f"{what} does not exist")
        return replace(component, errors=(missing,))
    if is_job_complete(job):
        return replace(component, state=State.READY)
    failed = failed_condition(job)
    if failed is None:
        return replace(component, state=State.PROGRESSING, reason="JobRunning", message=f"{what} {_doing(pods)}")
    category, reason = _FAILURES.get(failed.reason, (Category.INVALID_SPEC, "JobFailed"))
    error = ClassifiedError(category, reason, f"{what} failed ({failed.reason or 'no reason given'}): {failed.message}")
    return replace(component, errors=(error,))


def _doing(pods: Sequence[Pod] | None) -> str:
    """What an unfinished Job does: it runs when a pod of it has started."""
    started = pods is None or any(pod.status.phase is not PodPhase.PENDING for pod in pods)
    return "is running" if started else "waits for its pod to start"


def has_succeeded(job: Job, pods: Iterable[Pod]) -> bool:
    """Whether a Job of one pod has succeeded: it says so, or its pod has ended well (FW-163).

    Args:
        pods: of Jobs of that name, the Job's own among them.
    """
    own = (pod for pod in pods if any(owner.uid == job.uid for owner in pod.metadata.owner_references))
    return is_job_complete(job) or any(pod.status.phase is PodPhase.SUCCEEDED for pod in own)


def is_job_complete(job: Job) -> bool:
    """Whether the Job says that it has succeeded."""
    return _holds(job, "Complete") is not None


def failed_condition(job: Job) -> Condition | None:
    """The condition that says that the Job has failed for good, if it has."""
    return _holds(job, "Failed")


def is_job_finished(job: Job) -> bool:
    """Whether the Job has come to an end, good or bad."""
    return is_job_complete(job) or failed_condition(job) is not None


def awaits_explanation(job: Job, pods: Sequence[Pod], now: datetime) -> timedelta | None:
    """For how long at most the pod of a Job that has just failed may still say why; ``None`` = wait no longer (FW-162).

    Job and pods come by different watches: the end of the Job is often seen before the end of its pod.

    Args:
        pods: of the Job, all of them or the newest one.
    """
    failed = failed_condition(job)
    if failed is None or failed.last_transition_time is None or any(pod.status.phase in _ENDED for pod in pods):
        return None
    left = EXPLANATION_WAIT - (now - failed.last_transition_time)
    # A clock that is far behind the API server's must not make the wait longer.
    return left if timedelta() < left <= 2 * EXPLANATION_WAIT else None


def blame_pods(job: Component, pods: Component) -> tuple[Component, Component]:
    """Job and pods such that the pods' verdict, being more specific, decides category and ``Ready`` (FW-162).

    The Job's condition keeps its reason and message, but the Job counts as progressing.
    """
    if not job.errors or pods.effective_state not in ERROR_STATES:
        return job, pods
    muted = replace(
        job,
        state=State.PROGRESSING,
        reason=job.effective_reason,
        message=job.effective_message,
        errors=(),
        observe=Observability.ERROR,
    )
    return muted, pods


_ENDED: Final = frozenset({PodPhase.FAILED, PodPhase.SUCCEEDED})


def _holds(job: Job, type_: str) -> Condition | None:
    condition = find_condition(job.status.conditions, type_)
    return condition if condition is not None and condition.status == ConditionStatus.TRUE else None
