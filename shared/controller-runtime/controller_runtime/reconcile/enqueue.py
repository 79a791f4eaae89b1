"""From a change in the cache to the keys of the controllers that it concerns: by watches and by what was read."""

import asyncio
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import structlog

from controller_runtime.api.meta import Resource
from controller_runtime.log.cache.store import UNWATCHED, Cache, Reader
from controller_runtime.log.cache.view import CacheView
from controller_runtime.log.wire.part import Dependency, Key, about_group
from controller_runtime.log.wire.version import Change
from controller_runtime.reconcile.decide import Decision, Interceptor, Proceed
from controller_runtime.reconcile.plan import Plan, compared
from controller_runtime.reconcile.queue import Priority, WorkQueue
from controller_runtime.reconcile.reconciler import Predicate, Reconciler, mapping_name
from controller_runtime.reconcile.record import MOST_ORIGINS, Origin
from controller_runtime.shard import WHOLE, Shard

_log = structlog.get_logger(__name__)

Listener = Callable[[Change[Any]], None]
"""Takes a change; never waits."""


_SLICE: Final = 100
"""Changes after which others get their turn: a mapping may decode an object, so some 20 ms."""


class Dispatcher:
    """Hands changes to the listeners of this moment; without any (this process does not lead) they are dropped.

    A snapshot may bring thousands at once. They are passed on in their order, piece by piece, while the loop goes on.
    """

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._unreported: deque[Change[Any]] = deque()
        self._telling = False
        self.failed: Counter[str] = Counter()
        """How often a listener failed on a change, by part."""

    def __call__(self, changes: Sequence[Change[Any]]) -> None:
        if self._listeners:
            self._unreported.extend(changes)
        if not self._telling:
            self._notify_some()

    @contextmanager
    def listening(self, *listeners: Listener) -> Iterator[None]:
        """Tell these listeners, too, what changes until the block is left; they need not know what came before it."""
        self._listeners += listeners
        try:
            yield
        finally:
            self._listeners = tuple(one for one in self._listeners if one not in listeners)
            if not self._listeners:
                self._unreported.clear()

    def _notify_some(self) -> None:
        self._telling = True
        for _ in range(_SLICE):
            if self._unreported:
                self._notify(self._unreported.popleft())
        self._telling = bool(self._unreported)
        if self._telling:
            asyncio.get_running_loop().call_soon(self._notify_some)

    def _notify(self, change: Change[Any]) -> None:
        for listener in self._listeners:
            try:
                listener(change)
            except Exception:
                # One unexpected object must not keep the others from being fed into the cache.
                self.failed[change.part.name] += 1
                _log.exception("change handler failed", part=change.part.name, key=str(change.key))


K = TypeVar("K")

_NOTHING: Final = array("q")


class Readers(Generic[K]):
    """Kept by pass and not by declaration, so it cannot differ from what is really asked.

    A leader begins with a pass of every object; from then on none is missing. Most questions are asked by one object,
    so they get no collection of their own.
    """

    def __init__(self) -> None:
        self._asked: dict[K, array[int]] = {}
        self._readers: dict[Dependency, K | dict[K, None]] = {}

    def __contains__(self, dependency: Dependency) -> bool:
        return dependency in self._readers

    def of(self, dependency: Dependency) -> Iterable[K]:
        """Whom another answer concerns."""
        found = self._readers.get(dependency)
        return () if found is None else tuple(_several(found))

    def dependencies_of(self, key: K) -> Iterable[Dependency]:
        """What the latest pass of an object asked."""
        return self._asked.get(key, _NOTHING)

    def note(self, key: K, dependencies: Iterable[Dependency]) -> None:
        """What the latest pass of an object asked; nothing = it is not enqueued any more."""
        now, before = array("q", sorted(dependencies)), self._asked.get(key, _NOTHING)
        if now == before:
            return
        for dependency in set(before).difference(now):
            self._drop(dependency, key)
        for dependency in set(now).difference(before):
            self._add(dependency, key)
        if now:
            self._asked[key] = now
        else:
            del self._asked[key]

    def _add(self, dependency: Dependency, key: K) -> None:
        known = self._readers.get(dependency)
        if known is None:
            self._readers[dependency] = key
        else:
            several = _several(known)
            several[key] = None
            self._readers[dependency] = several

    def _drop(self, dependency: Dependency, key: K) -> None:
        known = self._readers[dependency]
        if isinstance(known, dict) and len(known) > 1:
            del known[key]
        else:
            del self._readers[dependency]


def _several(known: K | dict[K, None]) -> dict[K, None]:
    return known if isinstance(known, dict) else {known: None}


T = TypeVar("T", bound=Resource)


class Enqueuer(Interceptor, Generic[T]):
    """Queues passes. Around each decision it notes what that asked, and it remembers which change woke each object."""

    def __init__(self, reconciler: Reconciler[T], cache: Cache, queue: WorkQueue[Key], shard: Shard = WHOLE) -> None:
        """``shard``: whose objects alone are enqueued."""
        self._shard = shard
        self._reconciler = reconciler
        self._cache = cache
        self._queue = queue
        self._readers: Readers[Key] = Readers()
        self._causes: dict[Key, str] = {}
        self._origins: dict[Key, list[Origin]] = {}
        self.failed = 0
        """Changes whose dependents could not be determined (FW-432)."""

    def has_asked(self, dependency: Dependency) -> bool:
        """Whether the last pass of any object depended on the answer."""
        return dependency in self._readers

    def decide(self, decision: Decision[Any], proceed: Proceed) -> Plan:
        """Take the decision and note what it asked, before anything is awaited: no change in between goes unnoticed."""
        key = decision.obj.key
        # A failure is reported in the pass that met it: what that has asked before counts still.
        asked = set(self._readers.dependencies_of(key) if decision.view.failure is not None else ())
        try:
            plan = proceed(decision)
            asked |= compared(plan)
            return plan
        finally:
            self._readers.note(key, asked | decision.reads.dependencies)

    def asks_nothing(self, key: Key) -> None:
        """Nothing is decided about the object as it is: its own next version alone matters."""
        self._readers.note(key, ())

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._readers.note(key, ())
        self._causes.pop(key, None)
        self._origins.pop(key, None)

    def take_origins(self, key: Key) -> list[Origin]:
        """The changes since the last time that belong to exported traces."""
        return self._origins.pop(key, [])

    def take_cause(self, key: Key) -> str:
        """The change that woke the object since the last time; empty when it was none, as at a resync or a retry."""
        return self._causes.pop(key, "")

    def on_change(self, change: Change[Any], dependencies: Iterable[Dependency], *, blindly: bool = False) -> None:
        """Queue what a change of the cache concerns; call it for every change of a consumed part.

        What fails on the object keeps no other from being enqueued, nor the cache from being fed (FW-432).

        Args:
            dependencies: those with another answer now.
            blindly: without a look at the object, which may not end.
        """
        own, cause = change.part is self._reconciler.part, str(change)
        origin = Origin.of(change, cause)
        if own and (blindly or self._concerns(change)):
            self._enqueue(change.key, cause, Priority.USER, origin)
        for dependency in dependencies:
            for key in self._readers.of(dependency):
                # Whether a change of the object itself matters is said above.
                if not (own and key == change.key):
                    self._enqueue(key, cause, Priority.DEPENDENCY, origin)
        if not blindly:
            self._by_hand(change, cause, origin)

    def _by_hand(self, change: Change[Any], cause: str, origin: Origin | None) -> None:
        for mapping in self._reconciler.mappings:
            if mapping.part is not change.part:
                continue
            try:
                for key in mapping.keys(change, CacheView(self._cache, shard=self._shard.index)):
                    self._enqueue(key, cause, Priority.DEPENDENCY, origin)
            except Exception:
                self._mapping_failed(mapping_name(mapping), change)

    def _enqueue(self, key: Key, cause: str, priority: Priority, origin: Origin | None) -> None:
        if self._shard.count > 1 and not self._shard.owns(key.namespace):
            return
        self._causes[key] = cause
        if origin is not None:
            origins = self._origins.setdefault(key, [])
            if len(origins) < MOST_ORIGINS:
                origins.append(origin)
        self._queue.add(key, priority)

    def _concerns(self, change: Change[Any]) -> bool:
        try:
            return not self._reconciler.ignores(change)
        except Exception:
            self._mapping_failed("ignores", change)
            # A pass too many is harmless.
            return True

    def _mapping_failed(self, mapping: str, change: Change[Any]) -> None:
        self.failed += 1
        _log.exception(
            "change handler failed",
            controller=self._reconciler.controller,
            mapping=mapping,
            part=change.part.name,
            key=str(change.key),
        )


class ChangeRouter:
    """Looks at a change once for all controllers, and at the objects only if a decision has asked for them (FW-500).

    Attributes:
        failed: times that what is shown of an object could not be determined; it counted as news (FW-432).
    """

    def __init__(
        self,
        cache: Cache,
        predicates: Iterable[Predicate[Any]],
        enqueuers: Sequence[Enqueuer[Any]],
        reader: Reader = UNWATCHED,
    ) -> None:
        self._cache = cache
        self._reader = reader
        self._predicates = {one.part.name: one.of for one in predicates}
        self._enqueuers = enqueuers
        self.failed = 0

    def route(self, change: Change[Any]) -> None:
        """Queue the passes that a change makes worthwhile; never waits."""
        if change.new is None:
            self._route(change)
        elif not self._reader.take_in(change.new, lambda: self._route(change)):
            self._route(change, blindly=True)

    def _route(self, change: Change[Any], *, blindly: bool = False) -> None:
        dependencies = self._answered_otherwise(change, blindly=blindly)
        for enqueuer in self._enqueuers:
            enqueuer.on_change(change, dependencies, blindly=blindly)

    def _answered_otherwise(self, change: Change[Any], *, blindly: bool) -> set[Dependency]:
        """Of the questions that decisions have asked."""
        moved = {one for one in map(about_group, change.groups) if self._is_asked(one)}
        others = {one for one in self._cache.dependencies(change) if self._is_asked(one)} - moved
        return moved | others if others and (blindly or self._is_news(change)) else moved

    def _is_asked(self, dependency: Dependency) -> bool:
        return any(enqueuer.has_asked(dependency) for enqueuer in self._enqueuers)

    def _is_news(self, change: Change[Any]) -> bool:
        """Whether the change shows (FW-501)."""
        of = self._predicates.get(change.part.name)
        if of is None or change.old is None or change.new is None or change.old.version.uid != change.new.version.uid:
            return True
        before, after = change.before, change.after
        try:
            return before is None or after is None or bool(of(before) != of(after))
        except Exception:
            self.failed += 1
            _log.exception("change handler failed", part=change.part.name, key=str(change.key))
            # A pass too many is harmless.
            return True
