"""Why the newest pod of a Job failed, and what that means for the artifact (AR-349…AR-358)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from aim_artifacts.exit_codes import CATEGORY_OF_CODE, FailureCategory
from aim_domain import (
    EventsOf,
    Failure,
    LogOf,
    LogRequest,
    classify_failure,
    creation_error,
    failure_of,
    image_pull_error,
    inspect_pods,
    masked,
    newest_pod,
    no_log,
    wanted_logs,
)
from controller_runtime import Category, ClassifiedError, Component, Observability, PodPhase, State, loads
from controller_runtime.core import Pod


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
    told = _told(failure)
    if told is not None:
        return told
    requests = wanted_logs([pod])
    tail = log_of(requests[0]) if requests else None
    error = classify_failure(replace(failure, message=masked(failure.message)), tail, what=f"pod {pod.key}")
    by_code = _CAUSES.get(CATEGORY_OF_CODE.get(failure.exit_code, FailureCategory.UNKNOWN))
    cause = by_code or Cause(error.reason, error.category, terminal=error.reason in _TERMINAL_REASONS)
    return PodFailure(cause, error.message, failure.exit_code)


def _told(failure: Failure) -> PodFailure | None:
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
    if any(pod.status.phase is PodPhase.FAILED and _told(failure_of(pod)) is not None for pod in newest):
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
