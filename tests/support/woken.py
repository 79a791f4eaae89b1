"""Which objects a change enqueues, once all of them had their pass: reconciler, cache and router as in production."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from support.deciding import decide
from support.virtual_clock import VirtualClock

from controller_runtime import Change, JsonObject, Key, Part, Plan, Reconciler, ServiceDefinition
from controller_runtime.log.wire.part import about_object
from controller_runtime.reconcile.enqueue import ChangeRouter, Enqueuer
from controller_runtime.reconcile.queue import WorkQueue
from controller_runtime.testing import BuiltCache, cache_of

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@dataclass
class _Seat:
    """One controller: who waits for a pass."""

    reconciler: Reconciler[Any]
    enqueuer: Enqueuer[Any]
    queue: WorkQueue[Key]


@dataclass
class Awake:
    """A service all of whose objects have had a pass over a cache; plans are not carried out."""

    service: ServiceDefinition
    built: BuiltCache
    now: datetime = NOW
    _seats: list[_Seat] = field(default_factory=list)

    def __post_init__(self) -> None:
        for reconciler in self.service.reconcilers:
            queue: WorkQueue[Key] = WorkQueue(VirtualClock())
            self._seats.append(_Seat(reconciler, Enqueuer(reconciler, self.built.cache, queue), queue))
        enqueuers = [one.enqueuer for one in self._seats]
        self._router = ChangeRouter(self.built.cache, self.service.predicates, enqueuers)
        self.pass_of_all()

    def pass_of_all(self) -> None:
        """Let every object that can be read decide."""
        for seat in self._seats:
            for entry in self.built.cache.all(seat.reconciler.part):
                self.decide(seat.reconciler.controller, entry.key)

    def decide(self, controller: str, key: Key) -> Plan | None:
        """One pass; ``None`` for an object that is gone or cannot be read."""
        seat = next(one for one in self._seats if one.reconciler.controller == controller)
        part = seat.reconciler.part
        entry = self.built.cache.get(part, key)
        obj = None if entry is None else entry.object
        if obj is None:
            seat.enqueuer.forget(key)
            return None
        return decide(seat.reconciler, obj, self.built.view(), self.now, seat.enqueuer)

    def reads(self, controller: str, own: Key, part: Part[Any], key: Key) -> bool:
        """Whether the pass of an object depends on another object, beyond what a mapping by hand stands for."""
        seat = next(one for one in self._seats if one.reconciler.controller == controller)
        view = self.built.view()
        entry = self.built.cache.get(seat.reconciler.part, own)
        if entry is None or entry.object is None:
            return False
        decide(seat.reconciler, entry.object, view, self.now)
        return about_object(part.name, key) in view.reads.dependencies

    def put(self, part: Part[Any], obj: JsonObject) -> dict[str, set[Key]]:
        """An object enters the cache, or a newer version of it; returns whom that enqueues, by controller."""
        return self.reported(self.built.put(part, obj))

    def delete(self, part: Part[Any], key: Key) -> dict[str, set[Key]]:
        """An object goes."""
        entry = self.built.cache.get(part, key)
        assert entry is not None
        return self.reported(self.built.cache.absorb_deleted(part, key, entry.version.uid, 0.0))

    def reported(self, changes: list[Change[Any]]) -> dict[str, set[Key]]:
        """Whom changes of the cache enqueue."""
        for change in changes:
            self._router.route(change)
        found = {one.reconciler.controller: _emptied(one.queue) for one in self._seats}
        return {controller: keys for controller, keys in found.items() if keys}


def woken(
    service: ServiceDefinition,
    built: BuiltCache,
    part: Part[Any],
    before: JsonObject | None,
    after: JsonObject | None,
    *,
    now: datetime = NOW,
) -> set[str]:
    """Whom a change enqueues when everybody has had a pass before it: ``<controller>:<namespace>/<name>``.

    The cache that is given stays as it is.
    """
    either = after or before
    assert either is not None
    key = Key.of(either)
    copy = cache_of(service.consumes, indexes=service.indexes)
    for one in service.consumes:
        known = (entry for entry in built.cache.all(one) if not (one is part and entry.key == key))
        copy.put(one, *(entry.raw for entry in known))
    if before is not None:
        copy.put(part, _versioned(before, 1))
    awake = Awake(service, copy, now)
    found = awake.delete(part, key) if after is None else awake.put(part, _versioned(after, 2))
    return {f"{controller}:{one}" for controller, keys in found.items() for one in keys}


def _versioned(obj: JsonObject, number: int) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(number)}}


def _emptied(queue: WorkQueue[Key]) -> set[Key]:
    keys: set[Key] = set()
    while queue.statistics.depth:
        # Nothing is waited for: something is there.
        try:
            queue.get().send(None)
        except StopIteration as taken:
            keys.add(taken.value.key)
            queue.done(taken.value.key)
    return keys
