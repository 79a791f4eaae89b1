"""The reconcile of an AIMClusterModelSource."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Self

from aim_domain import (
    AIMClusterModelSource,
    AIMClusterModelSourceSpec,
    LabelPropagation,
    child_labels,
    labels,
    resolve_config,
)
from aim_domain.kinds import AIM_CLUSTER_MODEL
from aim_domain.naming import label_value
from aim_domain.parts import CLUSTER_MODELS
from aim_model_sync import SERVICE_NAME
from aim_model_sync.catalogue import (
    Choice,
    Elsewhere,
    Managed,
    choose,
    left_by_predecessor,
    managed_models,
    model_name,
    refusals,
)
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
from aim_model_sync.conditions import Reason, SourceCondition, count_of, is_reported
from aim_model_sync.outcome import SyncOutcome
from aim_model_sync.pull_secrets import SecretParams
from aim_model_sync.schedule import (
    SECRET_CHECK_INTERVAL,
    SECRET_DEBOUNCE,
    InvalidIntervalError,
    LastSync,
    interval_seconds,
    next_sync,
    start_of_overdue,
)
from aim_model_sync.selectors import pinned_images, selector_texts
from aim_model_sync.sync import PULL_SECRETS, SYNC, SyncParams
from controller_runtime import (
    IMMEDIATELY,
    Category,
    Child,
    ClassifiedError,
    Condition,
    ConditionStatus,
    Effect,
    Event,
    EventType,
    Fact,
    JsonObject,
    Plan,
    View,
    WriteMode,
    find_condition,
    kind_of,
    to_json,
)
from oci_registry import ImageReference, SecretReason

CONTROLLER: Final = "cluster-model-source"
"""Name of the controller in labels and Events (FW-201)."""


def build_model(source: AIMClusterModelSource, image: ImageReference, propagation: LabelPropagation | None) -> Child:
    """The model; written once and never changed (MS-230, MS-231)."""
    own = {
        labels.MODEL_SOURCE: label_value(source.name),
        labels.ORIGIN: labels.ORIGIN_AUTO_GENERATED,
        # Named here, because a label of the source must not replace it (MS-226).
        labels.APP_MANAGED_BY: f"aim-{CONTROLLER}-controller",
    }
    metadata: JsonObject = {
        "name": model_name(image),
        "labels": child_labels(own, parent=source, controller=CONTROLLER, propagation=propagation),
        "annotations": {
            labels.ANNOTATION_SOURCE_REGISTRY: image.repository.registry,
            labels.ANNOTATION_SOURCE_REPOSITORY: image.repository.path,
            labels.ANNOTATION_SOURCE_TAG: image.version,
        },
    }
    spec: JsonObject = {"image": str(image)}
    if source.spec.image_pull_secrets:
        spec["imagePullSecrets"] = [to_json(secret) for secret in source.spec.image_pull_secrets]
    return Child(
        CLUSTER_MODELS, kind_of({"metadata": metadata, "spec": spec}, AIM_CLUSTER_MODEL), mode=WriteMode.CREATE
    )


def spec_problem(spec: AIMClusterModelSourceSpec) -> str | None:
    """What is wrong and what to do; ``None`` when selectors can be evaluated one by one."""
    if spec.images and spec.filters:
        return "spec.images and spec.filters are both set; keep one of them"
    if not spec.images and not spec.filters:
        return "neither spec.images nor spec.filters is set; list images, or filters with patterns"
    try:
        interval_seconds(spec.sync_interval)
    except InvalidIntervalError as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True)
class Progress:
    """The newest facts about a source, read against its stored status; make it with `of`.

    The condition ``Syncing`` tells whether the newest sync has been concluded: it turns true with the start and false
    with the models and the status that follow from the result. It outlives a restart, and a model that a user deletes
    afterwards is not made again before the next sync (MS-238).

    Attributes:
        outcome: result of the newest sync; ``None`` also when it could not be carried out.
    """

    source: AIMClusterModelSource
    fact: Fact | None
    secrets_fact: Fact | None
    outcome: SyncOutcome | None

    @classmethod
    def of(cls, source: AIMClusterModelSource, fact: Fact | None, secrets_fact: Fact | None) -> Self:
        """Decode the result, which may be large, once."""
        return cls(source, fact, secrets_fact, SYNC.result_of(fact))

    @property
    def failure(self) -> ClassifiedError | None:
        """Why the newest sync could not be carried out."""
        return None if self.fact is None else self.fact.error

    @property
    def is_answered(self) -> bool:
        """Whether there is a result that has not been concluded yet."""
        syncing = self._syncing
        if self.fact is None or not self._is_current:
            return False
        if self.outcome is not None and self.source.status.observed_generation != self.source.metadata.generation:
            # No sync of this spec was concluded, also where the start was not stored: a status write may be refused.
            return True
        if syncing is None or syncing.last_transition_time is None:
            return True
        # The condition's time has whole seconds.
        ended, since = self.fact.observed_at.replace(microsecond=0), syncing.last_transition_time
        return ended >= since if syncing.status is ConditionStatus.TRUE else ended > since

    @property
    def is_unfinished(self) -> bool:
        """Whether the newest result was concluded without success, so that models may still have to be made."""
        return self._is_current and self._syncing is not None and self._syncing.reason == Reason.SYNC_FAILED

    @property
    def last(self) -> LastSync | None:
        """The sync that ended last, from its fact, or from the status when the fact was lost (MS-249)."""
        fact, outcome = self.fact, self.outcome
        if fact is not None and outcome is not None:
            attempts = outcome.attempt if outcome.is_transient else 0
            return LastSync(fact.observed_at, outcome.generation, attempts, outcome.retry_after)
        generation = self.source.status.observed_generation
        if fact is not None:
            current = self.source.metadata.generation
            return LastSync(fact.observed_at, current if generation is None else generation, fact.attempts)
        syncing = self._syncing
        if syncing is None or syncing.status is ConditionStatus.TRUE or syncing.last_transition_time is None:
            return None
        if syncing.reason == Reason.AWAITING_FIRST_SYNC:
            return None
        return None if generation is None else LastSync(syncing.last_transition_time, generation)

    def due(self, interval: float) -> datetime | None:
        """When the next sync is due; ``None`` = it has been since the spec changed (MS-243)."""
        last = self.last
        if last is None or (last.generation != self.source.metadata.generation and not self._is_first_failure):
            return None
        regular = next_sync(last, interval, self.source.uid)
        changed = self._secrets_changed_at
        return regular if changed is None else min(regular, changed + timedelta(seconds=SECRET_DEBOUNCE))

    @property
    def next_secret_check(self) -> datetime | None:
        """When to look at the pull secrets again; ``None`` when they are not what is wrong (MS-247)."""
        outcome = self.outcome
        if self.fact is None or outcome is None or not outcome.lacks_access or not outcome.secrets:
            return None
        seen = [self.fact.observed_at, *([self.secrets_fact.observed_at] if self.secrets_fact else [])]
        return max(seen) + timedelta(seconds=SECRET_CHECK_INTERVAL)

    @property
    def attempt(self) -> int:
        """Number of the sync that starts next: counts up while a generation leaves something to retry (MS-254)."""
        last = self.last
        same = last is not None and last.generation == self.source.metadata.generation
        return last.attempts + 1 if last is not None and same else 1

    @property
    def _syncing(self) -> Condition | None:
        return find_condition(self.source.status.conditions, SourceCondition.SYNCING)

    @property
    def _is_current(self) -> bool:
        if self.fact is None:
            return False
        outcome = self.outcome
        return outcome is None or outcome.generation == self.source.metadata.generation

    @property
    def _is_first_failure(self) -> bool:
        """A sync of a new generation that could not be carried out has no generation of its own."""
        return self.failure is not None and self.is_answered

    @property
    def _secrets_changed_at(self) -> datetime | None:
        outcome, fact = self.outcome, self.secrets_fact
        if self.fact is None or outcome is None or fact is None or fact.observed_at <= self.fact.observed_at:
            return None
        seen = PULL_SECRETS.result_of(fact)
        return fact.observed_at if seen is not None and seen.secrets != outcome.secrets else None


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

    @property
    def due(self) -> datetime | None:
        """When the next sync is due; ``None`` = it has been since the spec changed.

        A last one that lies ahead was before the clock was set back: it counts as of now (MS-395).
        """
        due, last = self.progress.due(self.interval), self.progress.last
        return due if due is None or last is None else due - max(last.finished - self.now, timedelta())


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
            SYNC.look_up(view, SERVICE_NAME, source.uid).value,
            PULL_SECRETS.look_up(view, SERVICE_NAME, source.uid).value,
        )
        interval = interval_seconds(source.spec.sync_interval)
        return _step(_Pass(source, view, now, namespace, interval, progress, managed))

    return reconcile


def _step(this: _Pass) -> Plan:
    progress, failing = this.progress, this.view.failure is not None
    if progress.is_answered or (failing and progress.is_unfinished):
        return _conclude(this)
    due = this.due
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
    effect = SYNC.ask(source.uid, params, not_before)
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
    judged = _with_reports(this, outcome)
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
    events = (*_events_of(this, done, outcome), *unresolved, *_created(len(models) if failure is None else 0))
    return _waiting(this, replace(done, children=models, events=events, retry=_retried(failure)))


def _with_reports(this: _Pass, outcome: SyncOutcome) -> SyncOutcome:
    """The outcome with what models report of the images that no request looked for (MS-385)."""
    return outcome.with_refusals(refusals(this.view, this.managed, pinned_images(this.source.spec)))


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


def _events_of(this: _Pass, done: Plan, outcome: SyncOutcome) -> tuple[Event, ...]:
    """What stands is reported once per sync, not by every pass that looks at its result again (MS-345, MS-348)."""
    if this.progress.is_answered and this.view.failure is None:
        return (*done.events, *_secret_events(outcome))
    return tuple(event for event in done.events if not event.standing)


def _secret_events(outcome: SyncOutcome) -> tuple[Event, ...]:
    """Unusable pull secrets, once per sync (MS-165, MS-348)."""
    reported = (SecretReason.NOT_FOUND, SecretReason.INVALID)
    problems = (problem for problem in outcome.secret_problems if problem.reason in reported)
    return tuple(Event(EventType.WARNING, problem.reason.value, problem.message) for problem in problems)


def _created(number: int) -> tuple[Event, ...]:
    """How many models were made (MS-346)."""
    return (Event(EventType.NORMAL, MODELS_CREATED, f"created {count_of(number, 'model')}"),) if number else ()


# Waiting


def _wait(this: _Pass, due: datetime) -> Plan:
    """Nothing to do before the next sync but to count the models and hear their verdicts (MS-246, MS-391)."""
    if this.managed.error:
        return _waiting(this, Plan(), due)
    known = _report_change(this) or recounted(this.source, len(this.managed.models), this.now)
    return _waiting(this, known or Plan(), due)


def _report_change(this: _Pass) -> Plan | None:
    """The status when models report other images as not to be resolved than are stored; else ``None``."""
    outcome, fact = this.progress.outcome, this.progress.fact
    if outcome is None or fact is None:
        return None
    judged = _with_reports(this, outcome)
    if is_reported(judged, this.source.status.conditions):
        return None
    # Names that others have stand in the way as they did when the sync was concluded (MS-233).
    collisions = tuple(map(str, _choice(this, outcome).collisions))
    result = Result(judged, outcome, fact.observed_at, models=len(this.managed.models), collisions=collisions)
    plan = rejudged(this.source, result, this.namespace, this.now)
    changed = tuple(event for event in plan.events if not event.standing)
    return replace(plan, events=(*changed, *unresolved_images(this.source, result)))


def _waiting(this: _Pass, plan: Plan, due: datetime | None = None) -> Plan:
    """The plan with the time of the next sync and, after a refusal, the next look at the pull secrets."""
    due = due or this.due or this.now
    check = this.progress.next_secret_check
    effects = () if check is None or check >= due else (_secret_check(this, check),)
    return replace(plan, effects=effects, requeue_after=max(0.0, (due - this.now).total_seconds()))


def _secret_check(this: _Pass, when: datetime) -> Effect:
    secrets = tuple(secret.name for secret in this.source.spec.image_pull_secrets if secret.name)
    return PULL_SECRETS.ask(this.source.uid, SecretParams(secrets=secrets), when)
