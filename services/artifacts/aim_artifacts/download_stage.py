"""The stages from the volume to the verified download (AR-100 steps 5 to 7, AR-101, AR-102, AR-104, AR-106)."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from aim_artifacts.adapters import is_verified_on, verified_on
from aim_artifacts.claim import build_claim, is_marked_verified, mark_verified
from aim_artifacts.conditions import RESOURCE_NOT_READY
from aim_artifacts.download_account import AccountSeen, look_at_account
from aim_artifacts.job_health import explanation_due, inspect_job_and_pods, pod_failure, pod_reading
from aim_artifacts.jobs import (
    build_download_job,
    has_other_settings,
    is_outdated,
    is_stale,
    removal,
)
from aim_artifacts.limits.admission import Admission
from aim_artifacts.progress import DownloadOutcome
from aim_artifacts.secret_watch import has_changed, secrets_of, watch_secrets
from aim_artifacts.settings import ArtifactsSettings
from aim_artifacts.stage import JobSeen, SeenArtifact, Stage
from aim_domain import PodFacts, failed_condition, inspect_pvc, newest_pod
from aim_domain.component_names import ComponentName
from aim_domain.naming import claim_name
from controller_runtime import ClaimPhase, Component, Effect, PodPhase, State, downstream
from controller_runtime.core import EnvVar, Job, PersistentVolumeClaim

_CLAIM = ComponentName.CACHE_PVC
_JOB = ComponentName.DOWNLOAD_JOB
_PODS = ComponentName.DOWNLOAD_JOB_PODS


def provision(seen: SeenArtifact, size: int, admission: Admission) -> Stage:
    """Make the volume; one that is being deleted has to be gone first (AR-P33)."""
    name = claim_name(seen.artifact.name, seen.artifact.uid)
    what = f"PersistentVolumeClaim {name}"
    if seen.claim.value is not None:
        message = f"{what} is being deleted; it is created again once it is gone"
        leaving = Component(_CLAIM, State.PROGRESSING, RESOURCE_NOT_READY, message)
        return Stage((leaving,), size=size)
    if admission.blocked is not None:
        reason = (admission.blocked.reason.value, admission.blocked.message)
        return Stage(size=size, progressing=reason)
    missing = downstream(_CLAIM, seen.claim, what=what)
    return Stage((missing,), (build_claim(seen.artifact, seen.config.spec, size, admission.limits),), size=size)


def settled_stage(seen: SeenArtifact, claim: PersistentVolumeClaim, size: int | None, now: datetime) -> Stage:
    """The content is verified: only the volume matters from here on (AR-107, AR-313)."""
    unmarked = seen.disk is None and not is_marked_verified(claim)
    return Stage(
        (_volume(claim), *_finished(seen.download_job)),
        patches=(mark_verified(claim, now),) if unmarked else (),
        annotations=() if seen.disk is None or is_verified_on(seen.artifact, claim) else (verified_on(claim),),
        size=size,
        outcome=DownloadOutcome(succeeded=True),
    )


def download(
    seen: SeenArtifact,
    claim: PersistentVolumeClaim,
    size: int,
    *,
    facts: PodFacts,
    settings: ArtifactsSettings,
    now: datetime,
    fixed: tuple[EnvVar, ...] = (),
) -> Stage:
    """Run the download Job and follow it.

    Args:
        fixed: variables of an adapter, which nothing overrides.
    """
    found = seen.download_job
    volume, job = _volume(claim, facts), found.lookup.value
    waiting = _claim_reading(claim, facts)
    if job is None:
        looked = look_at_account(facts.view, seen.artifact.namespace, settings, now)
        started = _start(seen, claim, size, looked, settings, fixed=fixed).with_components(volume)
        return replace(started, effects=(*started.effects, *waiting))
    if job.deleting or is_stale(job, claim):
        return _replace(found, job, "it belongs to another volume").with_components(volume)
    if found.succeeded:
        return settled_stage(seen, claim, size, now)
    if failed_condition(job) is not None and is_outdated(job, seen.artifact):
        return _replace(found, job, "the artifact's spec has changed").with_components(volume)
    if has_other_settings(job, found.pods, seen.config.spec, seen.config.pods.gpu_taint):
        return _replace(found, job, "the settings of its pods have changed").with_components(volume)
    followed = _follow(found, job, facts, now).with_components(volume)
    secrets = watch_secrets(job, secrets_of(seen, facts.view), followed.components, facts.view)
    if secrets.changed:
        return _replace(found, job, has_changed(secrets.changed)).with_components(volume)
    return replace(followed, size=size, effects=(*followed.effects, *waiting, *secrets.effects))


def _volume(claim: PersistentVolumeClaim, facts: PodFacts | None = None) -> Component:
    events = () if facts is None else facts.events_about(claim)
    return inspect_pvc(_CLAIM, claim, what=f"PersistentVolumeClaim {claim.name}", events=events)


def _claim_reading(claim: PersistentVolumeClaim, facts: PodFacts) -> tuple[Effect, ...]:
    """What the provisioner says of a claim that has no volume (AR-845)."""
    return facts.due_events_about(claim) if claim.status.phase is ClaimPhase.PENDING else ()


def _finished(found: JobSeen) -> tuple[Component, ...]:
    return (Component(_JOB, State.READY),) if found.succeeded else ()


def _start(
    seen: SeenArtifact,
    claim: PersistentVolumeClaim,
    size: int,
    looked: AccountSeen,
    settings: ArtifactsSettings,
    *,
    fixed: tuple[EnvVar, ...],
) -> Stage:
    found = seen.download_job
    missing = downstream(_JOB, found.lookup, what=found.what)
    if looked.error is not None:
        missing = Component(_JOB, errors=(looked.error,))
    waiting = Stage((missing,), effects=looked.effects, size=size, outcome=DownloadOutcome())
    # Without the binding the pod's reports would be refused (AR-102); this pass makes it.
    if seen.binding.value is None or looked.account is None:
        return waiting
    hf_home = seen.config.pods.hf_home
    job = build_download_job(
        seen.artifact,
        seen.config_of_jobs,
        settings,
        claim,
        size,
        account=looked.account,
        hf_home=hf_home,
        gpu_taint=seen.config.pods.gpu_taint,
        fixed=fixed,
    )
    return replace(waiting, children=(job,))


def _replace(found: JobSeen, job: Job, why: str) -> Stage:
    message = f"{found.what} is replaced: {why}"
    leaving = Component(_JOB, State.PROGRESSING, RESOURCE_NOT_READY, message)
    return Stage((leaving,), deletes=() if job.deleting else (removal(job, why),), outcome=DownloadOutcome())


def _follow(found: JobSeen, job: Job, facts: PodFacts, now: datetime) -> Stage:
    components = inspect_job_and_pods(_JOB, _PODS, found, job, facts=facts, now=now)
    outcome = _outcome(found, facts, job_failed=failed_condition(job) is not None)
    return Stage(
        components,
        effects=pod_reading(found, facts),
        outcome=outcome,
        requeue_after=explanation_due(found, now),
    )


_AT_WORK: Final = frozenset({PodPhase.RUNNING, PodPhase.SUCCEEDED})
"""Phases of a pod that downloads, or has, while its Job says nothing yet: what it reported still holds."""


def _outcome(found: JobSeen, facts: PodFacts, *, job_failed: bool) -> DownloadOutcome:
    newest = newest_pod(found.pods)
    failures = [failure for pod in newest if (failure := pod_failure(pod, facts.log_of)) is not None]
    return DownloadOutcome(
        running=any(pod.status.phase in _AT_WORK for pod in newest),
        failed=job_failed or bool(failures),
        exit_code=failures[0].exit_code if failures else 0,
    )
