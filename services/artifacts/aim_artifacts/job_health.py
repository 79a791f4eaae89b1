"""How a Job of an artifact is doing, and why it failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from aim_artifacts.downloader_contract import CATEGORY_OF_CODE, FailureCategory
from aim_artifacts.stage import JobSeen
from aim_domain import (
    EventsOf,
    Failure,
    LogOf,
    LogRequest,
    PodFacts,
    awaits_explanation,
    blame_pods,
    classify_failure,
    creation_error,
    failed_condition,
    failure_of,
    image_pull_error,
    inspect_job,
    inspect_pods,
    is_job_finished,
    masked,
    newest_pod,
    no_log,
    refused_component,
    refused_pods,
    wanted_logs,
)
from controller_runtime import Category, ClassifiedError, Component, Effect, Observability, PodPhase, State, loads
from controller_runtime.core import Job, Pod


@dataclass(frozen=True, slots=True)
class Cause:
    """One row of the table in AR-349; without a category the component just counts as failed.

    Attributes:
        terminal: the artifact has failed with the first such pod, whatever the Job still does (AR-353).
    """

    reason: str
    category: Category | None
    terminal: bool = False


_CAUSES: Final[Mapping[FailureCategory, Cause]] = MappingProxyType(
    {
        FailureCategory.AUTH: Cause("AuthError", Category.AUTH, terminal=True),
        FailureCategory.SOURCE_NOT_FOUND: Cause("SourceNotFound", Category.INVALID_SPEC, terminal=True),
        FailureCategory.STORAGE_FULL: Cause("StorageFull", Category.RESOURCE_EXHAUSTION, terminal=True),
        FailureCategory.VERIFICATION_FAILED: Cause("VerificationFailed", None),
        FailureCategory.STALLED: Cause("DownloadStalled", None),
        FailureCategory.DOWNLOAD_FAILED: Cause("DownloadFailed", None),
        FailureCategory.NO_MATCHING_FILES: Cause("NoMatchingFiles", Category.INVALID_SPEC, terminal=True),
    }
)
_TERMINAL_REASONS: Final = frozenset(cause.reason for cause in _CAUSES.values() if cause.terminal)
"""Also what a log pattern may find (AR-351, AR-353)."""


@dataclass(frozen=True, slots=True)
class PodFailure:
    """The classified failure of a pod.

    Attributes:
        exit_code: of the container to blame; 0 where none is.
    """

    cause: Cause
    message: str
    exit_code: int


def pod_failure(pod: Pod, log_of: LogOf = no_log) -> PodFailure | None:
    """Why a failed pod failed: termination message, exit code, log, reason, in this order (AR-350 steps 2 to 5)."""
    if pod.status.phase is not PodPhase.FAILED:
        return None
    failure = failure_of(pod)
    reported = _pod_failure(failure)
    if reported is not None:
        return reported
    requests = wanted_logs([pod])
    tail = log_of(requests[0]) if requests else None
    error = classify_failure(replace(failure, message=masked(failure.message)), tail, what=f"pod {pod.key}")
    by_code = _CAUSES.get(CATEGORY_OF_CODE.get(failure.exit_code, FailureCategory.UNKNOWN))
    cause = by_code or Cause(error.reason, error.category, terminal=error.reason in _TERMINAL_REASONS)
    return PodFailure(cause, error.message, failure.exit_code)


def _pod_failure(failure: Failure) -> PodFailure | None:
    """What the downloader itself says; other programs write other termination messages, or none."""
    try:
        report = loads(failure.message)
    except ValueError:
        return None
    category = report.get("category")
    if not isinstance(category, str) or category not in set(FailureCategory):
        return None
    cause = _CAUSES.get(FailureCategory(category))
    if cause is None:
        return None
    text = masked(str(report.get("message") or cause.reason))
    message = f"container {failure.container} exited with code {failure.exit_code}: {text}"
    return PodFailure(cause, message, failure.exit_code)


def logs_to_read(pods: Sequence[Pod]) -> tuple[LogRequest, ...]:
    """Logs of the newest pod that would sharpen its classification; none when it speaks for itself (AR-350)."""
    newest = newest_pod(pods)
    if any(pod.status.phase is PodPhase.FAILED and _pod_failure(failure_of(pod)) is not None for pod in newest):
        return ()
    return wanted_logs(newest)


def inspect_job_pods(
    name: str, pods: Sequence[Pod], *, job_failed: bool, log_of: LogOf, events_of: EventsOf, reading_log: bool = False
) -> Component:
    """Component of a Job's pods, of which the newest decides (AR-350, AR-354).

    Args:
        job_failed: no further pod will come.
        reading_log: the log that decides about the newest pod is not known yet.
    """
    newest = newest_pod(pods)
    if not newest:
        return inspect_pods(name, ())
    (pod,) = newest
    waiting = image_pull_error(pod) or creation_error(pod)
    if waiting is not None:
        error = replace(waiting, message=masked(waiting.message))
        return Component(name, errors=(error,))
    if reading_log:
        message = f"pod {pod.key} has failed; reading its log"
        return Component(name, State.PROGRESSING, "PodFailed", message)
    failure = pod_failure(pod, log_of)
    if failure is None:
        return inspect_pods(name, newest, log_of=log_of, events_of=events_of, of_job=True)
    return _component(name, failure, final=job_failed or failure.cause.terminal)


def _component(name: str, failure: PodFailure, *, final: bool) -> Component:
    cause = failure.cause
    component = Component(name, reason=cause.reason, message=failure.message)
    if not final:
        return replace(component, state=State.PROGRESSING, observe=Observability.WARNING)
    if cause.category is None:
        return replace(component, state=State.FAILED)
    return replace(component, errors=(ClassifiedError(cause.category, cause.reason, failure.message),))


_PENDING: Final = "PodsPending"
_EARLIER: Final[Mapping[str, State]] = MappingProxyType({"NoPods": State.PROGRESSING, _PENDING: State.PENDING})
"""What stands while the Events are read that say what a pending pod waits for; most run before that (AR-312)."""


def inspect_job_and_pods(
    job_name: str, pods_name: str, found: JobSeen, job: Job, *, facts: PodFacts, now: datetime
) -> tuple[Component, Component]:
    """Components of a Job that has not succeeded, and of its newest pod."""
    refused = refused_pods(facts.events_about(job), job) if lacks_pods(found) else None
    if refused is not None:
        reported = refused_component(job_name, found.what, refused, block="jobs")
        return reported, replace(reported, name=pods_name)
    reading = bool(facts.unread_logs(logs_to_read(found.pods)))
    pods = inspect_job_pods(
        pods_name,
        found.pods,
        job_failed=failed_condition(job) is not None,
        log_of=facts.log_of,
        events_of=facts.events_of,
        reading_log=reading,
    )
    verdict = inspect_job(job_name, job, what=found.what, pods=found.pods)
    if verdict.errors and (reading or explanation_due(found, now) is not None):
        # The pod decides what the failure means: until it is known nothing is final, lest a cause be announced
        # that the next pass takes back.
        verdict = Component(
            job_name,
            State.PROGRESSING,
            verdict.effective_reason,
            verdict.effective_message,
        )
    verdict, pods = blame_pods(verdict, pods)
    if pods.effective_reason == _PENDING and not facts.events_known(newest_pod(found.pods)):
        pods = pods.hold_until_known(over=_EARLIER)
    return verdict, pods


def explanation_due(found: JobSeen, now: datetime) -> float | None:
    """Seconds after which a failed Job is final although its newest pod does not say why; ``None`` = it is now."""
    job = found.lookup.value
    left = None if job is None else awaits_explanation(job, newest_pod(found.pods), now)
    return None if left is None else left.total_seconds()


def lacks_pods(found: JobSeen) -> bool:
    """Whether the Job goes on and has no pod, so that only its Events can say why (AR-844)."""
    job = found.lookup.value
    return job is not None and not found.pods and not is_job_finished(job)


def pod_reading(found: JobSeen, facts: PodFacts) -> tuple[Effect, ...]:
    """What to read now about a Job's pods, or about the Job while it has none."""
    job, pods = found.lookup.value, found.pods
    about_job = facts.due_events_about(job) if job is not None and lacks_pods(found) else ()
    return (*facts.unread_logs(logs_to_read(pods)), *facts.due_events(newest_pod(pods)), *about_job)
