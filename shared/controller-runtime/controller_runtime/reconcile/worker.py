"""What is reported about an object that has no plan: it cannot be read (FW-476), its reconcile raised (FW-477), or took
too long (FW-747).

All end as one condition and one Event on the object itself, of what no service writes as the Event alone. Everything
else that is stored stays as it is, because nothing newer is known.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import structlog
from pydantic import ValidationError

from controller_runtime.api.enums import ConditionStatus, EventType
from controller_runtime.api.meta import Condition, Resource
from controller_runtime.errors import RETRIED_CATEGORIES, ClassifiedError
from controller_runtime.json import JsonObject
from controller_runtime.log.cache.store import Cache
from controller_runtime.log.cache.view import CacheView, ReadLog
from controller_runtime.log.history.facts import FactOwner, fact_name, facts_of_shard
from controller_runtime.log.wire.part import Key
from controller_runtime.log.wire.version import Entry
from controller_runtime.reconcile.child import Target
from controller_runtime.reconcile.conditions import (
    RECONCILED,
    Desired,
    Observability,
    ParentCondition,
    condition_json,
    events_of,
    settle,
)
from controller_runtime.reconcile.decide import Decision, Interceptor, decide, is_forbidden
from controller_runtime.reconcile.enqueue import Enqueuer
from controller_runtime.reconcile.executor import Executor
from controller_runtime.reconcile.plan import NOTHING, Drop, Effect, Event, Execution, Plan
from controller_runtime.reconcile.queue import Priority, QueueClosedError, WorkQueue
from controller_runtime.reconcile.reconciler import Reconciler
from controller_runtime.reconcile.record import Wait, pass_span, waits_from_now
from controller_runtime.reconcile.state_engine import GRACE_PERIOD, evaluate, status_json
from controller_runtime.reconcile.watchdog import Stage, Subject, Watchdog
from controller_runtime.shard import WHOLE, Shard
from controller_runtime.telemetry.tracing import current_ids, current_traceparent

INTERNAL_ERROR: Final = "InternalError"
BUDGET_EXCEEDED: Final = "TimeBudgetExceeded"


def of_undecodable(reconciler: Reconciler[Any], raw: JsonObject, error: ClassifiedError, now: datetime) -> Plan:
    """`ConfigValid=False` with the words of the error, which name the field.

    A service that owns a part of the status only leaves this to the one that owns the rest: it is one fault.
    """
    if reconciler.status.only_conditions:
        return NOTHING
    if reconciler.part.read_only:
        return _event_only(error.reason, error.message)
    status, stored = _stored_status(reconciler, raw)
    verdicts = {ParentCondition.CONFIG_VALID, ParentCondition.READY}
    evaluation = evaluate(
        reconciler.part.kind.kind,
        (),
        generation=_generation(raw),
        stored=stored,
        stored_status=None,
        now=now,
        errors=(error,),
        extra=[_keep(condition) for condition in stored if condition.type not in verdicts],
    )
    has_value = "status" in reconciler.part.model.model_fields["status"].annotation.model_fields
    # `Ready` repeats the words of `ConfigValid`: one fault, one Event.
    events = tuple(event for event in evaluation.events if event.condition == ParentCondition.CONFIG_VALID)
    return Plan(status=status_json(evaluation, status, has_value=has_value), events=events)


def of_bug(reconciler: Reconciler[Any], raw: JsonObject, bug: Exception, now: datetime) -> Plan:
    """`Reconciled=False`; where a service owns named conditions only, the first of them tells it instead."""
    message = f"reconciling fails and is retried with backoff: {type(bug).__name__}: {bug}"
    return _not_reconciled(reconciler, raw, INTERNAL_ERROR, message, now)


def of_overrun(reconciler: Reconciler[Any], raw: JsonObject, overrun: Subject, budget: float, now: datetime) -> Plan:
    """As of a bug, but that nothing is tried again: the version has held the event loop (FW-747)."""
    message = (
        f"{overrun.kind} {overrun.name} not reconciled: {overrun.stage} took longer than {budget:g} s at "
        f"{overrun.version}; change its spec, or delete it"
    )
    return _not_reconciled(reconciler, raw, BUDGET_EXCEEDED, message, now)


def _not_reconciled(reconciler: Reconciler[Any], raw: JsonObject, reason: str, message: str, now: datetime) -> Plan:
    reported_by = min(reconciler.status.only_conditions, default=RECONCILED)
    if reconciler.part.read_only:
        return _event_only(reason, message)
    status, stored = _stored_status(reconciler, raw)
    wanted = Desired(reported_by, ConditionStatus.FALSE, reason, message, Observability.ERROR)
    desired = (*(_keep(condition) for condition in stored if condition.type != reported_by), wanted)
    settled = settle(desired, stored, generation=_generation(raw), now=now)
    conditions = [condition_json(condition) for condition in settled]
    return Plan(status={**status, "conditions": conditions}, events=events_of(desired, settled, stored))


def _event_only(reason: str, message: str) -> Plan:
    """Of what no service writes, not even the status is ours (FW-542)."""
    return Plan(events=(Event(EventType.WARNING, reason, message, standing=True),))


def _stored_status(reconciler: Reconciler[Any], raw: JsonObject) -> tuple[JsonObject, list[Condition]]:
    """What the service owns of the stored status: fields, and the conditions that can be read."""
    status = raw.get("status")
    own = reconciler.status.own(status) if isinstance(status, Mapping) else {}
    readable = [found for found in map(_condition, own.pop("conditions", ())) if found is not None]
    return own, readable


def _condition(raw: JsonObject) -> Condition | None:
    try:
        return Condition.model_validate(raw)
    except ValidationError:
        return None


def _keep(condition: Condition) -> Desired:
    return Desired(
        condition.type, condition.status, condition.reason, condition.message, Observability.SILENT, keep=True
    )


def _generation(raw: JsonObject) -> int:
    return int(raw["metadata"].get("generation") or 0)


T = TypeVar("T", bound=Resource)

DEFAULT_WORKERS: Final = 8
"""Passes of one controller that run at the same time, each of another object."""

WRITE_RETRY_SECONDS: Final = 60.0
"""Longest backoff of a pass whose write failed, whatever the answer (FW-810)."""

_MOST_REASONS: Final = 100
_OTHER_REASONS: Final = "(others)"

_log = structlog.get_logger(__name__)


class Result(StrEnum):
    """How a pass ended; values of the metric label ``result`` (FW-284)."""

    SUCCESS = "success"
    ERROR = "error"
    REQUEUE = "requeue"
    REQUEUE_AFTER = "requeue_after"


class Effects(Protocol):
    """Where effects are started; asking again for one that runs changes nothing."""

    def observed(self, effect: Effect) -> datetime | None:
        """When the latest result of an effect was observed; ``None`` while there is none."""
        ...

    def submit(self, effect: Effect, owner: FactOwner) -> None: ...

    def forget(self, owner_uid: str) -> None: ...


Exemplar: TypeAlias = dict[str, str]
"""Trace and span id of something that is measured."""
Observer: TypeAlias = Callable[[str, Result, float, Exemplar | None], None]
"""Takes controller, result and duration in seconds of each pass, and its span if that is exported."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _unobserved(_controller: str, _result: Result, _seconds: float, _exemplar: Exemplar | None) -> None:
    """For processes without metrics."""


@dataclass(slots=True)
class _ObjectMemory:
    """What the worker remembers about an object until it is gone."""

    uid: str
    woken_by: str = ""
    status: str = ""
    """Its status value as the last pass left it; empty where this controller writes none."""
    failing_since: datetime | None = None
    exemplar: Exemplar | None = None
    """Of its last pass."""
    wait: Wait | None = None
    """What the last pass left the object for."""
    effects: frozenset[tuple[str, str, datetime | None]] = frozenset()
    read: frozenset[str] = frozenset()
    """Parts that the pass under way has read, or the last one if it failed."""
    unanswered: frozenset[str] = frozenset()
    """Parts in which the last pass found nothing while they were not fresh."""
    unanswered_since: datetime | None = None
    """Since when every pass has found nothing in some part that was not fresh."""

    def looked(self, reads: ReadLog) -> None:
        """A pass has decided."""
        self.read |= reads.parts
        self.unanswered |= reads.unanswered

    def postponed(self, reads: ReadLog, now: datetime) -> timedelta | None:
        """For how long a pass waits for the answer that it did not get (FW-861)."""
        if not reads.unanswered:
            self.unanswered_since = None
            return None
        # A clock that was set back must not prolong it.
        self.unanswered_since = min(self.unanswered_since or now, now)
        left = GRACE_PERIOD - (now - self.unanswered_since)
        return left if left > timedelta() else None

    def look_afresh(self) -> None:
        """Nothing that comes back is news: a pass begins, or it failed for another reason than what it saw."""
        self.read = self.unanswered = frozenset()


class Worker(Generic[T]):
    """The passes of one controller of one service.

    Args:
        interceptors: what else stands around each decision, the outermost first.
        watchdog: of the process; by default one that runs no thread.
        shard: whose objects alone have passes.
    """

    def __init__(
        self,
        reconciler: Reconciler[T],
        cache: Cache,
        queue: WorkQueue[Key],
        executor: Executor,
        *,
        effects: Effects,
        interceptors: Sequence[Interceptor] = (),
        observe: Observer = _unobserved,
        now: Callable[[], datetime] = _utc_now,
        watchdog: Watchdog | None = None,
        shard: Shard = WHOLE,
    ) -> None:
        self.controller: Final = reconciler.controller
        self._shard = shard
        self._facts = facts_of_shard(shard.index).name
        self._reconciler = reconciler
        self._cache = cache
        self.queue: Final = queue
        self._executor = executor
        self._effects = effects
        self._observe = observe
        self._now = now
        self._watchdog = watchdog or Watchdog()
        self._known: dict[Key, _ObjectMemory] = {}
        self.enqueuer = Enqueuer(reconciler, cache, queue, shard)
        self._interceptors = (*interceptors, self.enqueuer)
        self._active = 0
        self._round: set[Key] = set()
        self._unreported = 0
        self._reasons: Counter[str] = Counter()

    @property
    def unreported(self) -> int:
        """Times that the API server did not take why nothing is done about an object."""
        return self._unreported

    @property
    def active(self) -> int:
        """Passes that run right now."""
        return self._active

    @property
    def reasons(self) -> Mapping[str, int]:
        """How often a pass decided what, by the reason of the condition Ready (FW-560)."""
        return self._reasons

    @property
    def statuses(self) -> Counter[str]:
        """How many objects have which status, as the last pass of each left it (FW-286)."""
        return Counter(known.status for known in self._known.values() if known.status)

    def woken_by(self, key: Key) -> str | None:
        """The change that brought the last pass of an object; ``None`` when there was none (FW-503)."""
        known = self._known.get(key)
        return None if known is None else known.woken_by

    # Waking

    def resync(self) -> None:
        """Queue every object, after everything that is really urgent (FW-017)."""
        for key in self._keys():
            self.queue.add(key, Priority.RESYNC)

    def hurry(self, parts: set[str]) -> None:
        """Parts are fresh again: have a pass of what read them and failed, or found no answer (FW-484, FW-490)."""
        for key, known in self._known.items():
            if not parts.isdisjoint(known.read) or not parts.isdisjoint(known.unanswered):
                self.queue.hurry(key)

    def begin_round(self) -> None:
        """From now on `round_over` tells whether every present object had a pass."""
        self._round = set(self._keys())

    def _keys(self) -> Iterable[Key]:
        keys = (entry.key for entry in self._cache.all(self._reconciler.part))
        return keys if self._shard.count == 1 else (key for key in keys if self._shard.owns(key.namespace))

    @property
    def round_over(self) -> bool:
        """Whether every object that the round began with had a pass since, or is gone."""
        return not self._round

    # Running

    async def run(self, workers: int = DEFAULT_WORKERS) -> None:
        """Work until the queue is closed. Cancelling abandons the running passes (FW-048)."""
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(self._work(), name=f"{self.controller} worker {number}")

    async def _work(self) -> None:
        while True:
            try:
                taken = await self.queue.get()
            except QueueClosedError:
                return
            self._active += 1
            try:
                await self.process(taken.key)
            finally:
                self._active -= 1
                self._round.discard(taken.key)
                self.queue.done(taken.key)
            # A pass that writes nothing never waits: a resync of many would keep everybody else from running.
            await asyncio.sleep(0)

    async def process(self, key: Key) -> None:
        """One pass of one object, whatever happens in it."""
        started = time.monotonic()
        names = {"controller": self.controller, "namespace": key.namespace, "name": key.name}
        with structlog.contextvars.bound_contextvars(**names):
            try:
                result = await self._pass(key)
            except Exception:
                _log.exception("reconcile failed unexpectedly")
                self._failed_for_a_bug(key)
                self.queue.retry(key)
                result = Result.ERROR
        known = self._known.get(key)
        self._observe(self.controller, result, time.monotonic() - started, None if known is None else known.exemplar)

    async def _pass(self, key: Key) -> Result:
        entry = self._cache.get(self._reconciler.part, key)
        if entry is None:
            self._forget(key)
            return Result.SUCCESS
        self._remember(key, entry.version.uid)
        self._known[key].look_afresh()
        known = self._known[key]
        known.woken_by, origins = self.enqueuer.take_cause(key), self.enqueuer.take_origins(key)
        wait, known.wait, known.exemplar = known.wait, None, None
        if (unread := self._watchdog.unread(entry)) is not None:
            refusal, execution = await self._skip(entry, unread)
            return self._schedule(key, refusal, execution)
        undecodable = entry.decode()
        if isinstance(undecodable, ClassifiedError):
            self.enqueuer.asks_nothing(key)
            refusal = of_undecodable(self._reconciler, entry.raw, undecodable, self._now())
            # Its next version brings the next pass; a retry is for what could not be said of this one (CC-014, FW-476).
            self._schedule(key, refusal, await self._report(entry, refusal))
            return Result.ERROR
        # Around the pass and not around its decision, as an interceptor: what it writes belongs to the same span.
        with pass_span(self.controller, entry, origins, wait):
            known.exemplar = current_ids()
            return await self._decide_and_execute(entry, undecodable)

    async def _decide_and_execute(self, entry: Entry[T], obj: T) -> Result:
        plan, execution = await self._attempt(entry, obj)
        if execution.failure is not None and (not obj.deleting or is_forbidden(execution.failure)):
            present = self._cache.get(self._reconciler.part, entry.key)
            # Nothing is left to report on where the object went meanwhile.
            if present is not None:
                plan, reported = await self._attempt(present, present.object or obj, execution.failure)
                execution = execution.followed_by(reported)
        return self._schedule(entry.key, plan, execution)

    async def _attempt(self, entry: Entry[T], obj: T, failure: ClassifiedError | None = None) -> tuple[Plan, Execution]:
        """Decide and carry out; with a failure, for the status only (FW-010), or to end a clean-up (FW-184)."""
        known = self._known[entry.key]
        subject = Subject.of(self.controller, entry, obj)
        if (overrun := self._watchdog.overrun(subject)) is not None:
            return await self._skip(entry, overrun)
        decision = self._decision(entry, obj, failure, known)
        try:
            plan = self._watchdog.watch(subject, lambda: decide(decision, self._interceptors))
        except Exception as bug:
            self._failed_for_a_bug(entry.key)
            await self._report(entry, of_bug(self._reconciler, entry.raw, bug, decision.now))
            raise
        if (overrun := self._watchdog.overrun(subject)) is not None:
            return await self._skip(entry, overrun)
        known.looked(decision.reads)
        postponed = known.postponed(decision.reads, decision.now)
        if postponed is not None and failure is None and not obj.deleting:
            parts = sorted(decision.reads.unanswered)
            _log.info("reconcile postponed: parts are stale", parts=parts, seconds=postponed.total_seconds())
            return Plan(requeue_after=postponed.total_seconds()), Execution()
        carrying_out = self._carry_out(entry, decision, plan, failure)
        execution = await self._watchdog.steps(replace(subject, stage=Stage.CARRY_OUT), carrying_out)
        if (overrun := self._watchdog.overrun(subject)) is not None:
            return await self._skip(entry, overrun)
        return plan, execution

    async def _carry_out(
        self, entry: Entry[T], decision: Decision[T], plan: Plan, failure: ClassifiedError | None
    ) -> Execution:
        results = self._results_read(decision.reads, plan)
        target = Target(self._reconciler.part, entry.raw, decision.traceparent)
        if failure is not None and not decision.obj.deleting:
            execution = await self._executor.report(target, plan)
        else:
            execution = await self._executor.execute(target, plan, stale=bool(decision.reads.stale_parts))
        if failure is None and execution.drop is not Drop.NOT_LEADER:
            execution = replace(execution, started=self._start_effects(entry, results))
        for interceptor in self._interceptors:
            try:
                interceptor.carried_out(decision, plan, execution)
            except Exception:
                # An observer must not undo what was carried out, nor keep a failure from being reported.
                _log.exception("interceptor failed", interceptor=type(interceptor).__qualname__)
        return execution

    async def _skip(self, entry: Entry[T], overrun: Subject) -> tuple[Plan, Execution]:
        """Decide nothing about a version that has held the loop, and report that (FW-747)."""
        self.enqueuer.asks_nothing(entry.key)
        refusal = of_overrun(self._reconciler, entry.raw, overrun, self._watchdog.budget, self._now())
        return refusal, await self._report(entry, refusal)

    def _results_read(self, reads: ReadLog, plan: Plan) -> list[tuple[Effect, bool, datetime | None]]:
        """The effects of a plan, whether its decision read their results, and of when these were."""
        names = {key.name for part, key in reads.objects if part == self._facts}
        return [
            (effect, fact_name(effect.kind, effect.key) in names, self._effects.observed(effect))
            for effect in plan.effects
        ]

    def _decision(self, entry: Entry[T], obj: T, failure: ClassifiedError | None, known: _ObjectMemory) -> Decision[T]:
        view = CacheView(self._cache, failure, known.failing_since, shard=self._shard.index)
        view.untracked.get(self._reconciler.part, entry.key.namespace, entry.key.name)
        return Decision(
            self._reconciler,
            obj,
            view,
            self._now(),
            view.reads,
            self._cache.position(),
            known.woken_by,
            current_traceparent(),
        )

    async def _report(self, entry: Entry[T], refusal: Plan) -> Execution:
        """Say on the object itself why nothing is done about it; without a word it would go unnoticed."""
        try:
            reported = await self._executor.report(Target(self._reconciler.part, entry.raw, entry.traceparent), refusal)
        except Exception as bug:
            self._note_unreported(entry.key, repr(bug))
            raise
        if reported.status_failure is not None:
            self._note_unreported(entry.key, str(reported.status_failure))
        elif reported.drop is Drop.CONFLICT:
            self._note_unreported(entry.key, "the object has changed meanwhile")
        return reported

    def _note_unreported(self, key: Key, why: str) -> None:
        self._unreported += 1
        controller = self.controller
        _log.warning("failure cannot be reported on the object", controller=controller, object=str(key), error=why)

    def _start_effects(self, entry: Entry[T], results: Sequence[tuple[Effect, bool, datetime | None]]) -> bool:
        """Start what the plan asks for; whether anything is started that the last plan did not start.

        An effect may have ended while the plan was carried out. The decision that read an older result, or none, is
        enqueued by it; run again, the effect would replace what was seen first by something later (FW-522).
        """
        owner = FactOwner(
            part=entry.part.name, namespace=entry.key.namespace, name=entry.key.name, uid=entry.version.uid
        )
        due = [effect for effect, read, before in results if not read or self._effects.observed(effect) == before]
        for effect in due:
            self._effects.submit(effect, owner)
        started = frozenset((effect.kind, effect.key, effect.not_before) for effect in due)
        known = self._known[entry.key]
        news = bool(started - known.effects)
        known.effects = started
        return news

    def _schedule(self, key: Key, plan: Plan, execution: Execution) -> Result:
        error = _retried(plan, execution)
        known = self._known[key]
        if plan.status is not None:
            known.status = plan.status.get("status") or ""
            self._count_reason(plan.status)
        known.failing_since = None if error is None else known.failing_since or self._now()
        if error is None and execution.failure is None:
            known.read = frozenset()
        if execution.requeue_after is not None:
            self.queue.add_after(key, execution.requeue_after, Priority.USER)
        if error is not None:
            # Of what refuses writes (a CRD, a webhook, a quota, a role) no event tells that it has changed.
            most = None if execution.failure is None and execution.status_failure is None else WRITE_RETRY_SECONDS
            delay = self.queue.retry(key, within=plan.retry_within, at_least=error.retry_after, most=most)
            known.wait = waits_from_now(f"retry after {error.reason}")
            _log.info("reconcile failed; retrying", reason=error.reason, error=error.message, seconds=round(delay, 3))
            return Result.ERROR
        if execution.drop is not None:
            return self._dropped(key, execution.drop)
        if execution.failure is not None:
            # "At once" was meant for after the write that failed: it would only fail again.
            self.queue.retry(key, within=plan.requeue_after or None, most=WRITE_RETRY_SECONDS)
            known.wait = waits_from_now(f"retry after {execution.failure.reason}")
            return Result.ERROR
        self.queue.succeeded(key)
        if plan.requeue_after is None:
            return Result.SUCCESS
        self.queue.add_after(key, plan.requeue_after)
        known.wait = waits_from_now("the time that the pass asked for")
        return Result.REQUEUE_AFTER if plan.requeue_after else Result.REQUEUE

    def _dropped(self, key: Key, drop: Drop) -> Result:
        """What the plan wanted to be looked at later was to follow what was left undone."""
        if drop is Drop.CONFLICT:
            # The newer version usually brings a pass before. A cache that lags must not be asked over and over.
            self.queue.retry(key)
        return Result.REQUEUE

    def _count_reason(self, status: JsonObject) -> None:
        ready = (one for one in status.get("conditions") or () if one.get("type") == ParentCondition.READY)
        for condition in ready:
            reason = condition.get("reason") or ""
            # Some reasons are those of pods, and what is said there is not bounded by us.
            known = reason in self._reasons or len(self._reasons) < _MOST_REASONS
            self._reasons[reason if known else _OTHER_REASONS] += 1

    # Memory of objects

    def _remember(self, key: Key, uid: str) -> None:
        known = self._known.get(key)
        if known is not None and known.uid == uid:
            return
        if known is not None:
            self._drop(known)
        self._known[key] = _ObjectMemory(uid)

    def _forget(self, key: Key) -> None:
        self.queue.forget(key)
        self.enqueuer.forget(key)
        known = self._known.pop(key, None)
        if known is not None:
            self._drop(known)

    def _failed_for_a_bug(self, key: Key) -> None:
        """Whatever comes back, a bug stays one: its pauses are those of FW-477."""
        if (known := self._known.get(key)) is not None:
            known.look_afresh()

    def _drop(self, known: _ObjectMemory) -> None:
        self._executor.forget(known.uid)
        self._watchdog.forget(self.controller, known.uid)
        self._effects.forget(known.uid)


def _retried(plan: Plan, execution: Execution) -> ClassifiedError | None:
    """The error for which the pass is tried again, if any; others wait for an event (FW-094, FW-095)."""
    failed = (execution.failure, execution.status_failure)
    errors = (error for error in failed if error is not None and error.category in RETRIED_CATEGORIES)
    return next(errors, plan.retry)
