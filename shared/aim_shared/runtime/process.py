"""A service between opened connections and the signal to stop: world, leadership, HTTP face."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aim_shared.api.kinds import NAMESPACE
from aim_shared.bus.connection import BusConnection
from aim_shared.bus.decision import DecisionRecord
from aim_shared.bus.feed import WorldFeed
from aim_shared.bus.part import Part
from aim_shared.bus.recorder import Recorder
from aim_shared.bus.world import World
from aim_shared.kube.client import KubeClient
from aim_shared.kube.lease import LeaderElector
from aim_shared.kube.reflector import Reflector
from aim_shared.reconcile.reconciler import EffectRunner, ServiceDefinition
from aim_shared.runtime.dispatch import Dispatcher
from aim_shared.runtime.facts import FACTS_BY_OWNER
from aim_shared.runtime.http import OFF, Server, metrics_only, probes, server
from aim_shared.runtime.leadership import AlwaysLeading, Elected, Leadership
from aim_shared.runtime.leading import Surroundings, Term
from aim_shared.runtime.settings import Settings
from aim_shared.runtime.state import ServiceState
from aim_shared.telemetry.metrics import Metrics


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
        self._settings = settings
        self._connections = connections
        self._dispatcher = Dispatcher()
        kube, bus = connections.kube, connections.bus
        world = World(definition.consumes, (*definition.indexes, FACTS_BY_OWNER))
        reflect = self._reflect if settings.direct_watch else None
        self.state = ServiceState(
            definition=definition,
            world=world,
            feed=WorldFeed(world, bus, definition.name, self._dispatcher, reflect),
            bus=bus,
            kube=kube,
            recorder=Recorder(bus, definition.name),
            leadership=_leadership(definition, settings, kube),
        )
        connections.metrics.watch(self.state.gauges)

    async def run(self) -> None:
        """Run until cancelled."""
        state = self.state
        async with asyncio.TaskGroup() as group:
            for http in self._servers():
                group.create_task(http.serve())
            group.create_task(state.feed.run())
            group.create_task(state.recorder.run())
            cluster = await state.kube.get(NAMESPACE, "kube-system")
            uid = str(cluster["metadata"]["uid"])
            group.create_task(state.leadership.run(lambda: self._lead(uid)))

    async def _lead(self, cluster: str) -> None:
        state = self.state
        state.term = Term(
            Surroundings(
                definition=state.definition,
                settings=self._settings,
                world=state.world,
                feed=state.feed,
                dispatcher=self._dispatcher,
                kube=state.kube,
                bus=state.bus,
                runners=self._connections.runners,
                record=self._record,
                observe=self._connections.metrics.on_pass,
                may_write=state.leadership.may_write,
                cluster=cluster,
            )
        )
        try:
            await state.term.run()
        finally:
            state.term = None

    def _record(self, record: DecisionRecord) -> None:
        headers = {"Nats-Msg-Id": record.id, **({"traceparent": record.traceparent} if record.traceparent else {})}
        self.state.recorder.record(record.part, record.key, record.to_json(), headers)

    def _reflect(self, part: Part[Any]) -> Reflector:
        return Reflector(
            self._connections.kube, part.kind, label_selector=part.label_selector, field_selector=part.field_selector
        )

    def _servers(self) -> list[Server]:
        probe, separate = self._settings.health_probe_bind_address, self._settings.metrics_bind_address
        metrics = self._connections.metrics
        shared = separate == probe
        servers = [server(probes(self.state, metrics if shared else None), probe)] if probe != OFF else []
        return [*servers, server(metrics_only(metrics), separate)] if separate != OFF and not shared else servers


def _leadership(definition: ServiceDefinition, settings: Settings, kube: KubeClient) -> Leadership:
    if not settings.leader_elect:
        return AlwaysLeading()
    elector = LeaderElector(kube.for_leases(), settings.system_namespace, definition.field_manager, settings.pod_name)
    return Elected(elector)
