"""One pass of an AIMClusterModelSource: start a sync, conclude one, or wait (model-sync.md sections 9 to 16)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from aim_domain import AIMClusterModelSource, resolve_config
from aim_domain.parts import CLUSTER_MODELS
from aim_model_sync.catalogue import Elsewhere, Managed, left_by_predecessor, managed_models, refusals
from aim_model_sync.conclusion import (
    Result,
    awaited,
    broken_off,
    concluded,
    postponed,
    recounted,
    rejected,
    rejudged,
    started,
    unresolved_images,
)
from aim_model_sync.conditions import is_told
from aim_model_sync.effect_kinds import PULL_SECRETS, SERVICE_NAME, SYNC, SecretParams, SyncParams
from aim_model_sync.model import build_model
from aim_model_sync.outcome import SyncOutcome
from aim_model_sync.progress import Progress
from aim_model_sync.schedule import interval_seconds, start_of_overdue
from aim_model_sync.selection import Choice, choose
from aim_model_sync.selectors import pinned_images, selector_texts
from aim_model_sync.spec_problem import spec_problem
from aim_model_sync.words import counted
from controller_runtime import (
    FACTS,
    IMMEDIATELY,
    Category,
    ClassifiedError,
    Effect,
    Event,
    EventType,
    Plan,
    View,
    get_fact,
    to_json,
)
from oci_registry import SecretReason

LISTING_GRACE: Final = 10.0
"""Seconds during which models that are not known leave the conditions alone (MS-283)."""
MODELS_CREATED: Final = "ModelsCreated"


@dataclass(frozen=True, slots=True)
class _Pass:
    """What every step of a pass needs."""

    source: AIMClusterModelSource
    view: View
    now: datetime
    namespace: str
    interval: float
    progress: Progress
    managed: Managed


def reconciler(namespace: str) -> Callable[[AIMClusterModelSource, View, datetime], Plan]:
    """The reconcile function of a service whose pull secrets are in this namespace."""

    def reconcile(source: AIMClusterModelSource, view: View, now: datetime) -> Plan:
        managed = managed_models(view, source)
        problem = spec_problem(source.spec)
        if problem is not None:
            known = None if managed.error else len(managed.models)
            return rejected(source, problem, known, now)
        progress = Progress.of(
            source,
            get_fact(view, FACTS, SERVICE_NAME, SYNC, source.uid).value,
            get_fact(view, FACTS, SERVICE_NAME, PULL_SECRETS, source.uid).value,
        )
        interval = interval_seconds(source.spec.sync_interval)
        return _step(_Pass(source, view, now, namespace, interval, progress, managed))

    return reconcile


def _step(this: _Pass) -> Plan:
    progress, failing = this.progress, this.view.failure is not None
    if progress.is_answered or (failing and progress.is_unfinished):
        return _conclude(this)
    due = progress.due(this.interval)
    if due is None or due <= this.now:
        return _start(this, due)
    if progress.is_unfinished:
        return _conclude(this)
    return _wait(this, due)


# Starting


def _start(this: _Pass, due: datetime | None) -> Plan:
    """Ask for a sync; asking again while one runs changes nothing (MS-251)."""
    source, spec = this.source, this.source.spec
    if source.status.status is None and this.progress.fact is None:
        return replace(awaited(source, this.now), requeue_after=IMMEDIATELY)
    params = SyncParams(
        source=source.name,
        uid=source.uid,
        generation=source.metadata.generation,
        attempt=this.progress.attempt,
        registry=spec.registry,
        interval=this.interval,
        selectors=selector_texts(spec),
        secrets=tuple(secret.name for secret in spec.image_pull_secrets if secret.name),
    )
    not_before = None if due is None else start_of_overdue(due, this.now, source.uid)
    effect = Effect(SYNC, source.uid, to_json(params), not_before)
    return replace(started(source, this.now), effects=(effect,))


# Concluding


def _conclude(this: _Pass) -> Plan:
    """Models and status that follow from the result of a sync."""
    outcome, error = this.progress.outcome, this.progress.failure
    if outcome is None:
        assert error is not None, "a fact has an outcome or an error"
        return _waiting(this, broken_off(this.source, error, this.now))
    config = resolve_config(this.view, None, None)
    unknown = this.managed.error or config.error
    if unknown is not None:
        return _without_models(this, unknown)
    left = left_by_predecessor(this.view, this.source)
    if left is not None:
        # The removal of each of them brings a pass.
        return postponed(this.source, left, this.now)
    judged = _judged(this, outcome)
    choice = _choice(this, outcome)
    models = tuple(build_model(this.source, image, config.spec.label_propagation) for image in choice.create)
    failure = this.view.failure
    there = len(this.managed.models)
    result = Result(
        judged,
        outcome,
        this.progress.fact.observed_at if this.progress.fact else this.now,
        models=there if failure else there + len(models),
        withheld=choice.withheld,
        missing=len(models) if failure else 0,
        collisions=tuple(map(str, choice.collisions)),
        failure=failure,
    )
    done = concluded(this.source, result, this.namespace, this.now)
    unresolved = unresolved_images(this.source, result)
    events = (*_told(this, done, outcome), *unresolved, *_created(len(models) if failure is None else 0))
    return _waiting(this, replace(done, children=models, events=events, retry=_retried(failure)))


def _judged(this: _Pass, outcome: SyncOutcome) -> SyncOutcome:
    """The outcome with what models report of the images that no request looked for (MS-385)."""
    return outcome.judged(refusals(this.view, this.managed, pinned_images(this.source.spec)))


def _choice(this: _Pass, outcome: SyncOutcome) -> Choice:
    there = len(this.managed.models)
    choice = choose(
        outcome.images(),
        managed=this.managed.images,
        has_model=Elsewhere(this.view, frozenset(model.name for model in this.managed.models)),
        is_taken=lambda name: _is_taken(this.view, name),
        capacity=max(0, this.source.spec.max_models - there),
    )
    # Of an enormous set the tail is only counted; it lies beyond any limit.
    kept = sum(len(found.versions) for one in outcome.selectors for found in one.found)
    return replace(choice, withheld=choice.withheld + outcome.available - kept)


def _is_taken(view: View, name: str) -> bool:
    """Whether a model has the name; it is of another image, or the name would not be asked for (MS-232, MS-233)."""
    return view.get(CLUSTER_MODELS, None, name).value is not None


def _without_models(this: _Pass, error: ClassifiedError) -> Plan:
    """Nothing is created while the models are not known; the status tells it after a while (MS-283)."""
    assert this.progress.fact is not None
    patience = LISTING_GRACE - (this.now - this.progress.fact.observed_at).total_seconds()
    if patience > 0:
        return Plan(retry=error, retry_within=patience)
    return replace(broken_off(this.source, error, this.now, listing=True), retry=error)


def _retried(failure: ClassifiedError | None) -> ClassifiedError | None:
    """A failed creation is tried again whatever the cause, with the registries' answers at hand (MS-235, MS-276)."""
    return None if failure is None else replace(failure, category=Category.INFRASTRUCTURE)


def _told(this: _Pass, done: Plan, outcome: SyncOutcome) -> tuple[Event, ...]:
    """What stands is told once per sync, not by every pass that looks at its result again (MS-345, MS-348)."""
    if this.progress.is_answered and this.view.failure is None:
        return (*done.events, *_secret_events(outcome))
    return tuple(event for event in done.events if not event.standing)


def _secret_events(outcome: SyncOutcome) -> tuple[Event, ...]:
    """Unusable pull secrets, once per sync (MS-165, MS-348)."""
    told = (SecretReason.NOT_FOUND, SecretReason.INVALID)
    problems = (problem for problem in outcome.secret_problems if problem.reason in told)
    return tuple(Event(EventType.WARNING, problem.reason.value, problem.message) for problem in problems)


def _created(number: int) -> tuple[Event, ...]:
    """How many models were made (MS-346)."""
    return (Event(EventType.NORMAL, MODELS_CREATED, f"created {counted(number, 'model')}"),) if number else ()


# Waiting


def _wait(this: _Pass, due: datetime) -> Plan:
    """Nothing to do before the next sync but to count the models and hear their verdicts (MS-246, MS-391)."""
    if this.managed.error:
        return _waiting(this, Plan(), due)
    known = _reported(this) or recounted(this.source, len(this.managed.models), this.now)
    return _waiting(this, known or Plan(), due)


def _reported(this: _Pass) -> Plan | None:
    """The status when models report other images as not to be resolved than are stored; else ``None``."""
    outcome, fact = this.progress.outcome, this.progress.fact
    if outcome is None or fact is None:
        return None
    judged = _judged(this, outcome)
    if is_told(judged, this.source.status.conditions):
        return None
    # Names that others have stand in the way as they did when the sync was concluded (MS-233).
    collisions = tuple(map(str, _choice(this, outcome).collisions))
    result = Result(judged, outcome, fact.observed_at, models=len(this.managed.models), collisions=collisions)
    plan = rejudged(this.source, result, this.namespace, this.now)
    changed = tuple(event for event in plan.events if not event.standing)
    return replace(plan, events=(*changed, *unresolved_images(this.source, result)))


def _waiting(this: _Pass, plan: Plan, due: datetime | None = None) -> Plan:
    """The plan with the time of the next sync and, after a refusal, the next look at the pull secrets."""
    due = due or this.progress.due(this.interval) or this.now
    check = this.progress.next_secret_check
    effects = () if check is None or check >= due else (_secret_check(this, check),)
    return replace(plan, effects=effects, requeue_after=max(0.0, (due - this.now).total_seconds()))


def _secret_check(this: _Pass, when: datetime) -> Effect:
    secrets = tuple(secret.name for secret in this.source.spec.image_pull_secrets if secret.name)
    return Effect(PULL_SECRETS, this.source.uid, to_json(SecretParams(secrets=secrets)), when)
