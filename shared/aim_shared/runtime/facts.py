"""The facts of a service while it leads: gathered by effects, published, and dropped with the object they are about."""

from typing import Any

from aim_shared.bus.entry import Change, Entry
from aim_shared.bus.fact import Fact, fact_key, facts_by_owner
from aim_shared.bus.fact_publisher import FactPublisher
from aim_shared.bus.freshness import boot_seconds
from aim_shared.bus.parts import FACTS
from aim_shared.bus.world import World
from aim_shared.reconcile.reconciler import ServiceDefinition
from aim_shared.runtime.dispatch import Dispatcher

FACTS_BY_OWNER = facts_by_owner(FACTS)
"""Every service's world has this index."""


class FactKeeper:
    """Puts facts into the world and onto the bus, and takes them away again."""

    def __init__(
        self, definition: ServiceDefinition, world: World, publisher: FactPublisher, dispatcher: Dispatcher
    ) -> None:
        self._service = definition.name
        self._reconciled = frozenset(reconciler.part.name for reconciler in definition.reconcilers)
        self._world = world
        self._publisher = publisher
        self._dispatcher = dispatcher

    def previous(self, effect: str, about: str) -> Fact | None:
        """The last fact of an effect, to count consecutive failures."""
        entry = self._world.get(FACTS, fact_key(self._service, effect, about))
        return None if entry is None else entry.object

    async def publish(self, entry: Entry[Fact]) -> None:
        """Make a fact known: to this process at once, to the bus as soon as it can be reached."""
        self._dispatcher(self._world.absorb(FACTS, entry.raw, boot_seconds(), entry.traceparent))
        self._publisher.publish_fact(entry.raw)

    def on_change(self, change: Change[Any]) -> None:
        """Remove the facts of an object that is gone."""
        if change.part.name not in self._reconciled or change.new is not None or change.old is None:
            return
        for fact in self._world.select(FACTS_BY_OWNER, change.old.version.uid):
            self._publisher.remove_fact(fact.key)
            self._world.absorb_deleted(FACTS, fact.key, fact.version.uid, boot_seconds())
