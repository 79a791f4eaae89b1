"""The controllers of a service during one term of leadership: queues, workers and what feeds them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aim_shared.bus.entry import Change
from aim_shared.bus.freshness import boot_seconds
from aim_shared.bus.part import Key
from aim_shared.bus.world import World
from aim_shared.kube.client import KubeClient
from aim_shared.reconcile.admission import Admission
from aim_shared.reconcile.change_router import ChangeRouter
from aim_shared.reconcile.events import EventWriter
from aim_shared.reconcile.executor import Executor
from aim_shared.reconcile.pass_record import Recorder, Records
from aim_shared.reconcile.queue import QueueStatistics, WorkQueue
from aim_shared.reconcile.reconciler import Reconciler, ServiceDefinition
from aim_shared.reconcile.retry_rate import Backoff
from aim_shared.reconcile.waking import Waking
from aim_shared.reconcile.worker import Effects, Observer, Worker
from aim_shared.reconcile.world_access import WorldAccess
from aim_shared.runtime.facts import FactKeeper
from aim_shared.runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class Controller:
    """One reconciler at work."""

    reconciler: Reconciler[Any]
    queue: WorkQueue[Key]
    worker: Worker[Any]

    @property
    def waking(self) -> Waking[Any]:
        """What queues its passes."""
        return self.worker.waking


class Controllers:
    """All controllers of the service. Changes of the world reach them through `dispatch`.

    Args:
        kube: refuses writes when the Lease was not renewed in time.
        effects: starts what plans ask for.
        record: takes decision records.
        observe: takes the duration of every pass.
        tell: passes on the changes that own writes make.
        facts: learns which facts the passes look at.
    """

    def __init__(
        self,
        definition: ServiceDefinition,
        settings: Settings,
        world: World,
        kube: KubeClient,
        *,
        effects: Effects,
        record: Recorder,
        observe: Observer,
        tell: Callable[[Change[Any]], object],
        facts: FactKeeper,
    ) -> None:
        access = WorldAccess(world, tell, boot_seconds)
        admission = Admission(world, kube, access.absorb)
        events = EventWriter(kube, definition.field_manager)
        self._world = world
        self._resync_interval = settings.resync_interval
        self._facts = facts
        self._controllers: list[Controller] = []
        for reconciler in definition.reconcilers:
            executor = Executor(
                kube,
                reconciler,
                field_manager=definition.field_manager,
                live=access.live,
                absorb=access.absorb,
                admission=admission,
                events=events,
            )
            queue: WorkQueue[Key] = WorkQueue(backoff=Backoff(settings.backoff_initial, settings.backoff_max))
            worker: Worker[Any] = Worker(
                reconciler,
                world,
                queue,
                executor,
                effects=effects,
                interceptors=(Records(definition.name, record), facts),
                observe=observe,
            )
            self._controllers.append(Controller(reconciler, queue, worker))
        self._router = ChangeRouter(world, definition.shown, [one.waking for one in self._controllers])

    def dispatch(self, change: Change[Any]) -> None:
        """Tell every controller of a change; never waits."""
        self._router.route(change)

    def hurry(self, parts: set[str]) -> None:
        """Some parts are fresh again: no change tells an object that what it did not see may be seen now."""
        for controller in self._controllers:
            controller.worker.hurry(parts)

    @property
    def queues(self) -> dict[str, QueueStatistics]:
        """State of each controller's queue."""
        return {one.reconciler.controller: one.queue.statistics for one in self._controllers}

    @property
    def active(self) -> dict[str, int]:
        """Passes that run right now, by controller."""
        return {one.reconciler.controller: one.worker.active for one in self._controllers}

    @property
    def failed_wakes(self) -> dict[str, int]:
        """Times that a wake could not tell whom a change concerns, by controller (FW-432)."""
        return {one.reconciler.controller: one.waking.failed + self._router.failed for one in self._controllers}

    def woken_by(self, controller: str, key: Key) -> str | None:
        """Why the last pass of an object took place; ``None`` when there was none."""
        found = (one.worker.woken_by(key) for one in self._controllers if one.reconciler.controller == controller)
        return next(found, None)

    @property
    def untold(self) -> dict[str, int]:
        """Times that an object could not be told why nothing is done about it, by controller (FW-477)."""
        return {one.reconciler.controller: one.worker.untold for one in self._controllers}

    async def run(self) -> None:
        """Work until cancelled; begins with a pass of every object."""
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers:
                group.create_task(controller.worker.run())
            try:
                while True:
                    await self._resync()
                    await asyncio.sleep(self._resync_interval)
            finally:
                # Timers of a term that is over would keep all of it alive until they fire.
                for controller in self._controllers:
                    controller.queue.close()

    async def _resync(self) -> None:
        # A round of the facts is over when every object had its pass; a slow one must not look like disuse.
        if all(controller.worker.round_over for controller in self._controllers):
            await self._facts.next_round()
            for controller in self._controllers:
                controller.worker.begin_round()
        for controller in self._controllers:
            controller.worker.resync()
