"""The stage that finds out the size of weights, by a Job and its output."""

from datetime import datetime
from typing import Final

from aim_artifacts.claim import LARGEST_SOURCE
from aim_artifacts.conditions import INVALID_SIZE_OUTPUT, RESOURCE_NOT_READY
from aim_artifacts.job_health import explanation_due, inspect_job_and_pods, pod_reading
from aim_artifacts.jobs import build_check_size_job, has_other_settings, is_outdated, removal
from aim_artifacts.secret_watch import has_changed, secrets_of, watch_secrets
from aim_artifacts.settings import ArtifactsSettings
from aim_artifacts.stage import JobSeen, SeenArtifact, Stage
from aim_domain import LogRequest, PodFacts, failed_condition, newest_pod
from aim_domain.component_names import ComponentName
from controller_runtime import Component, JsonObject, PodPhase, State, downstream, loads
from controller_runtime.core import Pod

OUTPUT_LINES: Final = 20
"""Last lines of the log among which the result is looked for (AR-156)."""


def find_size(termination_message: str, log_tail: str | None) -> int | None:
    """The accepted size in bytes; ``None`` when neither text holds one (AR-156, AR-157)."""
    report = _report(termination_message) or (None if log_tail is None else _report_in_log(log_tail))
    return None if report is None else _accepted(report["sizeBytes"])


def has_report(termination_message: str) -> bool:
    """Whether the termination message makes reading the log needless (AR-156)."""
    return _report(termination_message) is not None


def _report_in_log(tail: str) -> JsonObject | None:
    lines = tail.splitlines()[-OUTPUT_LINES:]
    return next((report for line in reversed(lines) if (report := _report(line)) is not None), None)


def _report(text: str) -> JsonObject | None:
    try:
        value = loads(text)
    except ValueError:
        return None
    return value if "sizeBytes" in value else None


def _accepted(size: object) -> int | None:
    # bool is an int to Python, but not a size.
    if not isinstance(size, int) or isinstance(size, bool):
        return None
    return size if 0 < size <= LARGEST_SOURCE else None


_JOB = ComponentName.CHECK_SIZE_JOB
_PODS = ComponentName.CHECK_SIZE_JOB_PODS
_OUTPUT = ComponentName.CHECK_SIZE_OUTPUT


def discover_size(seen: SeenArtifact, facts: PodFacts, settings: ArtifactsSettings, now: datetime) -> Stage:
    """Run the check-size Job and read its result; the stage is over once ``size`` is known."""
    found = seen.size_job
    job = found.lookup.value
    if job is None:
        taint = seen.config.pods.gpu_taint
        children = (build_check_size_job(seen.artifact, seen.config_of_jobs, settings, gpu_taint=taint),)
        return Stage((downstream(_JOB, found.lookup, what=found.what),), children)
    if not found.succeeded and failed_condition(job) is not None and is_outdated(job, seen.artifact):
        deletes = () if job.deleting else (removal(job, "the artifact's spec has changed"),)
        return Stage((_replaced(found),), deletes=deletes)
    if found.succeeded:
        return _read_output(found, facts)
    if has_other_settings(job, found.pods, seen.config.spec, seen.config.pods.gpu_taint):
        deletes = () if job.deleting else (removal(job, "the settings of its pods have changed"),)
        message = f"{found.what} has not started and is replaced, because the settings of its pods have changed"
        return Stage((Component(_JOB, State.PROGRESSING, RESOURCE_NOT_READY, message),), deletes=deletes)
    components = inspect_job_and_pods(_JOB, _PODS, found, job, facts=facts, now=now)
    secrets = watch_secrets(job, secrets_of(seen, facts.view), components, facts.view)
    if secrets.changed:
        why = has_changed(secrets.changed)
        message = f"{found.what} is replaced: {why}"
        deletes = () if job.deleting else (removal(job, why),)
        return Stage((Component(_JOB, State.PROGRESSING, RESOURCE_NOT_READY, message),), deletes=deletes)
    return Stage(
        components,
        effects=(*pod_reading(found, facts), *secrets.effects),
        requeue_after=explanation_due(found, now),
    )


def _replaced(found: JobSeen) -> Component:
    message = f"{found.what} failed and is replaced, because the spec has changed"
    return Component(_JOB, State.PROGRESSING, RESOURCE_NOT_READY, message)


def _read_output(found: JobSeen, facts: PodFacts) -> Stage:
    done = Component(_JOB, State.READY)
    pod = next(iter(newest_pod([pod for pod in found.pods if pod.status.phase is PodPhase.SUCCEEDED])), None)
    if pod is None:
        # The result went with the pod; the Job's time to live brings another one (AR-160).
        message = f"the pod of {found.what} is gone before its result was read; the Job will run again"
        return Stage((done, _waiting(message)))
    message = _termination_message(pod)
    request = LogRequest(pod.namespace, pod.name, pod.uid, _container(pod), previous=False)
    tail = facts.log_of(request)
    if tail is None and not has_report(message):
        waiting = _waiting(f"reading the result of {found.what}")
        return Stage((done, waiting), effects=(facts.log_again(request),))
    size = find_size(message, tail)
    return Stage((done,), size=size) if size is not None else Stage((done, _invalid(found, message or tail or "")))


def _waiting(message: str) -> Component:
    return Component(_OUTPUT, State.PROGRESSING, RESOURCE_NOT_READY, message)


def _invalid(found: JobSeen, output: str) -> Component:
    lines = output.strip().splitlines()
    quoted = f" (last line: {lines[-1][:200]!r})" if lines else ""
    message = (
        f"{found.what} reported no usable size{quoted}; set spec.size, or use a downloader image that "
        "prints a JSON object with sizeBytes"
    )
    return Component(_OUTPUT, State.FAILED, INVALID_SIZE_OUTPUT, message)


def _container(pod: Pod) -> str:
    statuses = pod.status.container_statuses
    return statuses[0].name if statuses else "check-size"


def _termination_message(pod: Pod) -> str:
    for status in pod.status.container_statuses:
        if status.state.terminated is not None:
            return status.state.terminated.message
    return ""
