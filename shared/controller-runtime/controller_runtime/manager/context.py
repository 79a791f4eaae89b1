"""What one process of a service has from its start to its end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from controller_runtime.annotation_keys import PAUSED
from controller_runtime.api.meta import Resource
from controller_runtime.bus.connection import BusConnection
from controller_runtime.bus.feed import WorldFeed
from controller_runtime.bus.freshness import FeedSettings
from controller_runtime.bus.part import Depth, Index, Part
from controller_runtime.bus.recorder import Recorder
from controller_runtime.bus.reflected import reflect
from controller_runtime.bus.source import SourceVersion
from controller_runtime.bus.subjects import Layout
from controller_runtime.bus.world import World
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.lease import LeaderElector
from controller_runtime.kube.lease_record import Identity
from controller_runtime.kube.reflector import Reflector
from controller_runtime.manager.decisions import DecisionLog
from controller_runtime.manager.dispatch import Dispatcher
from controller_runtime.manager.facts import FACTS_BY_OWNER
from controller_runtime.manager.leadership import AlwaysLeading, Elected, Leadership
from controller_runtime.manager.settings import Settings, effective
from controller_runtime.reconcile.reconciler import EffectRunner, ServiceDefinition
from controller_runtime.reconcile.watchdog import Memory, Watchdog
from controller_runtime.telemetry.metrics import Metrics

IS_PAUSED: Final = "true"
"""Value of `paused_indexes` under which the paused objects stand."""


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """What is declared, set and opened, and what is made of it once.

    Attributes:
        kube: has no guard: only a term of leadership writes, and has its own.
        runners: carry out the effects.
        dispatcher: takes each change of the world to whoever listens.
        decisions: takes the records.
        watchdog: stands around every decision.
    """

    definition: ServiceDefinition
    settings: Settings
    kube: KubeClient
    bus: BusConnection
    runners: Mapping[str, EffectRunner]
    metrics: Metrics
    layout: Layout
    world: World
    dispatcher: Dispatcher
    feed: WorldFeed
    decisions: DecisionLog
    leadership: Leadership
    watchdog: Watchdog

    @classmethod
    def of(
        cls,
        definition: ServiceDefinition,
        settings: Settings,
        kube: KubeClient,
        bus: BusConnection,
        *,
        runners: Mapping[str, EffectRunner],
        metrics: Metrics,
    ) -> Self:
        """The context of a process whose connections are open; nothing runs yet."""

        def reflected(part: Part[Any]) -> Reflector[SourceVersion]:
            return reflect(kube, part)

        layout, dispatcher = Layout(settings.nats_root), Dispatcher()
        world = World(definition.consumes, (*definition.indexes, FACTS_BY_OWNER, *paused_indexes(definition)))
        direct = reflected if settings.direct_watch else None
        times = feed_settings(settings.nats_heartbeat)
        feed = WorldFeed(world, bus, definition.name, dispatcher, direct, layout=layout, settings=times)
        recorder = Recorder(bus, definition.name, layout=layout)
        return cls(
            definition=definition,
            settings=settings,
            kube=kube,
            bus=bus,
            runners=runners,
            metrics=metrics,
            layout=layout,
            world=world,
            dispatcher=dispatcher,
            feed=feed,
            decisions=DecisionLog(recorder, feed, bus, effective(settings)),
            leadership=_leadership(definition, settings, kube),
            watchdog=_watchdog(definition, settings),
        )


def paused_indexes(definition: ServiceDefinition) -> tuple[Index[Any], ...]:
    """Of the objects that a service reconciles: those that the user has paused. Every service's world has them."""

    def values(obj: Resource) -> list[str]:
        return [IS_PAUSED] if obj.metadata.annotations.get(PAUSED) == IS_PAUSED else []

    return tuple(
        Index(reconciler.part, "paused", values, depth=Depth.METADATA) for reconciler in definition.reconcilers
    )


def feed_settings(heartbeat: float) -> FeedSettings:
    """Times of the feed that follow from the renewal of markers: three of them make a part stale (FW-019)."""
    return FeedSettings(marker_lifetime=3 * heartbeat)


def _watchdog(definition: ServiceDefinition, settings: Settings) -> Watchdog:
    """Outside a pod no process follows that would read the files, and several processes share the folder."""
    name = f"{definition.field_manager}-{settings.pod_uid}"
    memory = (lambda: Memory(settings.watchdog_folder, name)) if settings.pod_uid else None
    return Watchdog(settings.decision_budget, memory)


def _leadership(definition: ServiceDefinition, settings: Settings, kube: KubeClient) -> Leadership:
    if not settings.leader_elect:
        return AlwaysLeading()
    identity = Identity(settings.pod_name, settings.pod_uid)
    elector = LeaderElector(kube.for_leases(), settings.system_namespace, definition.field_manager, identity)
    return Elected(elector)
