"""The facts of a service while it leads: gathered by effects, published, and dropped when nothing refers to them."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from controller_runtime.bus.entry import Change, Entry
from controller_runtime.bus.fact import FACTS, Fact, fact_key, facts_by_owner
from controller_runtime.bus.fact_publisher import FactPublisher
from controller_runtime.bus.freshness import boot_seconds
from controller_runtime.bus.part import Key
from controller_runtime.bus.view import ReadLog
from controller_runtime.bus.world import World
from controller_runtime.manager.dispatch import Dispatcher
from controller_runtime.reconcile.decide import Decision, Interceptor, Proceed
from controller_runtime.reconcile.plan import Plan
from controller_runtime.reconcile.reconciler import ServiceDefinition

FACTS_BY_OWNER = facts_by_owner(FACTS)
"""Every service's world has this index."""


_SLICE: Final = 100
"""Facts after which others get their turn: each is decoded, some 10 ms in all."""


class FactKeeper(Interceptor):
    """Puts facts into the world and onto the bus, and takes them away again.

    A fact goes with its owner, and when no pass looked at it for a whole round: objects outlive what facts are about
    (a pod's log, an image of an earlier generation), and a store that only grows fills up one day. What passes
    look at it learns around their decisions.
    """

    def __init__(
        self, definition: ServiceDefinition, world: World, publisher: FactPublisher, dispatcher: Dispatcher
    ) -> None:
        self._service = definition.name
        self._parts = {reconciler.part.name: reconciler.part for reconciler in definition.reconcilers}
        self._world = world
        self._publisher = publisher
        self._dispatcher = dispatcher
        self._round = 0
        self._used: dict[Key, int] = {}

    def previous(self, effect: str, about: str) -> Fact | None:
        """The last fact of an effect, to count consecutive failures."""
        entry = self._world.get(FACTS, fact_key(self._service, effect, about))
        return None if entry is None else entry.object

    async def publish(self, entry: Entry[Fact]) -> None:
        """Make a fact known: to this process at once, to the bus as soon as it can be reached."""
        self._used[entry.key] = self._round
        fact = entry.raw
        self._dispatcher(self._world.absorb(FACTS, fact, boot_seconds(), entry.traceparent))
        self._publisher.publish_fact(fact, entry.traceparent)

    def on_change(self, change: Change[Any]) -> None:
        """Remove the facts of an object that is gone."""
        if change.old is None or change.part.name not in self._parts:
            return
        if change.new is None or change.new.version.uid != change.old.version.uid:
            self._remove(self._world.select(FACTS_BY_OWNER, change.old.version.uid))

    def decide(self, decision: Decision[Any], proceed: Proceed) -> Plan:
        try:
            return proceed(decision)
        finally:
            self._looked_at(decision.reads)

    def _looked_at(self, reads: ReadLog) -> None:
        for part, key in reads.objects:
            # What was only looked for leaves nothing behind: passes look for facts of objects that go.
            if part == FACTS.name and self._world.get(FACTS, key) is not None:
                self._used[key] = self._round

    async def next_round(self) -> None:
        """Remove what nothing referred to in the round that ends, and what is left of objects that went unseen."""
        known = self._world.all(FACTS)
        present = {entry.key for entry in known}
        self._used = {key: last for key, last in self._used.items() if key in present}
        for number, entry in enumerate(known, 1):
            # Others had their turn since: what was replaced meanwhile was needed, and what is gone is gone.
            if self._world.get(FACTS, entry.key) is entry and not self._is_needed(entry):
                self._remove([entry])
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        self._round += 1

    def _is_needed(self, entry: Entry[Fact]) -> bool:
        fact = entry.object
        if fact is None:
            return False
        part = self._parts.get(fact.owner.part)
        if part is None or not self._world.is_fresh(part):
            return True
        owner = self._world.get(part, Key(fact.owner.namespace, fact.owner.name))
        if owner is None or owner.version.uid != fact.owner.uid:
            return False
        return self._used.setdefault(entry.key, self._round) >= self._round - 1

    def _remove(self, facts: Iterable[Entry[Fact]]) -> None:
        for fact in facts:
            self._publisher.remove_fact(fact.key)
            self._world.absorb_deleted(FACTS, fact.key, fact.version.uid, boot_seconds())
            self._used.pop(fact.key, None)
