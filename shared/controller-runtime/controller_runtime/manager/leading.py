"""What a service does only while it leads: publish its parts, reconcile, run effects."""

import asyncio
from typing import Any, Final

import structlog

from controller_runtime.bus.fact import FACTS
from controller_runtime.bus.fact_publisher import FactPublisher
from controller_runtime.bus.keeper import StreamKeeper, StreamStatistics
from controller_runtime.bus.part import Key, Part
from controller_runtime.bus.publisher import Publisher
from controller_runtime.bus.publisher_state import PublisherSettings, PublisherSetup, PublisherStatistics
from controller_runtime.bus.reflected import reflect
from controller_runtime.bus.source import SourceVersion
from controller_runtime.bus.stream_faults import StreamFault
from controller_runtime.bus.streams import StreamLimits
from controller_runtime.bus.tasks import run_forever
from controller_runtime.kube.errors import ApiError
from controller_runtime.kube.reflector import Reflector
from controller_runtime.kube.reflector_state import Watching
from controller_runtime.manager.context import ProcessContext
from controller_runtime.manager.controllers import Controllers, TermContext
from controller_runtime.manager.effects import EffectHost, EffectStatistics
from controller_runtime.manager.facts import FactKeeper
from controller_runtime.manager.settings import Settings

_log: Final = structlog.get_logger(__name__)
_PATIENCE: Final = 5.0
"""Seconds that the own publishers may take to vouch for their parts before a word is said about it."""


class Term:
    """One term of leadership; `run` it until leadership is lost, then throw it away.

    Args:
        cluster: UID of the namespace kube-system.
    """

    def __init__(self, process: ProcessContext, cluster: str) -> None:
        definition = process.definition
        guard = process.leadership.guard
        self._process = process
        self._setup = PublisherSetup(
            connection=process.bus,
            source=process.settings.pod_name,
            cluster=cluster,
            layout=process.layout,
            guard=guard,
            settings=publisher_settings(process.settings, governs=definition.governs_streams),
        )
        self._facts = FactPublisher(self._setup, FACTS, definition.name)
        facts = FactKeeper(definition, process.world, self._facts, process.dispatcher)
        effects = EffectHost(definition.name, process.runners, facts, concurrency=definition.effect_kinds)
        kube = process.kube.guarded(guard)
        self._context = TermContext(process, kube, facts, effects)
        self.controllers = Controllers(self._context)
        self._streams = StreamKeeper(
            process.bus,
            stream_limits(process.settings),
            governs=definition.governs_streams,
            layout=process.layout,
            interval=process.settings.nats_heartbeat,
            alarm=self._setup.alarm,
        )
        self._impatient = False
        self._reflectors = {part.name: self._reflector(part) for part in definition.publishes}
        self._publishers = {part.name: self._publisher(part) for part in definition.publishes}

    @property
    def publishers(self) -> dict[str, PublisherStatistics]:
        """State of each publisher, by part."""
        own = {name: publisher.statistics for name, publisher in self._publishers.items()}
        return {**own, FACTS.name: self._facts.statistics}

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
    def unvouched(self) -> dict[str, str]:
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
        process.feed.listen(self._reread, self.controllers.hurry)
        try:
            async with term.effects, asyncio.TaskGroup() as group:
                group.create_task(run_forever("publishing facts", self._facts.run()))
                group.create_task(run_forever("keeping the streams", self._streams.run()))
                for part in process.definition.publishes:
                    group.create_task(self._publish(part), name=f"publish {part}")
                await process.feed.wait_synced()
                await self._wait_vouched()
                process.dispatcher.listen(term.facts.on_change, term.effects.on_change, self.controllers.on_change)
                await self.controllers.run()
        finally:
            process.dispatcher.listen()
            process.feed.listen()
            self._tell_unpublished()

    async def _wait_vouched(self) -> None:
        """What the predecessor did not publish any more is not missing in the cluster (FW-485)."""
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(self._tell_unvouched())
            await self._process.feed.wait_vouched(self._sources())
            telling.cancel()

    async def _tell_unvouched(self) -> None:
        await asyncio.sleep(_PATIENCE)
        self._impatient = True
        _log.warning("reconciling waits until this process has published its parts", parts=self.unvouched)

    def _tell_unpublished(self) -> None:
        """What the history lacks is named by a new epoch; that it lacks something is told here (FW-450)."""
        for part, publisher in self.publishers.items():
            if publisher.waiting:
                _log.warning(
                    "stopped with unpublished versions; the next publisher begins a new epoch",
                    part=part,
                    count=publisher.waiting,
                )

    def _reread(self, part: Part[Any]) -> None:
        """Let the publisher of a part see what its own world has seen: that the stream holds something else."""
        publisher = self._facts if part is FACTS else self._publishers.get(part.name)
        if publisher is not None:
            publisher.reread()

    def _sources(self) -> dict[str, str]:
        """What the markers of this term bear as their source, by part."""
        own = {name: publisher.source for name, publisher in self._publishers.items()}
        return {**own, FACTS.name: self._facts.source}

    async def _publish(self, part: Part[Any]) -> None:
        publisher = self._publishers[part.name]
        async with self._reflectors[part.name] as reflector, asyncio.TaskGroup() as group:
            group.create_task(run_forever(f"publishing {part.name}", publisher.run()))
            group.create_task(run_forever(f"watching {part.name}", publisher.consume(reflector)))

    def _reflector(self, part: Part[Any]) -> Reflector[SourceVersion]:
        def known(key: Key) -> SourceVersion | None:
            # The publisher is made later, as it asks its reflector for lists.
            return self._publishers[part.name].present(key)

        return reflect(self._context.kube, part, known)

    def _publisher(self, part: Part[Any]) -> Publisher:
        return Publisher(self._setup, part, relist=self._reflectors[part.name].relist)


def publisher_settings(settings: Settings, *, governs: bool) -> PublisherSettings:
    """Publisher settings of a process.

    Args:
        governs: as `ServiceDefinition.governs_streams`.
    """
    limits = stream_limits(settings)
    return PublisherSettings(marker_interval=settings.nats_heartbeat, limits=limits, governs=governs)


def stream_limits(settings: Settings) -> StreamLimits:
    """How much of the past a process would keep."""
    return StreamLimits(
        history_age=settings.nats_history_age,
        history_bytes=settings.nats_history_bytes,
        decisions_age=settings.nats_decisions_age,
        decisions_bytes=settings.nats_decisions_bytes,
        replicas=settings.nats_replicas,
    )
