"""Discovery of a template's profile by a Job, with the credentials that it uses."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, TypeAlias

from aim_discovery import SERVICE_NAME
from aim_discovery.image_effects import PULL_SECRETS, inputs_key
from aim_discovery.scopes import Template
from aim_discovery.templates.attempts import INVALID_OUTPUT, RESULT_UNREADABLE, Attempts
from aim_discovery.templates.job import DiscoveryInputs
from aim_discovery.templates.job_log import JOB_LOG, JobLogParams, JobOutput
from aim_discovery.templates.output import InvalidOutputError, profile_and_sources
from aim_domain import (
    CREATION_REASONS,
    PodFacts,
    ResolutionScope,
    ResolvedReference,
    awaits_explanation,
    has_succeeded,
    inspect_job,
    inspect_pods,
    is_job_finished,
    labels,
    newest_pod,
    quiet_since,
    refused_component,
    refused_pods,
    wanted_logs,
)
from aim_domain.component_names import ComponentName
from aim_domain.parts import DISCOVERY_JOBS, DISCOVERY_PODS
from aim_domain.pull_secrets import SecretsParams
from controller_runtime import (
    BRIEFLY,
    UNREPORTED,
    Category,
    ClassifiedError,
    Component,
    Condition,
    ConditionStatus,
    Delete,
    Desired,
    Effect,
    Fact,
    Index,
    JsonObject,
    Observability,
    State,
    StatusValue,
    View,
    condition,
    find_condition,
    label_index,
    owner_index,
    scoped,
    to_json,
)
from controller_runtime.core import Job, Pod

SECRET_INTERVAL: Final = timedelta(seconds=60)
"""How often the Secrets of a refused discovery are read (FW-096)."""


@dataclass(frozen=True, slots=True)
class CredentialWatch:
    """What has become of the Secrets since the failure was noted.

    Attributes:
        corrected: one of them appeared, changed or went away.
        error: why the latest reading failed; then a correction cannot be seen.
        effects: the next reading.
    """

    corrected: bool = False
    error: ClassifiedError | None = None
    effects: tuple[Effect, ...] = ()


def watch_credentials(
    template: Template, inputs: DiscoveryInputs, namespace: str, attempts: Attempts, view: View
) -> CredentialWatch:
    """Compare with the versions that were read right after the failure; each failed attempt starts over.

    Those versions are a fact of their own, so that no later reading, least of all a failed one, replaces them.

    Args:
        namespace: where the Job runs.
    """
    names = sorted(set(secrets_of(inputs)))
    error = attempts.error
    if error is None or error.category is not Category.AUTH or not names:
        return CredentialWatch()
    params = SecretsParams(namespace=namespace, secrets=tuple(names))
    attempt = {**to_json(params), "attempt": attempts.failed, "inputs": attempts.spec_hash}
    noted = PULL_SECRETS.ask(inputs_key(template.uid, attempt), params)
    first = _fact(noted, view)
    if first is None:
        return CredentialWatch(effects=(noted,))
    if first.outcome is None:
        return CredentialWatch(error=first.error, effects=(_after(first, noted),))
    reading = PULL_SECRETS.ask(inputs_key(template.uid, to_json(params)), params)
    latest = _fact(reading, view)
    if latest is None or latest.observed_at <= first.observed_at:
        # All attempts share this fact: it may be left from an earlier one.
        latest = first
    if latest.outcome is not None and PULL_SECRETS.result_of(latest) != PULL_SECRETS.result_of(first):
        return CredentialWatch(corrected=True)
    return CredentialWatch(error=latest.error, effects=(_after(latest, reading),))


def _fact(effect: Effect, view: View) -> Fact | None:
    return PULL_SECRETS.look_up(view, SERVICE_NAME, effect.key).value


def _after(fact: Fact, effect: Effect) -> Effect:
    return replace(effect, not_before=fact.observed_at + SECRET_INTERVAL)


def secrets_of(inputs: DiscoveryInputs) -> Iterator[str]:
    """Names of the Secrets that the pull or the container of the Job uses."""
    yield from inputs.pull_secrets
    for variable in inputs.env:
        reference = variable.value_from.secret_key_ref if variable.value_from is not None else None
        if reference is not None and reference.name:
            yield reference.name


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
STUCK_REASONS: Final = frozenset({"ImagePullAuthFailure", "ImageNotFound", *CREATION_REASONS})
"""Why a pod does not start that does not start later either."""
_NOT_REPORTED: Final = MappingProxyType({UNREPORTED: State.PROGRESSING})
_JOB_KIND: Final = "batch/v1/Job"


@dataclass(frozen=True, slots=True)
class Memory:
    """What the status keeps of a discovery from one pass to the next.

    Attributes:
        profile, sources: JSON of the result in force, of an earlier discovery if need be (DI-217).
        reference: the latest Job.
    """

    attempts: Attempts = field(default_factory=Attempts)
    profile: JsonObject | None = None
    sources: list[JsonObject] | None = None
    reference: ResolvedReference | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a pass found out about the discovery of one template.

    Attributes:
        condition: the condition ``Discovered``.
        job, pods: the components of the same names; ``None`` where they do not apply.
        wants_job: a Job shall be created, as far as its own history is concerned (conditions 4, 5, 7 and 8 of 9.2).
        requeue_after: seconds after which the clock alone changes the answer.
    """

    condition: Desired
    memory: Memory
    job: Component | None = None
    pods: Component | None = None
    wants_job: bool = False
    effects: tuple[Effect, ...] = ()
    deletes: tuple[Delete, ...] = ()
    requeue_after: float | None = None


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
        return Finding(condition(DISCOVERED, True, INLINE, message), Memory(sources=sources))
    memory = _memory(template)
    if is_discovered(template, inputs):
        return _discovered(template, memory, inputs)
    jobs = view.select(JOBS_BY_OWNER, scoped(namespace, template.uid))
    if jobs.error is not None:
        fault = Component(ComponentName.DISCOVERY_JOB, errors=(jobs.error,), is_input=True)
        return Finding(_stored_condition(template), memory, fault)
    if inputs is None:
        return Finding(_stored_condition(template), memory, _not_created("The model is not resolved"))
    name = inputs.job_name(template.name)
    own = [job for job in jobs.items if job.name == name]
    current = next((job for job in own if not job.deleting), None)
    seen = _SeenDiscovery(template, inputs, namespace, view, now, _with_attempt(memory, current, now), others_wait)
    found = _absent(seen) if current is None else _of_job(seen, current)
    stale = (job for job in jobs.items if job.name != name and not job.deleting and not is_job_finished(job))
    deletes = (*found.deletes, *(_delete(job, "the inputs of the discovery have changed") for job in stale))
    # A Job of the name that is still going away would be taken for the new one (DI-303).
    return replace(found, wants_job=found.wants_job and not own, deletes=deletes)


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


def _memory(template: Template) -> Memory:
    """What is stored, without what an earlier in-line specification left (DI-206)."""
    status = template.status
    stored = find_condition(status.conditions, DISCOVERED)
    attempts, reference = Attempts.of(status.discovery), status.discovery_job
    if status.profile is None or (stored is not None and stored.reason == INLINE):
        return Memory(attempts, reference=reference)
    return Memory(attempts, to_json(status.profile), [to_json(source) for source in status.model_sources], reference)


def _discovered(template: Template, memory: Memory, inputs: DiscoveryInputs | None) -> Finding:
    stored = find_condition(template.status.conditions, ComponentName.DISCOVERY_PODS.condition)
    pods = None if stored is None else Component(ComponentName.DISCOVERY_PODS, State.READY, "PodsReady", "")
    attempts = memory.attempts if inputs is None else memory.attempts.succeeded(inputs.spec_hash)
    return Finding(_complete(), replace(memory, attempts=attempts), _job_done(), pods)


def _with_attempt(memory: Memory, job: Job | None, now: datetime) -> Memory:
    if job is None:
        return memory
    attempts, reference = memory.attempts, memory.reference
    created = job.metadata.creation_timestamp or now
    is_new = attempts.last is None or created > attempts.last or reference is None or reference.name != job.name
    return replace(memory, attempts=attempts.begun(created) if is_new else attempts, reference=job_reference(job))


@dataclass(frozen=True, slots=True)
class _SeenDiscovery:
    """A discovery that is not complete, as the pass finds it; ``memory`` counts the attempt of its Job."""

    template: Template
    inputs: DiscoveryInputs
    namespace: str
    view: View
    now: datetime
    memory: Memory
    others_wait: Callable[[], bool]

    @property
    def facts(self) -> PodFacts:
        return PodFacts(self.view, SERVICE_NAME, self.template.uid, self.now)

    def pods_of(self, job: Job) -> Sequence[Pod]:
        """The pods of Jobs of its name."""
        return self.view.select(PODS_BY_JOB, scoped(job.namespace, job.name)).items

    def pods(self, job: Job) -> tuple[Sequence[Pod], Component | None]:
        """The pods of the Job, and what they say."""
        pods = self.pods_of(job)
        name, facts = ComponentName.DISCOVERY_PODS, self.facts
        reported = (
            inspect_pods(name, pods, log_of=facts.log_of, events_of=facts.events_of, of_job=True) if pods else None
        )
        return pods, reported

    def stored_condition(self, type_: str) -> Condition | None:
        """The condition as it is stored."""
        return find_condition(self.template.status.conditions, type_)


def _of_job(seen: _SeenDiscovery, job: Job) -> Finding:
    return next(handler for fits, handler in _HANDLERS if fits(seen, job))(seen, job)


def _absent(seen: _SeenDiscovery) -> Finding:
    attempts, reference, spec_hash = seen.memory.attempts, seen.memory.reference, seen.inputs.spec_hash
    name = seen.inputs.job_name(seen.template.name)
    is_latest = reference is not None and reference.name == name
    if not attempts.is_about(spec_hash):
        attempts = Attempts(last=attempts.last)
    elif is_latest and not attempts.failure and attempts.last is not None:
        lost = ClassifiedError(
            Category.INFRASTRUCTURE, RESULT_UNREADABLE, f"Job {name} is gone and its result was not read"
        )
        attempts = attempts.failed_with(lost, spec_hash, seen.now)
    if not attempts.failure:
        waiting = _not_created("No discovery Job has been created yet")
        return Finding(_awaiting(), replace(seen.memory, attempts=attempts), waiting, wants_job=True)
    found = _between_attempts(seen, attempts)
    if is_latest:
        return replace(found, wants_job=found.requeue_after is None)
    # The Job that failed was another one: this one need not wait.
    return replace(found, wants_job=True, requeue_after=None, effects=())


def _count_attempt(seen: _SeenDiscovery, job: Job) -> Finding:
    found = _between_attempts(seen, seen.memory.attempts)
    if found.requeue_after is not None:
        return found
    # It is in the way of the next one (DI-303).
    return replace(found, deletes=(_delete(job, "the next attempt is due"),))


def _completed(seen: _SeenDiscovery, job: Job) -> Finding:
    fact = JOB_LOG.look_up(seen.view, SERVICE_NAME, job.uid).value
    if fact is None or fact.error is not None:
        due = None if fact is None else fact.observed_at + UNREADABLE_RETRY
        effect = JOB_LOG.ask(job.uid, JobLogParams(namespace=job.namespace, job=job.name), due)
        why = "Reading the result" if fact is None or fact.error is None else fact.error.message
        reading = _progressing("ReadingResult", why)
        reading = _until_known(seen, job, reading) if fact is None else reading
        return Finding(_awaiting(), seen.memory, reading, effects=(effect,))
    try:
        profile, sources = _result(JOB_LOG.result_of(fact) or JobOutput(), seen.template)
    except InvalidOutputError as fault:
        return _fail(seen, ClassifiedError(Category.INVALID_SPEC, INVALID_OUTPUT, f"output of Job {job.key}: {fault}"))
    attempts = seen.memory.attempts.succeeded(seen.inputs.spec_hash)
    return Finding(_complete(), Memory(attempts, profile, sources, seen.memory.reference), _job_done())


def _failed(seen: _SeenDiscovery, job: Job) -> Finding:
    pods, observed = seen.pods(job)
    effects = seen.facts.unread_logs(wanted_logs(pods, of_job=True))
    if effects:
        reading = _progressing("ReadingFailure", f"Job {job.key} has failed; reading why")
        return Finding(_awaiting(), seen.memory, _until_known(seen, job, reading), effects=effects)
    unexplained = awaits_explanation(job, newest_pod(pods), seen.now)
    if unexplained is not None:
        waiting = _progressing("ReadingFailure", f"Job {job.key} has failed; waiting for its pod to say why")
        return Finding(_awaiting(), seen.memory, waiting, observed, requeue_after=unexplained.total_seconds())
    component = inspect_job(ComponentName.DISCOVERY_JOB, job, what=f"Job {job.key}")
    errors = (*(observed.errors if observed is not None else ()), *component.errors)
    return replace(_fail(seen, errors[0]), pods=observed)


def _without_pod(seen: _SeenDiscovery, job: Job) -> Finding:
    """A Job that has no pod: its Events say what refuses one (DI-391)."""
    facts, what = seen.facts, f"Job {job.key}"
    effects, left = facts.due_events_about(job), facts.patience(job.metadata.creation_timestamp)
    refused = refused_pods(facts.events_about(job), job)
    if refused is None:
        # A new Job's pod is about to come, and what follows at once is not worth a write.
        component = inspect_job(ComponentName.DISCOVERY_JOB, job, what=what, pods=() if left is None else None)
        return Finding(_awaiting(), seen.memory, component, effects=effects, requeue_after=left)
    component = refused_component(ComponentName.DISCOVERY_JOB, what, refused, block="jobs")
    pods = replace(component, name=ComponentName.DISCOVERY_PODS)
    return Finding(_awaiting(), seen.memory, component, pods, effects=effects)


def _active(seen: _SeenDiscovery, job: Job) -> Finding:
    pods, observed = seen.pods(job)
    if not pods:
        return _without_pod(seen, job)
    lasts = seen.facts.patience(job.metadata.creation_timestamp) is None
    component = inspect_job(ComponentName.DISCOVERY_JOB, job, what=f"Job {job.key}", pods=pods if lasts else None)
    stored = seen.stored_condition(ComponentName.DISCOVERY_PODS.condition)
    observed = None if observed is None else _once_it_lasts(observed, pods)
    if observed is not None and observed.hold is not None and observed.hold.covers(stored, seen.now):
        # An effect that was asked for is carried out, also when the pod has long ended by then.
        return Finding(_awaiting(), seen.memory, component, observed)
    found = Finding(_awaiting(), seen.memory, component, observed, effects=seen.facts.due_events(newest_pod(pods)))
    if observed is None or not observed.errors or observed.effective_reason not in STUCK_REASONS:
        return found
    same = stored is not None and stored.reason == observed.effective_reason
    since = (stored.last_transition_time if same and stored is not None else None) or seen.now
    left = (STUCK_BEFORE_OTHERS if seen.others_wait() else STUCK_AFTER) - (seen.now - since)
    if left > timedelta():
        # Others may begin to wait without anything telling this template.
        return replace(found, requeue_after=min(left, STUCK_BEFORE_OTHERS).total_seconds())
    deletes = (_delete(job, "its pod cannot start"),)
    return replace(_fail(seen, observed.errors[0]), pods=observed, deletes=deletes)


_Handler: TypeAlias = Callable[[_SeenDiscovery, Job], Finding]
_HANDLERS: Final[Sequence[tuple[Callable[[_SeenDiscovery, Job], bool], _Handler]]] = (
    (lambda seen, _: bool(seen.memory.attempts.failure), _count_attempt),
    (lambda seen, job: has_succeeded(job, seen.pods_of(job)), _completed),
    (lambda _, job: is_job_finished(job), _failed),
    (lambda _, __: True, _active),
)
"""What is made of a Job, by how far it is; the first that fits."""


def _fail(seen: _SeenDiscovery, error: ClassifiedError) -> Finding:
    return _between_attempts(seen, seen.memory.attempts.failed_with(error, seen.inputs.spec_hash, seen.now))


def _between_attempts(seen: _SeenDiscovery, attempts: Attempts) -> Finding:
    """What is shown between a failed attempt and the next Job; ``requeue_after`` is ``None`` when that is due."""
    error = attempts.error
    assert error is not None
    stored = seen.stored_condition(DISCOVERED)
    noted = stored if stored is not None and stored.reason == FAILED else None
    noted = noted if attempts.failed == seen.memory.attempts.failed else None
    recorded = seen.now if noted is None else noted.last_transition_time
    wait = max(timedelta(), (attempts.due(recorded) or seen.now) - seen.now)
    message = f"{error} (failed attempts: {attempts.failed}; next attempt in {round(wait.total_seconds())} s)"
    # The remaining wait is no reason to write the status every second (DI-307).
    text = message if noted is None else noted.message
    secrets = watch_credentials(seen.template, seen.inputs, seen.namespace, attempts, seen.view)
    errors = (error,) if secrets.error is None else (error, secrets.error)
    return Finding(
        condition(DISCOVERED, False, FAILED, text, Observability.WARNING),
        replace(seen.memory, attempts=attempts),
        Component(ComponentName.DISCOVERY_JOB, errors=errors),
        effects=secrets.effects if wait else (),
        requeue_after=wait.total_seconds() if wait and not secrets.corrected else None,
    )


def _once_it_lasts(component: Component, pods: Sequence[Pod]) -> Component:
    """A new pod that nothing is known against goes unmentioned: most need no longer for all they do (DI-285)."""
    (pod,) = newest_pod(pods)
    since = None if component.errors else quiet_since(pod)
    return component if since is None else component.hold_for(BRIEFLY, since=since, over=_NOT_REPORTED)


def _until_known(seen: _SeenDiscovery, job: Job, reading: Component) -> Component:
    """The status stands until the result is read, if it is of this Job: else the attempt could be lost (DI-292)."""
    noted = seen.template.status.discovery_job
    return reading.hold_until_known(whole=True) if noted is not None and noted.uid == job.uid else reading


def job_reference(job: Job) -> ResolvedReference:
    """For ``status.discoveryJob`` (DI-032)."""
    return ResolvedReference(
        name=job.name, namespace=job.namespace, kind=_JOB_KIND, uid=job.uid, scope=ResolutionScope.NAMESPACE
    )


def _result(outcome: JobOutput, template: Template) -> tuple[JsonObject, list[JsonObject]]:
    if outcome.element is None:
        raise InvalidOutputError(outcome.fault or "nothing was printed")
    return profile_and_sources(outcome.element, template.spec.type)


def _stored_condition(template: Template) -> Desired:
    stored = find_condition(template.status.conditions, DISCOVERED)
    if stored is None or stored.reason == INLINE:
        return _awaiting()
    return condition(DISCOVERED, stored.status == ConditionStatus.TRUE, stored.reason, stored.message)


def _awaiting() -> Desired:
    return condition(DISCOVERED, False, AWAITING, "Discovery of this profile has not started")


def _complete() -> Desired:
    return condition(DISCOVERED, True, COMPLETE, "The profile has been discovered")


def _job_done() -> Component:
    return Component(ComponentName.DISCOVERY_JOB, State.READY)


def _not_created(message: str) -> Component:
    return Component(ComponentName.DISCOVERY_JOB, State.PENDING, JOB_NOT_CREATED, message)


def _progressing(reason: str, message: str) -> Component:
    return Component(ComponentName.DISCOVERY_JOB, State.PROGRESSING, reason, message)


def _delete(job: Job, why: str) -> Delete:
    return Delete(DISCOVERY_JOBS, job.namespace, job.name, job.uid, why)
