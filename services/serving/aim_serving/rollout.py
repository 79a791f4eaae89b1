"""Rollout of a new version beside the one that runs (serving.md section 18b): which step is next. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from aim_domain import (
    AIMService,
    InferenceService,
    LabelPropagation,
    Rollout,
    RolloutPhase,
    RolloutStatus,
    child_labels,
    labels,
)
from aim_domain.kinds import AIM_SERVICE
from aim_domain.naming import derive_name
from aim_domain.parts import SERVICES
from aim_serving.inference_service import POD_REVISION, is_serving
from controller_runtime import (
    Child,
    Delete,
    Desired,
    DurationError,
    JsonObject,
    Observability,
    Patch,
    StatusValue,
    canonical,
    condition,
    kind_of,
    parse_seconds,
    ready_words,
    to_json,
)
from controller_runtime.core import Pod

ROLLED_OUT: Final = "RolledOut"
_WHOLE: Final = 100
_DIGITS: Final = 16
_MOST_FORMER: Final = 64
"""As many as the schema has room for; a Deployment has two during a change."""
_NO_POD: Final = frozenset({"minReplicas", "maxReplicas", "autoScaling", "deploymentStrategy", "volumes"})
_DRAIN: Final = timedelta(seconds=30)
"""How long a version lives on that gets no request any more: its answers end, and gateways follow their routes."""


class Request(StrEnum):
    """What a person asks for with the annotation `aim.eai.amd.com/rollout`."""

    CONTINUE = "continue"
    PROMOTE = "promote"
    ABORT = "abort"
    RETRY = "retry"


_REQUESTS: Final = frozenset(one.value for one in Request)


@dataclass(frozen=True, slots=True)
class Versions:
    """What a decision about a rollout goes by.

    Attributes:
        wanted: digest of the version that the service asks for; empty while that is not known.
        adopted: digest of the version that runs, where no status has one; empty if it is another than the wanted one.
        template: digest of the pods that the InferenceService would have with it.
        candidate: the AIMService of the wanted version, if it is there.
        pods: those of the InferenceService that stay.
        at_zero: whether it is to have none.
        exceeded: which check the new version fails; empty if none.
        unread: which check is not known in this step; empty if all are.
    """

    wanted: str
    adopted: str
    candidate: AIMService | None
    pods: tuple[Pod, ...]
    template: str = ""
    at_zero: bool = False
    exceeded: str = ""
    unread: str = ""


@dataclass(frozen=True, slots=True)
class Course:
    """What a rollout does now.

    Attributes:
        status: as it is written.
        held: whether the InferenceService stays as it is.
        beside: whether the new version runs beside the old one.
        again: when the clock alone changes the answer.
    """

    status: RolloutStatus
    held: bool = False
    beside: bool = False
    again: datetime | None = None


def decide(service: AIMService, rollout: Rollout, versions: Versions, now: datetime) -> Course:
    """The next step (SV-340 to SV-347)."""
    before = service.status.rollout or RolloutStatus(running=versions.adopted, phase=RolloutPhase.COMPLETE)
    asked = _request_of(service)
    # An annotation acts once: it may outlive the pass that has carried it out.
    request = asked if asked != before.request else ""
    before = _with_fields(before, request=asked or None)
    if not versions.wanted:
        return Course(before, held=True, beside=before.candidate is not None)
    if versions.wanted == before.running or (versions.template and versions.template == before.pod_template):
        # What users say may change without another pod, as of storage: waiting for pods to be replaced would not end.
        before = _with_fields(before, running=versions.wanted, pod_template=versions.template or None)
        return _without_change(before, versions, now)
    if before.revision != versions.wanted:
        return _prepared(_begun(service, before, versions, now), rollout, versions, now)
    if before.phase is RolloutPhase.ABORTED:
        if request != Request.RETRY:
            return _kept_off(before, now)
        return _prepared(_begun(service, before, versions, now), rollout, versions, now)
    return _under_way(before, rollout, versions, request, now)


def _request_of(service: AIMService) -> str:
    """What the annotation asks for; empty for a word that means nothing, which stays and is reported."""
    asked = service.metadata.annotations.get(labels.ANNOTATION_ROLLOUT, "")
    return asked if asked in _REQUESTS else ""


def _with_fields(status: RolloutStatus, **fields: object) -> RolloutStatus:
    """The status with other fields."""
    return status.model_copy(update=fields)


def _without_change(before: RolloutStatus, versions: Versions, now: datetime) -> Course:
    """The InferenceService is, or becomes, what the service asks for."""
    if before.phase is RolloutPhase.PROMOTING:
        if not _has_replaced_pods(before, versions):
            weight = _WHOLE if _runs(versions.candidate) else None
            return Course(_with_fields(before, weight=weight), beside=True)
        before = _with_fields(before, phase=RolloutPhase.DRAINING, weight=None, former_pods=(), since=_second(now))
    if before.phase is RolloutPhase.DRAINING and not _has_drained(before, now):
        return Course(before, beside=True, again=(before.since or now) + _DRAIN)
    if before.phase is RolloutPhase.DRAINING:
        return Course(_complete(before, versions.wanted, now))
    if before.phase is not RolloutPhase.COMPLETE or before.revision != versions.wanted:
        return Course(_complete(before, versions.wanted, before.since or now))
    return Course(before)


def _has_drained(before: RolloutStatus, now: datetime) -> bool:
    return now >= (before.since or now) + _DRAIN


def _complete(before: RolloutStatus, revision: str, since: datetime) -> RolloutStatus:
    return RolloutStatus(
        phase=RolloutPhase.COMPLETE,
        revision=revision,
        running=revision,
        since=_second(since),
        pod_template=before.pod_template,
        request=before.request,
    )


def _begun(service: AIMService, before: RolloutStatus, versions: Versions, now: datetime) -> RolloutStatus:
    return RolloutStatus(
        phase=RolloutPhase.PREPARING,
        revision=versions.wanted,
        running=before.running,
        since=_second(now),
        pod_template=before.pod_template,
        candidate=candidate_name(service, versions.wanted),
        request=before.request,
    )


def _prepared(state: RolloutStatus, rollout: Rollout, versions: Versions, now: datetime) -> Course:
    """The new version starts, and no request goes to it yet."""
    found = versions.candidate
    if found is not None and _runs(found) and found.name == state.candidate:
        return _stepped(state, rollout, 1, versions, now)
    since, words = state.since or now, _words(found)
    end = since + _duration(rollout.progress_deadline)
    if found is not None and found.status.status is StatusValue.FAILED:
        return _aborted(state, f"the new version has failed: {words}", now)
    if now >= end:
        return _aborted(state, f"the new version does not run after {rollout.progress_deadline}: {words}", now)
    return Course(_with_fields(state, message=words), held=True, beside=True, again=end)


def _under_way(before: RolloutStatus, rollout: Rollout, versions: Versions, request: str, now: datetime) -> Course:
    if request == Request.ABORT:
        return _aborted(before, f"annotation {labels.ANNOTATION_ROLLOUT} asks for it", now)
    if before.phase is RolloutPhase.PREPARING:
        return _prepared(before, rollout, versions, now)
    if not _runs(versions.candidate):
        return _aborted(before, f"the new version no longer runs: {_words(versions.candidate)}", now)
    if versions.exceeded:
        return _aborted(before, f"{versions.exceeded} while the new version answered {before.weight} %", now)
    if request == Request.PROMOTE:
        return _promoted(before, versions, now)
    step = before.step or 1
    if request == Request.CONTINUE:
        return _stepped(before, rollout, step + 1, versions, now)
    return _waited(before, rollout, step, versions, now)


def _stepped(before: RolloutStatus, rollout: Rollout, step: int, versions: Versions, now: datetime) -> Course:
    """The step with that number begins; behind the last one the new version replaces the old one."""
    if step > len(rollout.steps):
        return _promoted(before, versions, now)
    return _waited(_with_fields(before, since=_second(now), message=None), rollout, step, versions, now)


def _waited(before: RolloutStatus, rollout: Rollout, step: int, versions: Versions, now: datetime) -> Course:
    if step > len(rollout.steps):
        return _promoted(before, versions, now)
    here, since = rollout.steps[step - 1], before.since or now
    state = _with_fields(before, step=step, weight=here.weight)
    if here.pause is None:
        return Course(_with_fields(state, phase=RolloutPhase.PAUSED, message=None), held=True, beside=True)
    end = since + _duration(here.pause)
    if now >= end and before.step == step and versions.unread:
        waiting = _with_fields(state, phase=RolloutPhase.PROGRESSING, message=versions.unread)
        return Course(waiting, held=True, beside=True)
    if now >= end:
        return _stepped(before, rollout, step + 1, versions, now)
    state = _with_fields(state, phase=RolloutPhase.PROGRESSING, message=None)
    return Course(state, held=True, beside=True, again=end)


def _promoted(before: RolloutStatus, versions: Versions, now: datetime) -> Course:
    """The InferenceService gets the new version, whose requests go to the candidate until its pods are there."""
    former = {_hash(pod) for pod in versions.pods}
    state = _with_fields(
        before,
        phase=RolloutPhase.PROMOTING,
        running=versions.wanted,
        step=None,
        weight=_WHOLE,
        since=_second(now),
        pod_template=versions.template or None,
        former_pods=tuple(sorted(former - {""}))[:_MOST_FORMER],
        message=None,
    )
    return Course(state, beside=True)


def _aborted(before: RolloutStatus, why: str, now: datetime) -> Course:
    state = _with_fields(before, phase=RolloutPhase.ABORTED, step=None, weight=None, since=_second(now), message=why)
    return _kept_off(state, now)


def _kept_off(aborted: RolloutStatus, now: datetime) -> Course:
    """The former version answers alone; the new one ends once its last answers have."""
    if aborted.candidate is None:
        return Course(aborted, held=True)
    if _has_drained(aborted, now):
        return Course(_with_fields(aborted, candidate=None), held=True)
    return Course(aborted, held=True, beside=True, again=(aborted.since or now) + _DRAIN)


def _has_replaced_pods(before: RolloutStatus, versions: Versions) -> bool:
    former = {"", *before.former_pods}
    if not versions.pods:
        return versions.at_zero
    return all(is_serving(pod) and _hash(pod) not in former for pod in versions.pods)


def _hash(pod: Pod) -> str:
    return pod.metadata.labels.get(POD_REVISION, "")


def _runs(candidate: AIMService | None) -> bool:
    return candidate is not None and not candidate.deleting and candidate.status.status is StatusValue.RUNNING


def _words(candidate: AIMService | None) -> str:
    if candidate is None:
        return "its AIMService is being created"
    return f"AIMService {candidate.name}{ready_words(candidate.status.conditions) or f': {candidate.status.status}'}"


def _duration(text: str) -> timedelta:
    """A pause that is no duration, which an older schema may have let through, is none."""
    try:
        return timedelta(seconds=parse_seconds(text))
    except DurationError:
        return timedelta()


def _second(moment: datetime) -> datetime:
    """As it is stored."""
    return moment.replace(microsecond=0)


# The versions


def pod_template_of(workload: JsonObject) -> str:
    """Digest of the pods of a planned InferenceService; neither their number nor the names of mounts count."""
    predictor = workload["spec"]["predictor"]
    volumes = [one["persistentVolumeClaim"] for one in predictor["volumes"] if "persistentVolumeClaim" in one]
    pods = {name: value for name, value in predictor.items() if name not in _NO_POD}
    pods["containers"] = [{**one, "volumeMounts": None} for one in predictor["containers"]]
    pods["claims"] = sorted(one["claimName"] for one in volumes)
    return hashlib.sha256(canonical(pods)).hexdigest()[:_DIGITS]


def candidate_name(service: AIMService, version: str) -> str:
    """Name of the AIMService of a version, which no other version has."""
    return derive_name([service.name, "next"], [service.namespace, version])


def build_candidate(
    service: AIMService, rollout: Rollout, version: str, propagation: LabelPropagation | None = None
) -> Child:
    """The AIMService of the new version: without a route and an autoscaler of its own."""
    own = {labels.COMPONENT: labels.COMPONENT_CANDIDATE}
    left_out = ("rollout", "routing", "minReplicas", "maxReplicas", "autoScaling")
    spec = {name: value for name, value in to_json(service.spec).items() if name not in left_out}
    metadata = {
        "name": candidate_name(service, version),
        "namespace": service.namespace,
        "labels": child_labels(own, parent=service, controller="service", propagation=propagation),
    }
    body = kind_of(
        {"metadata": metadata, "spec": {**spec, "replicas": rollout.replicas, "routing": {"enabled": False}}},
        AIM_SERVICE,
    )
    return Child(SERVICES, body)


def is_candidate(other: AIMService, service: AIMService) -> bool:
    """Whether it was made for a new version of the service; any client can write an owner reference."""
    made = any(owner.uid == service.uid and owner.controller for owner in other.metadata.owner_references)
    return made and other.metadata.labels.get(labels.COMPONENT) == labels.COMPONENT_CANDIDATE


def former_candidates(candidates: Sequence[AIMService], kept: str | None) -> tuple[Delete, ...]:
    """What other versions left."""
    return tuple(
        Delete(SERVICES, one.namespace, one.name, one.uid, "its version is not rolled out any longer")
        for one in candidates
        if one.name != kept and not one.deleting
    )


def runs_as_wanted(workload: InferenceService, wanted: JsonObject) -> bool:
    """Whether an InferenceService has the image and the template of a body."""
    images = [one.image for one in workload.spec.predictor.containers]
    container = wanted["spec"]["predictor"]["containers"][0]
    same = all(
        wanted["metadata"]["labels"].get(key) == workload.metadata.labels.get(key)
        for key in (labels.TEMPLATE, labels.PROFILE)
    )
    return container["image"] in images and same


# What is reported

_REPORTED: Final = {
    RolloutPhase.PREPARING: ("RolloutPreparing", Observability.INFO),
    RolloutPhase.PROGRESSING: ("RolloutProgressing", Observability.INFO),
    RolloutPhase.PAUSED: ("RolloutPaused", Observability.INFO),
    RolloutPhase.PROMOTING: ("RolloutPromoting", Observability.INFO),
    RolloutPhase.DRAINING: ("RolloutDraining", Observability.INFO),
    RolloutPhase.ABORTED: ("RolloutAborted", Observability.WARNING),
}


def rolled_out(service: AIMService, state: RolloutStatus) -> Desired:
    """The condition `RolledOut`."""
    if state.phase is RolloutPhase.COMPLETE:
        return condition(ROLLED_OUT, True, "RolloutComplete", "the version that the service asks for runs")
    reason, observe = _REPORTED[state.phase]
    written = service.metadata.annotations.get(labels.ANNOTATION_ROLLOUT, "")
    words = ", ".join(Request)
    unknown = f"; annotation {labels.ANNOTATION_ROLLOUT} is {written[:64]!r}: set one of {words}"
    message = f"{_message(service, state)}{unknown if written != _request_of(service) else ''}"
    return condition(ROLLED_OUT, False, reason, message, observe)


def _message(service: AIMService, state: RolloutStatus) -> str:
    command = (
        f"kubectl annotate --overwrite aimservice {service.name} -n {service.namespace} {labels.ANNOTATION_ROLLOUT}="
    )
    steps = len(service.spec.rollout.steps) if service.spec.rollout else 0
    step = f"step {state.step} of {steps}, {state.weight} % of the requests go to the new version"
    if state.phase is RolloutPhase.PREPARING:
        return f"the new version starts, and gets no request yet: {state.message}"
    if state.phase is RolloutPhase.PROGRESSING:
        return f"{step}; its time is over, but {state.message}" if state.message else step
    if state.phase is RolloutPhase.PAUSED:
        return f"{step}; go on with {command}continue, or end it with {command}abort"
    if state.phase is RolloutPhase.PROMOTING:
        return "the new version answers all requests while the pods of the service are replaced"
    if state.phase is RolloutPhase.DRAINING:
        return "the pods of the service run the new version; the AIMService beside it ends in a moment"
    return f"{state.message}; the former version answers all requests. Change the spec, or try again: {command}retry"


def forget_request(service: AIMService) -> tuple[Patch, ...]:
    """Remove the annotation once the status says that it was carried out."""
    stored = service.status.rollout
    asked = _request_of(service)
    if not asked or stored is None or stored.request != asked:
        return ()
    body = {"metadata": {"annotations": {labels.ANNOTATION_ROLLOUT: None}}}
    metadata = service.metadata
    why = f"the rollout has done what it was asked for: {asked}"
    return (Patch(SERVICES, metadata.namespace, metadata.name, metadata.resource_version, body, why),)
