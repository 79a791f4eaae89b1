"""What a Job needs next, from the Job, its pods and the clock. Pure functions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_local.actors.objects import condition, controlled_by, is_going, short_hash, time_of, timed
from controller_runtime import JsonObject

_DEFAULT_BACKOFF_LIMIT: Final = 6
_TARGETS: Final = ("SuccessCriteriaMet", "FailureTarget")


@dataclass(frozen=True, slots=True)
class JobStep:
    """The next step.

    Attributes:
        status: the status to write; None if it is right already.
        create: the attempt (from 0) whose pod has to be made; None if none is due.
        stop_pods: pods that must end because the Job has.
        again: seconds after which time alone changes something.
        expired: the finished Job's time to live is over.
    """

    status: JsonObject | None = None
    create: int | None = None
    stop_pods: tuple[JsonObject, ...] = ()
    again: float | None = None
    expired: bool = False


@dataclass(frozen=True, slots=True)
class _Verdict:
    succeeded: bool
    reason: str
    message: str


def next_step(job: JsonObject, pods: Sequence[JsonObject], now: datetime, retry_delay: float) -> JobStep:
    """Decide; ``retry_delay`` seconds lie between a failed pod and the next attempt, doubling each time."""
    status = job.get("status") or {}
    if is_finished(status):
        return _after_the_end(job, status, now)
    if job["spec"].get("suspend"):
        return JobStep()
    started = time_of(status["startTime"]) if status.get("startTime") else now
    deadline = job["spec"].get("activeDeadlineSeconds")
    left = None if deadline is None else deadline - (now - started).total_seconds()
    verdict = _reached(status) or _verdict(job, pods, out_of_time=left is not None and left <= 0)
    wanted = _status(job, pods, started, now, verdict)
    changed = wanted if wanted != status else None
    active = tuple(pod for pod in pods if _is_active(pod))
    if verdict is not None:
        return JobStep(changed, stop_pods=tuple(pod for pod in active if not is_going(pod)))
    if active:
        return JobStep(changed, again=left)
    wait = _wait(pods, now, retry_delay)
    # The new pod is a change of its own, after which the status is written: once instead of twice.
    return JobStep(changed, again=wait) if wait > 0 else JobStep(create=len(pods))


def is_finished(status: JsonObject) -> bool:
    """Whether the Job has come to its end."""
    return any(
        one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in status.get("conditions") or ()
    )


def pod_for(job: JsonObject, attempt: int) -> JsonObject:
    """The pod of an attempt; the name is the same however often it is computed."""
    metadata, template = job["metadata"], job["spec"]["template"]
    name, uid = metadata["name"], metadata["uid"]
    from_template = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name[:57]}-{short_hash([uid, attempt], 5)}",
            "generateName": f"{name[:57]}-",
            "namespace": metadata["namespace"],
            "labels": {
                **(from_template.get("labels") or {}),
                "job-name": name,
                "batch.kubernetes.io/job-name": name,
                "controller-uid": uid,
                "batch.kubernetes.io/controller-uid": uid,
            },
            **({"annotations": from_template["annotations"]} if from_template.get("annotations") else {}),
            "ownerReferences": [controlled_by(job)],
        },
        "spec": template["spec"],
    }


def _verdict(job: JsonObject, pods: Sequence[JsonObject], *, out_of_time: bool) -> _Verdict | None:
    if any(_phase(pod) == "Succeeded" for pod in pods):
        return _Verdict(True, "CompletionsReached", "Reached expected number of succeeded pods")
    ruled = next((text for pod in pods if (text := _fail_job_rule(job, pod))), "")
    if ruled:
        return _Verdict(False, "PodFailurePolicy", ruled)
    failed = sum(_phase(pod) == "Failed" and not _is_ignored(job, pod) for pod in pods)
    if failed > job["spec"].get("backoffLimit", _DEFAULT_BACKOFF_LIMIT):
        return _Verdict(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if out_of_time:
        return _Verdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _reached(status: JsonObject) -> _Verdict | None:
    """The verdict that the status holds already: pods that have to end are waited for."""
    for one in status.get("conditions") or ():
        if one["type"] in _TARGETS and one["status"] == "True":
            return _Verdict(one["type"] == _TARGETS[0], one.get("reason", ""), one.get("message", ""))
    return None


def _is_active(pod: JsonObject) -> bool:
    return _phase(pod) in ("Pending", "Running")


def _status(
    job: JsonObject, pods: Sequence[JsonObject], started: datetime, now: datetime, verdict: _Verdict | None
) -> JsonObject:
    phases, before = [_phase(pod) for pod in pods], job.get("status") or {}
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    status: JsonObject = {"startTime": started.strftime("%Y-%m-%dT%H:%M:%SZ"), "uncountedTerminatedPods": {}}
    ending = sum(_is_active(pod) for pod in pods)
    active = 0 if verdict else ending
    succeeded = phases.count("Succeeded")
    counts = {
        "active": active,
        "succeeded": succeeded,
        # Pods that went with the verdict still count.
        "failed": max(len(phases) - active - succeeded, before.get("failed", 0) if verdict else 0),
    }
    status.update({name: count for name, count in counts.items() if count})
    status["terminating"] = sum(_is_active(pod) and is_going(pod) for pod in pods)
    status["ready"] = sum(_is_ready(pod) for pod in pods) if active else 0
    if verdict is not None:
        present = before.get("conditions") or []
        kinds = [_TARGETS[0], "Complete"] if verdict.succeeded else [_TARGETS[1], "Failed"]
        # The end is only declared once no pod is left that could still do something.
        kinds = kinds[:1] if ending else kinds
        wanted = [condition(kind, True, verdict.reason, verdict.message, lastProbeTime=at) for kind in kinds]
        status["conditions"] = timed(wanted, present, at)
        if verdict.succeeded and not ending:
            status["completionTime"] = at
    return status


def _after_the_end(job: JsonObject, status: JsonObject, now: datetime) -> JobStep:
    lifetime = job["spec"].get("ttlSecondsAfterFinished")
    if lifetime is None:
        return JobStep()
    ended = max(time_of(one["lastTransitionTime"]) for one in status["conditions"])
    left = lifetime - (now - ended).total_seconds()
    return JobStep(expired=True) if left <= 0 else JobStep(again=left)


def _wait(pods: Sequence[JsonObject], now: datetime, retry_delay: float) -> float:
    """Seconds until the next attempt; times of Kubernetes are whole seconds, so the wait may be one longer."""
    failed = [pod for pod in pods if _phase(pod) == "Failed"]
    if not failed:
        return 0.0
    last = max((ended for pod in failed for ended in _ends(pod)), default=now)
    return float(retry_delay * 2 ** (len(failed) - 1) - (now - last).total_seconds())


def _ends(pod: JsonObject) -> Iterable[datetime]:
    return (time_of(state["finishedAt"]) for state in _terminated(pod).values() if state.get("finishedAt"))


def _phase(pod: JsonObject) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _terminated(pod: JsonObject) -> dict[str, JsonObject]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return {one["name"]: one["state"]["terminated"] for one in statuses if "terminated" in (one.get("state") or {})}


# podFailurePolicy: the first rule that matches a failed pod decides.


def _fail_job_rule(job: JsonObject, pod: JsonObject) -> str:
    """The message of the `FailJob` rule that the pod's failure meets; empty for none."""
    found = _matching_rule(job, pod)
    if found is None or found[1]["action"] != "FailJob":
        return ""
    index, rule = found
    metadata = pod["metadata"]
    where = f"pod {metadata['namespace']}/{metadata['name']}"
    for name, state in _terminated(pod).items():
        if "onExitCodes" in rule and _exit_code_matches(rule["onExitCodes"], name, state["exitCode"]):
            code = state["exitCode"]
            return f"Container {name} for {where} failed with exit code {code} matching FailJob rule at index {index}"
    return f"{where} has a condition matching FailJob rule at index {index}"


def _is_ignored(job: JsonObject, pod: JsonObject) -> bool:
    found = _matching_rule(job, pod)
    return found is not None and found[1]["action"] == "Ignore"


def _matching_rule(job: JsonObject, pod: JsonObject) -> tuple[int, JsonObject] | None:
    if _phase(pod) != "Failed":
        return None
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    return next(((index, rule) for index, rule in enumerate(rules) if _rule_matches(rule, pod)), None)


def _rule_matches(rule: JsonObject, pod: JsonObject) -> bool:
    if "onExitCodes" in rule:
        return any(
            _exit_code_matches(rule["onExitCodes"], name, state["exitCode"]) for name, state in _terminated(pod).items()
        )
    present = {(one["type"], one["status"]) for one in (pod.get("status") or {}).get("conditions") or ()}
    return any((one["type"], one.get("status", "True")) in present for one in rule.get("onPodConditions") or ())


def _exit_code_matches(requirement: JsonObject, container: str, code: int) -> bool:
    limit = requirement.get("containerName")
    if code == 0 or (limit and limit != container):
        return False
    listed = code in requirement["values"]
    return listed if requirement["operator"] == "In" else not listed
