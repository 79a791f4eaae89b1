"""Carries out effects, and keeps their results as facts while anything refers to them."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, Self

import structlog

from controller_runtime.api.base import to_json
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.fair import FairSlots
from controller_runtime.json import JsonObject
from controller_runtime.log.cache.store import Cache
from controller_runtime.log.cache.view import ReadLog
from controller_runtime.log.freshness import boot_seconds
from controller_runtime.log.history.facts import FACTS, Fact, FactError, FactOwner, fact_key, facts_by_owner
from controller_runtime.log.publish.publisher import FactPublisher
from controller_runtime.log.wire.part import Key, Part
from controller_runtime.log.wire.version import Change, Entry, Version
from controller_runtime.names import PREFIX
from controller_runtime.reconcile.decide import Decision, Interceptor, Proceed
from controller_runtime.reconcile.effect_type import EffectError, EffectRunner, EffectType
from controller_runtime.reconcile.enqueue import Dispatcher
from controller_runtime.reconcile.plan import Effect, Plan
from controller_runtime.reconcile.reconciler import ServiceDefinition
from controller_runtime.telemetry import tracing

FACTS_BY_OWNER: Final = facts_by_owner(FACTS)
"""Every service's cache has this index."""

_SLICE: Final = 100
"""Facts after which others get their turn: each is decoded, some 10 ms in all."""


class FactStore(Interceptor):
    """Puts facts into the cache and onto the bus, and takes them away again.

    A fact goes with its owner, and when no pass looked at it for a whole round: objects outlive what facts are about
    (a pod's log, an image of an earlier generation), and a store that only grows fills up one day. What passes
    look at it learns around their decisions.
    """

    def __init__(
        self,
        definition: ServiceDefinition,
        part: Part[Fact],
        cache: Cache,
        publisher: FactPublisher,
        dispatcher: Dispatcher,
    ) -> None:
        """``part``: the facts of the shard that is led."""
        self._service = definition.name
        self._facts = part
        self._by_owner = facts_by_owner(part)
        self._parts = {reconciler.part.name: reconciler.part for reconciler in definition.reconcilers}
        self._cache = cache
        self._publisher = publisher
        self._dispatcher = dispatcher
        self._round = 0
        self._used: dict[Key, int] = {}

    def previous(self, effect: str, about: str) -> Fact | None:
        """The last fact of an effect, to count consecutive failures."""
        entry = self._cache.get(self._facts, fact_key(self._service, effect, about))
        return None if entry is None else entry.object

    async def publish(self, entry: Entry[Fact]) -> None:
        """Make a fact known: to this process at once, to the bus as soon as it can be reached."""
        self._used[entry.key] = self._round
        fact = entry.raw
        self._dispatcher(self._cache.absorb(self._facts, fact, boot_seconds(), entry.traceparent))
        self._publisher.publish_fact(fact, entry.traceparent)

    def on_change(self, change: Change[Any]) -> None:
        """Remove the facts of an object that is gone."""
        if change.old is None or change.part.name not in self._parts:
            return
        if change.new is None or change.new.version.uid != change.old.version.uid:
            self._remove(self._cache.select(self._by_owner, change.old.version.uid))

    def decide(self, decision: Decision[Any], proceed: Proceed) -> Plan:
        try:
            return proceed(decision)
        finally:
            self._looked_at(decision.reads)

    def _looked_at(self, reads: ReadLog) -> None:
        for part, key in reads.objects:
            # What was only looked for leaves nothing behind: passes look for facts of objects that go.
            if part == self._facts.name and self._cache.get(self._facts, key) is not None:
                self._used[key] = self._round

    async def next_round(self) -> None:
        """Remove what nothing referred to in the round that ends, and what is left of objects that went unseen."""
        known = self._cache.all(self._facts)
        present = {entry.key for entry in known}
        self._used = {key: last for key, last in self._used.items() if key in present}
        for number, entry in enumerate(known, 1):
            # Others had their turn since: what was replaced meanwhile was needed, and what is gone is gone.
            if self._cache.get(self._facts, entry.key) is entry and not self._is_needed(entry):
                self._remove([entry])
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        self._round += 1

    def _is_needed(self, entry: Entry[Fact]) -> bool:
        fact = entry.object
        if fact is None:
            return False
        part = self._parts.get(fact.owner.part)
        if part is None or not self._cache.is_fresh(part):
            return True
        owner = self._cache.get(part, Key(fact.owner.namespace, fact.owner.name))
        if owner is None or owner.version.uid != fact.owner.uid:
            return False
        return self._used.setdefault(entry.key, self._round) >= self._round - 1

    def _remove(self, facts: Iterable[Entry[Fact]]) -> None:
        for fact in facts:
            self._publisher.remove_fact(fact.key)
            self._cache.absorb_deleted(self._facts, fact.key, fact.version.uid, boot_seconds())
            self._used.pop(fact.key, None)


_MOST_LINKS: Final = 32
_log = structlog.get_logger()


class Facts(Protocol):
    """Where the results of effects go: those of one shard."""

    def previous(self, effect: str, about: str) -> Fact | None:
        """The last fact of an effect, to count consecutive failures."""
        ...

    async def publish(self, entry: Entry[Fact]) -> None:
        """Make a fact known, in this process and outside of it."""
        ...


@dataclass(frozen=True, slots=True)
class EffectStatistics:
    """Counts since start, for metrics."""

    running: int
    waiting: int
    succeeded: int
    failed: int

    def together(self, other: Self) -> Self:
        """Those of two shards."""
        return type(self)(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


@dataclass(slots=True)
class _Pending:
    owner: FactOwner
    effect: Effect
    task: asyncio.Task[None]
    asked: str | None
    """Trace context of the pass that asked for it."""
    asked_at: float
    """In seconds since 1970."""
    started: bool = False
    others: set[str] = field(default_factory=set)
    """Contexts of others that wait for the same (FW-575)."""

    def join(self, owner_uid: str) -> None:
        """A request for what is under way already."""
        asked = tracing.current_traceparent()
        few = len(self.others) < _MOST_LINKS
        if few and asked is not None and owner_uid != self.owner.uid and tracing.is_sampled(asked):
            self.others.add(asked)


class EffectHost:
    """Runs effects while its service leads.

    Use as an asynchronous context manager: leaving it cancels what still runs; the next leader's plans ask again.

    Each type has its own places; the namespaces of those that wait for one take turns (FW-595).

    Args:
        runners: carry out each of the types.
    """

    def __init__(
        self,
        service: str,
        types: Iterable[EffectType[Any, Any, Any]],
        runners: Mapping[str, EffectRunner[Any, Any]],
        facts: Facts,
    ) -> None:
        self._service = service
        self._types = {one.name: one for one in types}
        self._runners = runners
        self._facts = facts
        self._limits = {name: FairSlots(one.concurrency) for name, one in self._types.items()}
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._group: asyncio.TaskGroup | None = None
        self._succeeded = 0
        self._failed = 0

    async def __aenter__(self) -> Self:
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._group is not None
        for pending in list(self._pending.values()):
            pending.task.cancel()
        await self._group.__aexit__(None, None, None)
        self._group = None

    @property
    def statistics(self) -> EffectStatistics:
        running = sum(pending.started for pending in self._pending.values())
        return EffectStatistics(running, len(self._pending) - running, self._succeeded, self._failed)

    def observed(self, effect: Effect) -> datetime | None:
        """When the latest result of an effect was observed; ``None`` while there is none."""
        fact = self._facts.previous(effect.kind, effect.key)
        return None if fact is None else fact.observed_at

    def submit(self, effect: Effect, owner: FactOwner) -> None:
        """Start an effect, unless it is under way already; an earlier ``not_before`` replaces a later one.

        Raises:
            KeyError: the service does not declare this kind.
        """
        assert self._group is not None, "effects run only while the service leads"
        if effect.kind not in self._limits:
            raise KeyError(f"effects of kind {effect.kind!r} are not declared; add an EffectType to the definition")
        identity = (effect.kind, effect.key)
        pending = self._pending.get(identity)
        if pending is not None:
            pending.join(owner.uid)
            if pending.started or not _is_earlier(effect, pending.effect):
                return
            pending.task.cancel()
        task = self._group.create_task(self._run(effect, owner), name=f"effect {effect.kind}")
        self._pending[identity] = _Pending(owner, effect, task, tracing.current_traceparent(), time.time())
        # Not a ``finally`` of the task: one that is cancelled before its first step has none.
        task.add_done_callback(lambda done: self._note_end(identity, done))

    def on_change(self, change: Change[Any]) -> None:
        """Let go of what is under way for an object that is gone."""
        if change.old is not None and change.new is None:
            self.forget(change.old.version.uid)

    def forget(self, owner_uid: str) -> None:
        """Cancel everything under way for an object that is gone."""
        for pending in [p for p in self._pending.values() if p.owner.uid == owner_uid]:
            pending.task.cancel()

    def _note_end(self, identity: tuple[str, str], task: asyncio.Task[None] | None) -> None:
        pending = self._pending.get(identity)
        if pending is not None and pending.task is task:
            del self._pending[identity]

    async def _run(self, effect: Effect, owner: FactOwner) -> None:
        await asyncio.sleep(self._wait(effect).total_seconds())
        async with self._limits[effect.kind].slot(owner.namespace):
            pending = self._pending[effect.kind, effect.key]
            pending.started = True
            fact = await self._traced(pending)
        # Before the fact is published: what it enqueues may ask for the same effect again.
        self._note_end((effect.kind, effect.key), asyncio.current_task())
        await self._facts.publish(fact)

    def _wait(self, effect: Effect) -> timedelta:
        """How long an effect waits for its time; after the clock was set back, no longer than it was meant to."""
        now = datetime.now(UTC)
        if effect.not_before is None:
            return timedelta()
        # The time was counted from the last result: one that lies ahead is of a clock that was ahead.
        last = self.observed(effect)
        ahead = timedelta() if last is None else max(last - now, timedelta())
        return max(effect.not_before - now - ahead, timedelta())

    async def _traced(self, pending: _Pending) -> Entry[Fact]:
        """Run the effect as spans of the pass that asked for it: one of the wait for its turn, one of what it does."""
        effect, owner = pending.effect, pending.owner
        about = {f"{PREFIX}.effect.kind": effect.kind, f"{PREFIX}.effect.key": effect.key}
        tracing.past(f"wait for effect {effect.kind}", pending.asked, pending.asked_at, about)
        with tracing.span(f"effect {effect.kind}", pending.asked, about) as current:
            fact = await self._gather(effect, owner)
            tracing.link(current, pending.others)
        return fact

    async def _gather(self, effect: Effect, owner: FactOwner) -> Entry[Fact]:
        try:
            params = self._types[effect.kind].params.model_validate(effect.params)
            return self._fact(effect, owner, to_json(await self._runners[effect.kind](params)))
        except EffectError as failure:
            return self._fact(effect, owner, failure.error)
        except Exception as bug:
            # A bug in one runner must neither stop the service nor leave the object waiting for ever.
            _log.exception("effect failed unexpectedly", effect=effect.kind, part=owner.part, name=owner.name)
            why = f"{effect.kind} failed: {type(bug).__name__}: {bug}"
            return self._fact(effect, owner, ClassifiedError(Category.UNKNOWN, "UnknownError", why))

    def _fact(self, effect: Effect, owner: FactOwner, outcome: JsonObject | ClassifiedError) -> Entry[Fact]:
        failed = isinstance(outcome, ClassifiedError)
        previous = self._facts.previous(effect.kind, effect.key)
        key = fact_key(self._service, effect.kind, effect.key)
        body = to_json(
            Fact.model_validate(
                {
                    "metadata": {"namespace": key.namespace, "name": key.name, "uid": key.name},
                    "effect": effect.kind,
                    "about": effect.key,
                    "owner": owner,
                    "observedAt": datetime.now(UTC),
                    "attempts": (previous.attempts if previous else 0) + 1 if failed else 0,
                    **(
                        {"failure": _failure(outcome)} if isinstance(outcome, ClassifiedError) else {"outcome": outcome}
                    ),
                }
            )
        )
        self._failed += failed
        self._succeeded += not failed
        version = Version(uid=key.name, resource_version="")
        return Entry.of(FACTS, key, body, version, tracing.current_traceparent())


def _failure(error: ClassifiedError) -> FactError:
    return FactError(category=error.category, reason=error.reason, message=error.message)


def _is_earlier(new: Effect, old: Effect) -> bool:
    if old.not_before is None:
        return False
    return new.not_before is None or new.not_before < old.not_before
