"""What a service does only while it leads: publish its parts, run its controllers and effects."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from controller_runtime.backoff import Backoff
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ApiError
from controller_runtime.kube.reflector import Reflector
from controller_runtime.kube.reflector_state import Watching
from controller_runtime.log.broker.streams import StreamFault, StreamLimits
from controller_runtime.log.freshness import boot_seconds
from controller_runtime.log.history.facts import facts_of_shard
from controller_runtime.log.publish.publisher import FactPublisher, Publisher
from controller_runtime.log.publish.reflected import changes_since, reflect
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.publish.state import PublisherSettings, PublisherSetup, PublisherStatistics
from controller_runtime.log.publish.stream_reconciler import StreamReconciler, StreamStatistics
from controller_runtime.log.wire.part import Key, Part
from controller_runtime.manager.context import ProcessContext
from controller_runtime.manager.effects import EffectHost, EffectStatistics, FactStore
from controller_runtime.manager.leadership import Leadership
from controller_runtime.manager.settings import Settings
from controller_runtime.reconcile.cache_access import Admission, CacheAccess
from controller_runtime.reconcile.enqueue import ChangeRouter
from controller_runtime.reconcile.events import EventWriter
from controller_runtime.reconcile.executor import Executor
from controller_runtime.reconcile.queue import DEFAULT_BACKOFF, QueueStatistics, WorkQueue
from controller_runtime.reconcile.record import Records
from controller_runtime.reconcile.worker import Worker
from controller_runtime.shard import Shard
from controller_runtime.tasks import run_forever


@dataclass(frozen=True, slots=True)
class TermContext:
    """What a term of leadership has besides what the process has.

    Attributes:
        kube: refuses writes when the Lease was not renewed in time (FW-407).
    """

    process: ProcessContext
    kube: KubeClient
    facts: FactStore
    effects: EffectHost
    shard: Shard


class Controllers:
    """All controllers of the service. Changes of the cache reach them through `on_change`."""

    def __init__(self, term: TermContext) -> None:
        process, definition = term.process, term.process.definition
        cache = CacheAccess(process.cache, process.dispatcher, boot_seconds)
        admission = Admission(cache, term.kube)
        events = EventWriter(term.kube, definition.field_manager)
        backoff = Backoff(
            process.settings.backoff_initial, cap=process.settings.backoff_max, jitter=DEFAULT_BACKOFF.jitter
        )
        self._facts = term.facts
        self._resync_interval = process.settings.resync_interval
        self._workers: list[Worker[Any]] = [
            Worker(
                reconciler,
                process.cache,
                WorkQueue(backoff=backoff, lane=lambda key: key.namespace),
                Executor(
                    term.kube,
                    reconciler,
                    field_manager=definition.field_manager,
                    cache=cache,
                    admission=admission,
                    events=events,
                    declared=definition.declared_writes,
                ),
                effects=term.effects,
                interceptors=(Records(definition.name, process.decisions.record), term.facts),
                observe=process.metrics.on_pass,
                watchdog=process.watchdog,
                shard=term.shard,
            )
            for reconciler in definition.reconcilers
        ]
        enqueuers = [one.enqueuer for one in self._workers]
        self._router = ChangeRouter(process.cache, definition.predicates, enqueuers, process.watchdog)
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
    def failed_mappings(self) -> dict[str, int]:
        """Times that a mapping could not tell whom a change concerns, by controller (FW-432)."""
        return {one.controller: one.enqueuer.failed + self._router.failed for one in self._workers}

    def woken_by(self, controller: str, key: Key) -> str | None:
        """Why the last pass of an object took place; ``None`` when there was none."""
        found = (one.woken_by(key) for one in self._workers if one.controller == controller)
        return next(found, None)

    @property
    def unreported(self) -> dict[str, int]:
        """Failures to report on an object why nothing is done about it, by controller (FW-477)."""
        return {one.controller: one.unreported for one in self._workers}

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


_log: Final = structlog.get_logger(__name__)
_PATIENCE: Final = 5.0
"""Seconds that the own publishers may take to confirm their parts before a word is said about it."""


class Term:
    """One term of leading a shard; `run` it until leadership is lost, then throw it away.

    That of shard 0 also publishes the parts of the service, and keeps the streams (FW-890).

    Args:
        cluster: UID of the namespace kube-system.
    """

    def __init__(self, process: ProcessContext, cluster: str, leadership: Leadership) -> None:
        definition, shard = process.definition, leadership.shard
        guard = leadership.guard
        self._process = process
        self._leads_parts = shard.index == 0
        self._part = facts_of_shard(shard.index)
        self._setup = PublisherSetup(
            connection=process.bus,
            source=process.settings.pod_name,
            cluster=cluster,
            layout=process.layout,
            guard=guard,
            settings=publisher_settings(process.settings, governs=definition.governs_streams),
        )
        self._facts = FactPublisher(self._setup, self._part, definition.name)
        facts = FactStore(definition, self._part, process.cache, self._facts, process.dispatcher)
        effects = EffectHost(
            definition.name,
            definition.effects,
            process.runners,
            facts,
        )
        kube = process.kube.guarded(guard)
        self._context = TermContext(process, kube, facts, effects, shard)
        self.controllers = Controllers(self._context)
        self._streams = StreamReconciler(
            process.bus,
            stream_limits(process.settings),
            governs=definition.governs_streams,
            layout=process.layout,
            interval=process.settings.nats_heartbeat,
            alarm=self._setup.alarm,
        )
        self._impatient = False
        self._published = definition.publishes if self._leads_parts else ()
        self._reflectors = {part.name: self._reflector(part) for part in self._published}
        self._publishers = {part.name: self._publisher(part) for part in self._published}

    @property
    def publishers(self) -> dict[str, PublisherStatistics]:
        """State of each publisher, by part."""
        own = {name: publisher.statistics for name, publisher in self._publishers.items()}
        return {**own, self._part.name: self._facts.statistics}

    @property
    def streams(self) -> dict[str, StreamStatistics]:
        """How far back each stream reaches, by name, where this service sees to that."""
        return self._streams.statistics

    @property
    def stream_faults(self) -> tuple[StreamFault, ...]:
        """The streams that another client changed, as last seen (FW-767)."""
        return self._streams.faults

    @property
    def refused_watches(self) -> dict[str, str]:
        """What the API server keeps answering instead of a list or watch, by part; a permission is missing (403)."""
        moments = {name: reflector.statistics() for name, reflector in self._reflectors.items()}
        return {
            name: str(moment.last_error)
            for name, moment in moments.items()
            if isinstance(moment.last_error, ApiError) and moment.failures > 1 and moment.state != Watching.__name__
        }

    @property
    def unconfirmed(self) -> dict[str, str]:
        """The parts that keep every object from its pass for too long now, and why (FW-485)."""
        if not self._impatient:
            return {}
        withheld = {name: one.interrupted_by for name, one in self.publishers.items()}
        return {
            part: self.refused_watches.get(part) or withheld.get(part) or "its publisher has not confirmed it yet"
            for part in self._process.feed.awaited
        }

    @property
    def effects(self) -> EffectStatistics:
        """State of the effects."""
        return self._context.effects.statistics

    async def run(self) -> None:
        """Publish at once; reconcile as soon as every consumed part is known (FW-019).

        Raises:
            ExceptionGroup: with a `SupersededError`, another process publishes the same parts.
        """
        process, term = self._process, self._context
        try:
            async with term.effects, asyncio.TaskGroup() as group:
                group.create_task(run_forever("publishing facts", self._facts.run()))
                if self._leads_parts:
                    group.create_task(run_forever("keeping the streams", self._streams.run()))
                for part in self._published:
                    group.create_task(self._publish(part), name=f"publish {part}")
                with process.feed.listening(self._reread, self.controllers.hurry):
                    await process.feed.wait_synced()
                    await self._wait_confirmed()
                    listeners = (term.facts.on_change, term.effects.on_change, self.controllers.on_change)
                    with process.dispatcher.listening(*listeners):
                        await self.controllers.run()
        finally:
            self._report_unpublished()

    async def _wait_confirmed(self) -> None:
        """What the predecessor did not publish any more is not missing in the cluster (FW-485)."""
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(self._report_unconfirmed())
            # Where another process publishes, it may be gone with the versions that this shard's last leader wrote.
            others = () if self._leads_parts else self._process.definition.publishes
            await self._process.feed.wait_confirmed(self._sources(), others)
            telling.cancel()

    async def _report_unconfirmed(self) -> None:
        # The publisher of another process confirms its parts once per heartbeat.
        await asyncio.sleep(_PATIENCE + (0.0 if self._leads_parts else self._process.settings.nats_heartbeat))
        self._impatient = True
        _log.warning("reconciling waits until these parts are confirmed", parts=self.unconfirmed)

    def _report_unpublished(self) -> None:
        """Log that the history lacks something, which the next publisher publishes (FW-450, FW-896)."""
        for part, publisher in self.publishers.items():
            if publisher.waiting:
                _log.warning(
                    "stopped with unpublished versions; the next publisher reads them from the API server",
                    part=part,
                    count=publisher.waiting,
                )

    def _reread(self, part: Part[Any]) -> None:
        """Let the publisher of a part see what its own cache has seen: that the stream holds something else."""
        publisher = self._facts if part.name == self._part.name else self._publishers.get(part.name)
        if publisher is not None:
            publisher.reread()

    def _sources(self) -> dict[str, str]:
        """What the checkpoints of this term bear as their source, by part."""
        own = {name: publisher.source for name, publisher in self._publishers.items()}
        return {**own, self._part.name: self._facts.source}

    async def _publish(self, part: Part[Any]) -> None:
        publisher = self._publishers[part.name]
        async with self._reflectors[part.name] as reflector, asyncio.TaskGroup() as group:
            group.create_task(run_forever(f"publishing {part.name}", publisher.run()))
            group.create_task(run_forever(f"watching {part.name}", publisher.consume(reflector)))

    def _reflector(self, part: Part[Any]) -> Reflector[SourceVersion]:
        def present(key: Key) -> SourceVersion | None:
            # The publisher is made later, as it asks its reflector for lists.
            return self._publishers[part.name].present(key)

        return reflect(self._context.kube, part, present)

    def _publisher(self, part: Part[Any]) -> Publisher:
        changes = partial(changes_since, self._context.kube, part)
        return Publisher(self._setup, part, relist=self._reflectors[part.name].relist, changes=changes)


def publisher_settings(settings: Settings, *, governs: bool) -> PublisherSettings:
    """Publisher settings of a process.

    Args:
        governs: as `ServiceDefinition.governs_streams`.
    """
    limits = stream_limits(settings)
    return PublisherSettings(checkpoint_interval=settings.nats_heartbeat, limits=limits, governs=governs)


def stream_limits(settings: Settings) -> StreamLimits:
    """How much of the past a process would keep."""
    return StreamLimits(
        history_age=settings.nats_history_age,
        history_bytes=settings.nats_history_bytes,
        decisions_age=settings.nats_decisions_age,
        decisions_bytes=settings.nats_decisions_bytes,
        replicas=settings.nats_replicas,
    )
