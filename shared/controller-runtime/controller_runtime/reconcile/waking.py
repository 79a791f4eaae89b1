"""Which objects of one controller a change concerns: itself, whoever asked about it, and whom a wake by hand names."""

from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

import structlog

from controller_runtime.api.meta import Resource
from controller_runtime.bus.entry import Change
from controller_runtime.bus.part import Key
from controller_runtime.bus.question import Question
from controller_runtime.bus.view import WorldView
from controller_runtime.bus.world import World
from controller_runtime.reconcile.decide import Decision, Interceptor, Proceed
from controller_runtime.reconcile.pass_trace import MOST_ORIGINS, Origin
from controller_runtime.reconcile.plan import Plan, compared
from controller_runtime.reconcile.queue import Priority, WorkQueue
from controller_runtime.reconcile.readers import Readers
from controller_runtime.reconcile.reconciler import Reconciler, wake_name

T = TypeVar("T", bound=Resource)

_log: Final = structlog.get_logger(__name__)


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
        """Times that it could not be told whom a change concerns (FW-432)."""

    def has_asked(self, question: Question) -> bool:
        """Whether the last pass of any object depended on the answer."""
        return question in self._readers

    def decide(self, decision: Decision[Any], proceed: Proceed) -> Plan:
        """Take the decision and note what it asked: before anything is awaited, or a change in between woke nobody."""
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

        What stumbles over the object keeps nobody else from being woken, nor the world from being fed (FW-432).

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
