"""A service between opened connections and the signal to stop: world, leadership, HTTP face."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import structlog

from aim_shared.api.kinds import NAMESPACE
from aim_shared.bus.connection import BusConnection
from aim_shared.bus.entry import keep_decoded
from aim_shared.bus.feed import WorldFeed
from aim_shared.bus.freshness import FeedSettings
from aim_shared.bus.part import Part
from aim_shared.bus.recorder import Recorder
from aim_shared.bus.reflected import reflect
from aim_shared.bus.source import SourceVersion
from aim_shared.bus.subjects import Layout
from aim_shared.bus.world import World
from aim_shared.kube.backoff import Backoff
from aim_shared.kube.client import KubeClient
from aim_shared.kube.errors import KubeError
from aim_shared.kube.lease import LeaderElector
from aim_shared.kube.lease_record import Identity
from aim_shared.kube.reflector import Reflector
from aim_shared.reconcile.reconciler import EffectRunner, ServiceDefinition
from aim_shared.runtime.decisions import DecisionLog
from aim_shared.runtime.dispatch import Dispatcher
from aim_shared.runtime.facts import FACTS_BY_OWNER
from aim_shared.runtime.failure import StartError
from aim_shared.runtime.http import HttpServer, metrics_only, probes
from aim_shared.runtime.leadership import AlwaysLeading, Elected, Leadership
from aim_shared.runtime.leading import Term, TermContext
from aim_shared.runtime.settings import Settings, address_of, effective
from aim_shared.runtime.state import ServiceState, paused_indexes
from aim_shared.telemetry.metrics import Measured, Metrics

_log = structlog.get_logger(__name__)
_RETRY: Final = Backoff(base=0.2, cap=5.0)
"""Pauses while the API server does not answer at start."""


@dataclass(frozen=True, slots=True)
class Connections:
    """What was opened for the service."""

    kube: KubeClient
    bus: BusConnection
    runners: Mapping[str, EffectRunner]
    metrics: Metrics


class ServiceProcess:
    """Runs one service; `run` ends only by cancellation or an error that a restart may cure."""

    def __init__(self, definition: ServiceDefinition, settings: Settings, connections: Connections) -> None:
        if missing := sorted(definition.effect_kinds.keys() - connections.runners.keys()):
            raise StartError(f"nothing carries out the effects {', '.join(missing)}; effect_runners has to bring them")
        self._settings = settings
        self._connections = connections
        self._dispatcher = Dispatcher()
        keep_decoded(definition.kept_decoded)
        self._random = random.Random()
        kube, bus = connections.kube, connections.bus
        world = World(definition.consumes, (*definition.indexes, FACTS_BY_OWNER, *paused_indexes(definition)))
        reflect = self._reflect if settings.direct_watch else None
        times = feed_settings(settings.nats_heartbeat)
        layout = Layout(settings.nats_root)
        feed = WorldFeed(world, bus, definition.name, self._dispatcher, reflect, layout=layout, settings=times)
        self.state = ServiceState(
            definition=definition,
            world=world,
            feed=feed,
            bus=bus,
            kube=kube,
            metrics=connections.metrics,
            decisions=DecisionLog(Recorder(bus, definition.name, layout=layout), feed, bus, effective(settings)),
            leadership=_leadership(definition, settings, kube),
            dispatcher=self._dispatcher,
        )
        connections.metrics.watch(self.state.readings, [one.controller for one in definition.reconcilers])
        for runner in connections.runners.values():
            if isinstance(runner, Measured):
                connections.metrics.watch(runner.readings)

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await self._serve()
        finally:
            # In a task of its own, because requests of a task that was cancelled end at once.
            await asyncio.wait((asyncio.create_task(self.state.decisions.close()),))

    async def _serve(self) -> None:
        state = self.state
        async with asyncio.TaskGroup() as group:
            for http in self._servers():
                group.create_task(http.run())
            group.create_task(state.decisions.run())
            # Whoever does not know its own cluster cannot tell another one's objects from its own.
            uid = await self._cluster()
            group.create_task(state.feed.run(uid))
            await state.leadership.run(lambda: self._lead(uid))

    async def _cluster(self) -> str:
        """UID of the namespace kube-system; waits for an API server that tells."""
        for attempt in count(1):
            try:
                found = await self.state.kube.get(NAMESPACE, "kube-system")
            except (KubeError, ValueError) as error:
                if self.state.api_server != str(error):
                    self.state.api_server = str(error)
                    _log.warning("waiting for the API server", error=str(error))
                await asyncio.sleep(_RETRY.delay(attempt, self._random))
            else:
                break
        self.state.api_server = None
        return str(found["metadata"]["uid"])

    async def _lead(self, cluster: str) -> None:
        state = self.state
        state.term = Term(
            TermContext(
                definition=state.definition,
                settings=self._settings,
                world=state.world,
                feed=state.feed,
                dispatcher=self._dispatcher,
                kube=state.kube.guarded(state.leadership.guard),
                bus=state.bus,
                runners=self._connections.runners,
                record=self.state.decisions.record,
                observe=self._connections.metrics.on_pass,
                guard=state.leadership.guard,
                cluster=cluster,
            )
        )
        try:
            await state.term.run()
        finally:
            state.term = None

    def _reflect(self, part: Part[Any]) -> Reflector[SourceVersion]:
        return reflect(self._connections.kube, part)

    def _servers(self) -> list[HttpServer]:
        probe = address_of(self._settings.health_probe_bind_address)
        separate = address_of(self._settings.metrics_bind_address)
        metrics = self._connections.metrics
        shared = separate == probe
        servers = [] if probe is None else [HttpServer(probes(self.state, metrics if shared else None), probe)]
        return servers if separate is None or shared else [*servers, HttpServer(metrics_only(metrics), separate)]


def feed_settings(heartbeat: float) -> FeedSettings:
    """Times of the feed that follow from the renewal of markers: three of them make a part stale (FW-019)."""
    return FeedSettings(marker_lifetime=3 * heartbeat)


def _leadership(definition: ServiceDefinition, settings: Settings, kube: KubeClient) -> Leadership:
    if not settings.leader_elect:
        return AlwaysLeading()
    identity = Identity(settings.pod_name, settings.pod_uid)
    elector = LeaderElector(kube.for_leases(), settings.system_namespace, definition.field_manager, identity)
    return Elected(elector)
