"""From a change in the cache to the keys of the controllers that it concerns: by watches and by what was read."""

import asyncio
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import structlog

from controller_runtime.api.meta import Resource
from controller_runtime.log.cache.store import World
from controller_runtime.log.cache.view import WorldView
from controller_runtime.log.wire.part import Key, Question, about_group
from controller_runtime.log.wire.version import Change
from controller_runtime.reconcile.decide import Decision, Interceptor, Proceed
from controller_runtime.reconcile.plan import Plan, compared
from controller_runtime.reconcile.queue import Priority, WorkQueue
from controller_runtime.reconcile.reconciler import Reconciler, Shown, wake_name
from controller_runtime.reconcile.record import MOST_ORIGINS, Origin

_log = structlog.get_logger(__name__)

Listener = Callable[[Change[Any]], None]
"""Takes a change; never waits."""


_SLICE: Final = 100
"""Changes after which others get their turn: a wake may decode an object, so some 20 ms."""


class Dispatcher:
    """Hands changes to the listener of this moment; without a listener (this process does not lead) they are dropped.

    A snapshot may bring thousands at once. They are passed on in their order, piece by piece, while the loop goes on.
    """

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._untold: deque[Change[Any]] = deque()
        self._telling = False
        self.failed: Counter[str] = Counter()
        """How often a listener stumbled over a change, by part."""

    def __call__(self, changes: Sequence[Change[Any]]) -> None:
        if self._listeners:
            self._untold.extend(changes)
        if not self._telling:
            self._tell_some()

    def listen(self, *listeners: Listener) -> None:
        """Replace the listeners; what the former ones did not receive yet, the new ones need not know."""
        self._listeners = listeners
        self._untold.clear()

    def _tell_some(self) -> None:
        self._telling = True
        for _ in range(_SLICE):
            if self._untold:
                self._tell(self._untold.popleft())
        self._telling = bool(self._untold)
        if self._telling:
            asyncio.get_running_loop().call_soon(self._tell_some)

    def _tell(self, change: Change[Any]) -> None:
        for listener in self._listeners:
            try:
                listener(change)
            except Exception:
                # One unexpected object must not keep the others from being fed into the world.
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
        self._readers: dict[Question, K | dict[K, None]] = {}

    def __contains__(self, question: Question) -> bool:
        return question in self._readers

    def of(self, question: Question) -> Iterable[K]:
        """Whom another answer concerns."""
        found = self._readers.get(question)
        return () if found is None else tuple(_several(found))

    def asked(self, key: K) -> Iterable[Question]:
        """What the latest pass of an object asked."""
        return self._asked.get(key, _NOTHING)

    def note(self, key: K, questions: Iterable[Question]) -> None:
        """What the latest pass of an object asked; nothing = it is not woken any more."""
        now, before = array("q", sorted(questions)), self._asked.get(key, _NOTHING)
        if now == before:
            return
        for question in set(before).difference(now):
            self._drop(question, key)
        for question in set(now).difference(before):
            self._add(question, key)
        if now:
            self._asked[key] = now
        else:
            del self._asked[key]

    def _add(self, question: Question, key: K) -> None:
        known = self._readers.get(question)
        if known is None:
            self._readers[question] = key
        else:
            several = _several(known)
            several[key] = None
            self._readers[question] = several

    def _drop(self, question: Question, key: K) -> None:
        known = self._readers[question]
        if isinstance(known, dict) and len(known) > 1:
            del known[key]
        else:
            del self._readers[question]


def _several(known: K | dict[K, None]) -> dict[K, None]:
    return known if isinstance(known, dict) else {known: None}


T = TypeVar("T", bound=Resource)


class Waking(Interceptor, Generic[T]):
    """Queues passes. Around each decision it notes what that asked, and it remembers which change woke each object."""

    def __init__(self, reconciler: Reconciler[T], world: World, queue: WorkQueue[Key]) -> None:
        self._reconciler = reconciler
        self._world = world
        self._queue = queue
        self._readers: Readers[Key] = Readers()
        self._causes: dict[Key, str] = {}
        self._origins: dict[Key, list[Origin]] = {}
        self.failed = 0
        """Changes whose dependents could not be determined (FW-432)."""

    def has_asked(self, question: Question) -> bool:
        """Whether the last pass of any object depended on the answer."""
        return question in self._readers

    def decide(self, decision: Decision[Any], proceed: Proceed) -> Plan:
        """Take the decision and note what it asked, before anything is awaited: no change in between goes unnoticed."""
        key = decision.obj.key
        # A failure is reported in the pass that met it: what that has asked before counts still.
        asked = set(self._readers.asked(key) if decision.view.failure is not None else ())
        try:
            plan = proceed(decision)
            asked |= compared(plan)
            return plan
        finally:
            self._readers.note(key, asked | decision.reads.questions)

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

    def on_change(self, change: Change[Any], questions: Iterable[Question]) -> None:
        """Queue what a change of the world concerns; call it for every change of a consumed part.

        What fails on the object keeps no other from being woken, nor the world from being fed (FW-432).

        Args:
            questions: those with another answer now.
        """
        own, cause = change.part is self._reconciler.part, str(change)
        origin = Origin.of(change, cause)
        if own and self._concerns(change):
            self._wake(change.key, cause, Priority.USER, origin)
        for question in questions:
            for key in self._readers.of(question):
                # Whether a change of the object itself matters is said above.
                if not (own and key == change.key):
                    self._wake(key, cause, Priority.DEPENDENCY, origin)
        self._by_hand(change, cause, origin)

    def _by_hand(self, change: Change[Any], cause: str, origin: Origin | None) -> None:
        for wake in self._reconciler.wakes:
            if wake.part is not change.part:
                continue
            try:
                for key in wake.keys(change, WorldView(self._world)):
                    self._wake(key, cause, Priority.DEPENDENCY, origin)
            except Exception:
                self._stumbled(wake_name(wake), change)

    def _wake(self, key: Key, cause: str, priority: Priority, origin: Origin | None) -> None:
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
            self._stumbled("ignores", change)
            # A pass too many is harmless.
            return True

    def _stumbled(self, wake: str, change: Change[Any]) -> None:
        self.failed += 1
        _log.exception(
            "change handler failed",
            controller=self._reconciler.controller,
            wake=wake,
            part=change.part.name,
            key=str(change.key),
        )


class ChangeRouter:
    """Looks at a change once for all controllers, and at the objects only if a decision has asked for them (FW-500).

    Attributes:
        failed: times that what is shown of an object could not be determined; it counted as news (FW-432).
    """

    def __init__(self, world: World, shown: Iterable[Shown[Any]], wakings: Sequence[Waking[Any]]) -> None:
        self._world = world
        self._shown = {one.part.name: one.of for one in shown}
        self._wakings = wakings
        self.failed = 0

    def route(self, change: Change[Any]) -> None:
        """Queue the passes that a change makes worthwhile; never waits."""
        questions = self._answered_otherwise(change)
        for waking in self._wakings:
            waking.on_change(change, questions)

    def _answered_otherwise(self, change: Change[Any]) -> set[Question]:
        """Of the questions that decisions have asked."""
        moved = {one for one in map(about_group, change.groups) if self._is_asked(one)}
        others = {one for one in self._world.questions(change) if self._is_asked(one)} - moved
        return moved | others if others and self._is_news(change) else moved

    def _is_asked(self, question: Question) -> bool:
        return any(waking.has_asked(question) for waking in self._wakings)

    def _is_news(self, change: Change[Any]) -> bool:
        """Whether the change shows (FW-501)."""
        of = self._shown.get(change.part.name)
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
