"""The controllers of a service during one term of leadership: queues, workers and what feeds them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller_runtime.backoff import Backoff
from controller_runtime.bus.freshness import boot_seconds
from controller_runtime.bus.part import Key
from controller_runtime.kube.client import KubeClient
from controller_runtime.manager.context import ProcessContext
from controller_runtime.manager.effects import EffectHost
from controller_runtime.manager.facts import FactKeeper
from controller_runtime.reconcile.admission import Admission
from controller_runtime.reconcile.change_router import ChangeRouter
from controller_runtime.reconcile.events import EventWriter
from controller_runtime.reconcile.executor import Executor
from controller_runtime.reconcile.pass_record import Records
from controller_runtime.reconcile.queue import QueueStatistics, WorkQueue
from controller_runtime.reconcile.retry_rate import DEFAULT_BACKOFF
from controller_runtime.reconcile.worker import Worker
from controller_runtime.reconcile.world_access import WorldAccess


@dataclass(frozen=True, slots=True)
class TermContext:
    """What a term of leadership has besides what the process has.

    Attributes:
        kube: refuses writes when the Lease was not renewed in time (FW-407).
    """

    process: ProcessContext
    kube: KubeClient
    facts: FactKeeper
    effects: EffectHost


class Controllers:
    """All controllers of the service. Changes of the world reach them through `on_change`."""

    def __init__(self, term: TermContext) -> None:
        process, definition = term.process, term.process.definition
        world = WorldAccess(process.world, process.dispatcher, boot_seconds)
        admission = Admission(world, term.kube)
        events = EventWriter(term.kube, definition.field_manager)
        backoff = Backoff(
            process.settings.backoff_initial, cap=process.settings.backoff_max, jitter=DEFAULT_BACKOFF.jitter
        )
        self._facts = term.facts
        self._resync_interval = process.settings.resync_interval
        self._workers: list[Worker[Any]] = [
            Worker(
                reconciler,
                process.world,
                WorkQueue(backoff=backoff, lane=lambda key: key.namespace),
                Executor(
                    term.kube,
                    reconciler,
                    field_manager=definition.field_manager,
                    world=world,
                    admission=admission,
                    events=events,
                    declared=definition.declared_writes,
                ),
                effects=term.effects,
                interceptors=(Records(definition.name, process.decisions.record), term.facts),
                observe=process.metrics.on_pass,
                watchdog=process.watchdog,
            )
            for reconciler in definition.reconcilers
        ]
        self._router = ChangeRouter(process.world, definition.shown, [one.waking for one in self._workers])
        self.on_change = self._router.route

    def hurry(self, parts: set[str]) -> None:
        """Some parts are fresh again: no change tells an object that what it did not see may be seen now."""
        for worker in self._workers:
            worker.hurry(parts)

    @property
    def queues(self) -> dict[str, QueueStatistics]:
        """State of each controller's queue."""
        return {one.controller: one.queue.statistics for one in self._workers}

    @property
    def active(self) -> dict[str, int]:
        """Passes that run right now, by controller."""
        return {one.controller: one.active for one in self._workers}

    @property
    def statuses(self) -> dict[str, dict[str, int]]:
        """How many objects have which status, by controller (FW-286)."""
        return {one.controller: dict(one.statuses) for one in self._workers}

    @property
    def reasons(self) -> dict[str, Mapping[str, int]]:
        """How often passes decided what, by controller and reason (FW-560)."""
        return {one.controller: one.reasons for one in self._workers}

    @property
    def failed_wakes(self) -> dict[str, int]:
        """Times that a wake could not tell whom a change concerns, by controller (FW-432)."""
        return {one.controller: one.waking.failed + self._router.failed for one in self._workers}

    def woken_by(self, controller: str, key: Key) -> str | None:
        """Why the last pass of an object took place; ``None`` when there was none."""
        found = (one.woken_by(key) for one in self._workers if one.controller == controller)
        return next(found, None)

    @property
    def untold(self) -> dict[str, int]:
        """Times that an object could not be told why nothing is done about it, by controller (FW-477)."""
        return {one.controller: one.untold for one in self._workers}

    async def run(self) -> None:
        """Work until cancelled; begins with a pass of every object."""
        async with asyncio.TaskGroup() as group:
            for worker in self._workers:
                group.create_task(worker.run())
            try:
                while True:
                    await self._resync()
                    await asyncio.sleep(self._resync_interval)
            finally:
                # Timers of a term that is over would keep all of it alive until they fire.
                for worker in self._workers:
                    worker.queue.close()

    async def _resync(self) -> None:
        # A round of the facts is over when every object had its pass; a slow one must not look like disuse.
        if all(worker.round_over for worker in self._workers):
            await self._facts.next_round()
            for worker in self._workers:
                worker.begin_round()
        for worker in self._workers:
            worker.resync()
