"""How far the discovery of a template is: from its status, its Jobs, and what was read of them (sections 9, 12, 13)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from aim_discovery.effect_kinds import SERVICE_NAME, EffectKind
from aim_discovery.scopes import Template
from aim_discovery.templates.attempts import INVALID_OUTPUT, RESULT_UNREADABLE, Attempts
from aim_discovery.templates.credentials import watch_credentials
from aim_discovery.templates.identity import DiscoveryInputs
from aim_discovery.templates.output import InvalidOutputError, profile_and_sources
from aim_shared.api import (
    ConditionStatus,
    Job,
    Pod,
    ResolutionScope,
    ResolvedReference,
    StatusValue,
    find_condition,
    labels,
    to_json,
)
from aim_shared.bus.fact import get_fact
from aim_shared.bus.part import Index, label_index, owner_index, scoped
from aim_shared.bus.parts import DISCOVERY_JOBS, DISCOVERY_PODS, FACTS
from aim_shared.bus.view import View
from aim_shared.errors import AimError, Category
from aim_shared.json import JsonObject
from aim_shared.pods.facts import PATIENCE, PodFacts
from aim_shared.reconcile.component_names import ComponentName
from aim_shared.reconcile.components import Component, Dependency, Observability, State
from aim_shared.reconcile.conditions import Desired, condition
from aim_shared.reconcile.inspect_jobs import awaits_explanation, inspect_job, is_job_complete, is_job_finished
from aim_shared.reconcile.inspect_pods import CREATION_REASONS, inspect_pods, is_unschedulable, newest_pod, wanted_logs
from aim_shared.reconcile.plan import Delete, Effect

JOBS_BY_OWNER: Final = owner_index(DISCOVERY_JOBS)
PODS_BY_JOB: Final[Index[Pod]] = label_index(DISCOVERY_PODS, labels.JOB_NAME)

JOB_NOT_CREATED: Final = "JobNotCreated"
DISCOVERED: Final = "Discovered"
COMPLETE: Final = "DiscoveryComplete"
INLINE: Final = "InlineModelSources"
AWAITING: Final = "AwaitingDiscovery"
FAILED: Final = "DiscoveryFailed"

UNREADABLE_RETRY: Final = timedelta(seconds=5)
"""Wait between attempts to read a result (DI-260)."""
STUCK_AFTER: Final = timedelta(minutes=5)
"""How long a pod may be unable to start before its attempt counts as failed (DI-288)."""
STUCK_BEFORE_OTHERS: Final = timedelta(seconds=30)
"""The same while other templates wait for the place that it holds."""
_STUCK_REASONS: Final = frozenset({"ImagePullAuthFailure", "ImageNotFound", *CREATION_REASONS})
_JOB_KIND: Final = "batch/v1/Job"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a pass found out about the discovery of one template.

    Attributes:
        job, pods: the components of the same names; ``None`` where they do not apply.
        condition: the condition ``Discovered``.
        profile, sources: JSON of the result in force, of an earlier discovery if need be (DI-217).
        wants_job: a Job shall be created, as far as its own history is concerned (conditions 4, 5, 7 and 8 of 9.2).
        look_again: when the clock alone changes the answer.
        settling: the stored status still holds until an effect that has just been asked for brings the next one.
    """

    condition: Desired
    attempts: Attempts = field(default_factory=Attempts)
    job: Component | None = None
    pods: Component | None = None
    profile: JsonObject | None = None
    sources: list[JsonObject] | None = None
    reference: ResolvedReference | None = None
    wants_job: bool = False
    effects: tuple[Effect, ...] = ()
    deletes: tuple[Delete, ...] = ()
    look_again: datetime | None = None
    settling: bool = False


def discovery_of(
    template: Template,
    inputs: DiscoveryInputs | None,
    namespace: str,
    view: View,
    now: datetime,
    *,
    others_wait: Callable[[], bool],
) -> Finding:
    """Judge the discovery.

    Args:
        inputs: ``None`` while the model is not resolved.
        namespace: where its Jobs run.
        others_wait: whether the limit on running Jobs holds other templates back.
    """
    if template.spec.model_sources:
        message = "Model sources provided in-line in spec"
        sources = [to_json(source) for source in template.spec.model_sources]
        return Finding(condition(DISCOVERED, True, INLINE, message), sources=sources)
    known = _known(template)
    if is_discovered(template, inputs):
        return _discovered(template, known, inputs)
    jobs = view.select(JOBS_BY_OWNER, template.uid)
    if jobs.error is not None:
        fault = Component(ComponentName.DISCOVERY_JOB, errors=(jobs.error,), is_input=True)
        return replace(known, job=fault, condition=_stored_condition(template))
    if inputs is None:
        return replace(known, job=_not_created("The model is not resolved"), condition=_stored_condition(template))
    return _Progress(template, inputs, namespace, view, now, known, others_wait).judge(jobs.items)


def is_discovered(template: Template, inputs: DiscoveryInputs | None) -> bool:
    """Whether the stored result is of the present inputs (DI-205, DI-217, DI-218)."""
    status = template.status
    stored = find_condition(status.conditions, DISCOVERED)
    attempts = Attempts.of(status.discovery)
    if inputs is not None and not attempts.is_about(inputs.spec_hash):
        return False
    if stored is not None and stored.reason in (COMPLETE, INLINE):
        return stored.reason == COMPLETE and stored.status == ConditionStatus.TRUE
    return status.status == StatusValue.READY and status.profile is not None


def _known(template: Template) -> Finding:
    """What is stored, without what an earlier in-line specification left (DI-206)."""
    status = template.status
    stored = find_condition(status.conditions, DISCOVERED)
    base = Finding(_awaiting(), Attempts.of(status.discovery), reference=status.discovery_job)
    if status.profile is None or (stored is not None and stored.reason == INLINE):
        return base
    return replace(base, profile=to_json(status.profile), sources=[to_json(source) for source in status.model_sources])


def _discovered(template: Template, known: Finding, inputs: DiscoveryInputs | None) -> Finding:
    job = Component(ComponentName.DISCOVERY_JOB, State.READY, dependency=Dependency.DOWNSTREAM)
    stored = find_condition(template.status.conditions, ComponentName.DISCOVERY_PODS.condition)
    pods = None if stored is None else Component(ComponentName.DISCOVERY_PODS, State.READY, "PodsReady", "")
    attempts = known.attempts if inputs is None else known.attempts.succeeded(inputs.spec_hash)
    return replace(known, condition=_complete(), job=job, pods=pods, attempts=attempts)


@dataclass(frozen=True, slots=True)
class _Progress:
    """A discovery that is not complete."""

    template: Template
    inputs: DiscoveryInputs
    namespace: str
    view: View
    now: datetime
    known: Finding
    others_wait: Callable[[], bool]

    @property
    def job_name(self) -> str:
        return self.inputs.job_name(self.template.name)

    def judge(self, jobs: Sequence[Job]) -> Finding:
        own = [job for job in jobs if job.name == self.job_name]
        current = next((job for job in own if not job.deleting), None)
        stale = [job for job in jobs if job.name != self.job_name and not job.deleting and not is_job_finished(job)]
        deletes = tuple(_delete(job, "the inputs of the discovery have changed") for job in stale)
        if current is None:
            found = self._without_job()
            # A Job of the name that is still going away would be taken for the new one (DI-303).
            found = replace(found, wants_job=found.wants_job and not own)
        else:
            found = self._with_job(current)
        return replace(found, deletes=(*found.deletes, *deletes))

    # Without a Job

    def _without_job(self) -> Finding:
        attempts, reference = self.known.attempts, self.known.reference
        about = attempts.is_about(self.inputs.spec_hash)
        same_job = reference is not None and reference.name == self.job_name
        if about and same_job and not attempts.failure and attempts.last is not None:
            message = f"Job {self.job_name} is gone and its result was not read"
            lost = AimError(Category.INFRASTRUCTURE, RESULT_UNREADABLE, message)
            attempts = attempts.failed_with(lost, self.inputs.spec_hash, self.now)
        if not about:
            attempts = Attempts(last=attempts.last)
        if not attempts.failure:
            waiting = _not_created("No discovery Job has been created yet")
            return replace(self.known, attempts=attempts, job=waiting, condition=_awaiting(), wants_job=True)
        found = self._after_failure(attempts)
        if not same_job:
            return replace(found, wants_job=True, look_again=None, effects=())
        return replace(found, wants_job=found.look_again is None)

    def _after_failure(self, attempts: Attempts) -> Finding:
        """What is shown between a failed attempt and the next Job (DI-306)."""
        error = attempts.error
        assert error is not None
        stored = find_condition(self.template.status.conditions, DISCOVERED)
        noted = stored is not None and stored.reason == FAILED and attempts.failed == self.known.attempts.failed
        recorded = stored.last_transition_time if noted and stored is not None else self.now
        due = attempts.due(recorded)
        wait = max(timedelta(), (due or self.now) - self.now)
        message = f"{error} (failed attempts: {attempts.failed}; next attempt in {round(wait.total_seconds())} s)"
        # The remaining wait is no reason to write the status every second (DI-307).
        text = stored.message if noted and stored is not None else message
        secrets = watch_credentials(self.template, self.inputs, self.namespace, attempts, self.view)
        errors = (error,) if secrets.error is None else (error, secrets.error)
        return replace(
            self.known,
            attempts=attempts,
            job=Component(ComponentName.DISCOVERY_JOB, errors=errors, dependency=Dependency.DOWNSTREAM),
            condition=condition(DISCOVERED, False, FAILED, text, Observability.WARNING),
            look_again=due if wait and not secrets.corrected else None,
            effects=secrets.effects if wait else (),
        )

    # With a Job

    def _with_job(self, job: Job) -> Finding:
        attempts, reference = self.known.attempts, self.known.reference
        created = job.metadata.creation_timestamp or self.now
        is_new = attempts.last is None or created > attempts.last or reference is None or reference.name != job.name
        if is_new:
            attempts = attempts.begun(created)
        known = replace(self.known, attempts=attempts, reference=job_reference(job))
        return replace(self, known=known)._judge_job(job)

    def _judge_job(self, job: Job) -> Finding:
        pods = self.view.select(PODS_BY_JOB, scoped(job.namespace, job.name)).items
        if self.known.attempts.failure:
            return self._after_failed_job(job)
        if is_job_complete(job):
            return self._completed(job)
        if is_job_finished(job):
            return self._failed_job(job, pods)
        return self._active(job, pods)

    def _after_failed_job(self, job: Job) -> Finding:
        """The Job of a counted failure is in the way of the next one when that is due (DI-303)."""
        found = self._after_failure(self.known.attempts)
        if found.look_again is not None:
            return found
        return replace(found, deletes=(_delete(job, "the next attempt is due"),))

    def _completed(self, job: Job) -> Finding:
        lookup = get_fact(self.view, FACTS, SERVICE_NAME, EffectKind.JOB_LOG, job.uid)
        fact = lookup.value
        if fact is None or fact.error is not None:
            due = None if fact is None else fact.observed_at + UNREADABLE_RETRY
            params: JsonObject = {"namespace": job.namespace, "job": job.name}
            why = "Reading the result" if fact is None or fact.error is None else fact.error.message
            return replace(
                self.known,
                condition=_awaiting(),
                job=_progressing("ReadingResult", why),
                effects=(Effect(EffectKind.JOB_LOG, job.uid, params, not_before=due),),
                settling=fact is None and self._is_noted(job),
            )
        outcome: JsonObject = fact.outcome or {}
        try:
            profile, sources = _result(outcome, self.template)
        except InvalidOutputError as fault:
            error = AimError(Category.INVALID_SPEC, INVALID_OUTPUT, f"output of Job {job.key}: {fault}")
            return self._record(error)
        return replace(
            self.known,
            condition=_complete(),
            attempts=self.known.attempts.succeeded(self.inputs.spec_hash),
            job=Component(ComponentName.DISCOVERY_JOB, State.READY, dependency=Dependency.DOWNSTREAM),
            profile=profile,
            sources=sources,
        )

    def _failed_job(self, job: Job, pods: Sequence[Pod]) -> Finding:
        facts = PodFacts(self.view, SERVICE_NAME, self.template.uid)
        effects = facts.unread_logs(wanted_logs(pods, of_job=True))
        if effects:
            reading = _progressing("ReadingFailure", f"Job {job.key} has failed; reading why")
            return replace(
                self.known, condition=_awaiting(), job=reading, effects=effects, settling=self._is_noted(job)
            )
        unexplained = awaits_explanation(job, newest_pod(pods), self.now)
        if unexplained is not None:
            waiting = _progressing("ReadingFailure", f"Job {job.key} has failed; waiting for its pod to say why")
            return replace(
                self.known,
                condition=_awaiting(),
                job=waiting,
                pods=_observed(pods, facts),
                look_again=self.now + unexplained,
            )
        observed = _observed(pods, facts)
        component = inspect_job(ComponentName.DISCOVERY_JOB, job, what=f"Job {job.key}")
        errors = (*(observed.errors if observed is not None else ()), *component.errors)
        return replace(self._record(errors[0]), pods=observed)

    def _active(self, job: Job, pods: Sequence[Pod]) -> Finding:
        facts = PodFacts(self.view, SERVICE_NAME, self.template.uid)
        observed = _observed(pods, facts)
        component = inspect_job(ComponentName.DISCOVERY_JOB, job, what=f"Job {job.key}")
        effects = facts.due_events(newest_pod(pods))
        running = replace(self.known, condition=_awaiting(), job=component, pods=observed, effects=effects)
        quiet_until = self._quiet_until(pods, observed)
        if quiet_until is not None:
            # An effect that was asked for is carried out, also when the pod has long ended by then.
            return replace(running, pods=None, effects=(), look_again=quiet_until)
        if observed is None or not observed.errors or observed.effective_reason not in _STUCK_REASONS:
            return running
        stored = find_condition(self.template.status.conditions, ComponentName.DISCOVERY_PODS.condition)
        same = stored is not None and stored.reason == observed.effective_reason
        since = (stored.last_transition_time if same and stored is not None else None) or self.now
        patience = STUCK_BEFORE_OTHERS if self.others_wait() else STUCK_AFTER
        if self.now - since < patience:
            # Others may begin to wait without anything telling this template.
            return replace(running, look_again=min(since + patience, self.now + STUCK_BEFORE_OTHERS))
        failed = self._record(observed.errors[0])
        return replace(failed, pods=observed, deletes=(_delete(job, "its pod can not start"),))

    def _quiet_until(self, pods: Sequence[Pod], observed: Component | None) -> datetime | None:
        """Until when a new pod that nothing is known against goes unmentioned: most need no longer for all they do."""
        stored = find_condition(self.template.status.conditions, ComponentName.DISCOVERY_PODS.condition)
        if observed is None or observed.errors or stored is not None:
            return None
        (pod,) = newest_pod(pods)
        created = pod.metadata.creation_timestamp
        is_new = created is not None and timedelta() <= self.now - created < PATIENCE
        return created + PATIENCE if created is not None and is_new and not is_unschedulable(pod) else None

    def _is_noted(self, job: Job) -> bool:
        """Whether the stored status is of this Job, so that the attempt is not lost with it (DI-292)."""
        noted = self.template.status.discovery_job
        return noted is not None and noted.uid == job.uid

    def _record(self, error: AimError) -> Finding:
        return self._after_failure(self.known.attempts.failed_with(error, self.inputs.spec_hash, self.now))


def _observed(pods: Sequence[Pod], facts: PodFacts) -> Component | None:
    if not pods:
        return None
    name = ComponentName.DISCOVERY_PODS
    return inspect_pods(name, pods, log_of=facts.log_of, events_of=facts.events_of, of_job=True)


def job_reference(job: Job) -> ResolvedReference:
    """For ``status.discoveryJob`` (DI-032)."""
    return ResolvedReference(
        name=job.name, namespace=job.namespace, kind=_JOB_KIND, uid=job.uid, scope=ResolutionScope.NAMESPACE
    )


def _result(outcome: JsonObject, template: Template) -> tuple[JsonObject, list[JsonObject]]:
    element = outcome.get("element")
    if not isinstance(element, dict):
        raise InvalidOutputError(str(outcome.get("fault") or "nothing was printed"))
    return profile_and_sources(element, template.spec.type)


def _stored_condition(template: Template) -> Desired:
    stored = find_condition(template.status.conditions, DISCOVERED)
    if stored is None or stored.reason == INLINE:
        return _awaiting()
    return condition(DISCOVERED, stored.status == ConditionStatus.TRUE, stored.reason, stored.message)


def _awaiting() -> Desired:
    return condition(DISCOVERED, False, AWAITING, "The image has not been asked for this profile yet")


def _complete() -> Desired:
    return condition(DISCOVERED, True, COMPLETE, "The profile has been discovered")


def _not_created(message: str) -> Component:
    return Component(
        ComponentName.DISCOVERY_JOB, State.PENDING, JOB_NOT_CREATED, message, dependency=Dependency.DOWNSTREAM
    )


def _progressing(reason: str, message: str) -> Component:
    return Component(ComponentName.DISCOVERY_JOB, State.PROGRESSING, reason, message, dependency=Dependency.DOWNSTREAM)


def _delete(job: Job, why: str) -> Delete:
    return Delete(DISCOVERY_JOBS, job.namespace, job.name, job.uid, why)
