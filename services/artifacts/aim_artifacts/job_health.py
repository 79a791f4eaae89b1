"""Health of a Job and its pods together (AR-161, AR-354…AR-356)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from aim_artifacts.failures import inspect_job_pods, logs_to_read
from aim_artifacts.stage import JobSeen
from aim_domain import (
    PodFacts,
    awaits_explanation,
    blame_pods,
    failed_condition,
    inspect_job,
    is_job_finished,
    newest_pod,
    refused_component,
    refused_pods,
)
from controller_runtime import Component, Effect, State
from controller_runtime.core import Job

_PENDING: Final = "PodsPending"
_EARLIER: Final[Mapping[str, State]] = MappingProxyType({"NoPods": State.PROGRESSING, _PENDING: State.PENDING})
"""What stands while the Events are read that say what a pending pod waits for; most run before that (AR-312)."""


def inspect_job_and_pods(
    job_name: str, pods_name: str, found: JobSeen, job: Job, *, facts: PodFacts, now: datetime
) -> tuple[Component, Component]:
    """Components of a Job that has not succeeded, and of its newest pod."""
    refused = refused_pods(facts.events_about(job), job) if lacks_pods(found) else None
    if refused is not None:
        told = refused_component(job_name, found.what, refused, block="jobs")
        return told, replace(told, name=pods_name)
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
