"""What one process of a service has from start to end: connections, cache, leadership, where decisions go."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import structlog

from controller_runtime.annotation_keys import PAUSED
from controller_runtime.api.meta import Resource
from controller_runtime.json import JsonObject, canonical
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.reflector import Reflector
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.cache.feed import CacheFeed
from controller_runtime.log.cache.store import Cache
from controller_runtime.log.freshness import FeedSettings
from controller_runtime.log.history.decisions import DecisionRecord, Recorder, RecorderStatistics
from controller_runtime.log.history.facts import facts_by_owner, facts_of_shard
from controller_runtime.log.publish.reflected import reflect
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.wire.part import Depth, Index, Part
from controller_runtime.log.wire.subjects import Layout
from controller_runtime.manager.leadership import Leaderships, leaderships
from controller_runtime.manager.settings import Settings, effective
from controller_runtime.reconcile.effect_type import Clients, EffectRunner
from controller_runtime.reconcile.enqueue import Dispatcher
from controller_runtime.reconcile.reconciler import ServiceDefinition
from controller_runtime.reconcile.watchdog import Memory, Watchdog
from controller_runtime.shard import shards
from controller_runtime.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

FLUSH_SECONDS: Final = 3.0
"""How long the end of the process waits for records; it has to be over nine seconds after the signal (FW-287)."""

SETTINGS_RECORDS: Final = 100
"""Records after which the settings are repeated."""
SETTINGS_SECONDS: Final = 600.0
"""Seconds after which they are repeated, if anything was recorded since."""


class DecisionLog:
    """Passes records on while the cache is fed by the bus, and counts those that are not written.

    The log forgets its beginning first. So the settings are recorded before the first record that refers to them, and
    again behind the last one: then no record outlives them (FW-436).

    Args:
        settings: the effective ones, without secrets.
        again: seconds after which settings are repeated, if anything was recorded since.
    """

    def __init__(
        self,
        recorder: Recorder,
        feed: CacheFeed,
        bus: BusConnection,
        settings: JsonObject,
        again: float = SETTINGS_SECONDS,
    ) -> None:
        self._recorder = recorder
        self._feed = feed
        self._bus = bus
        self._settings = canonical(settings)
        self._digest = hashlib.blake2b(self._settings, digest_size=12).hexdigest()
        self._again = again
        self._reported = False
        self._behind = 0
        self._silent = False
        self._unwritten = 0

    @property
    def statistics(self) -> RecorderStatistics:
        """Numbers of the recorder; what was never given to it counts as lost."""
        recorder = self._recorder.statistics
        return replace(recorder, lost=recorder.lost + self._unwritten)

    async def run(self) -> None:
        """Write records until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            while True:
                await asyncio.sleep(self._again)
                if self._behind:
                    self._notify()

    async def close(self) -> None:
        """Write what was taken, for a moment, and tell what is lost; for when recording has ended (FW-450)."""
        ends = asyncio.get_running_loop().time() + FLUSH_SECONDS
        await self._recorder.flush(FLUSH_SECONDS)
        left = ends - asyncio.get_running_loop().time()
        # Once more, even if they were recorded a moment ago: records are written several at a time, in no order.
        if self._reported and left > 0:
            self._notify()
            await self._recorder.flush(left)

    def record(self, record: DecisionRecord) -> None:
        """Take a record; never waits."""
        if not self._bus.connected and self._feed.statistics.direct:
            self._skip()
            return
        self._silent = False
        if not self._reported:
            self._notify()
        reported = record.model_copy(update={"settings": self._digest})
        headers = {"Nats-Msg-Id": record.id, **({"traceparent": record.traceparent} if record.traceparent else {})}
        self._recorder.record(record.part, record.key, reported.to_json(), headers)
        self._behind += 1
        if self._behind >= SETTINGS_RECORDS:
            self._notify()

    def _notify(self) -> None:
        self._recorder.record_settings(self._digest, self._settings)
        self._reported, self._behind = True, 0

    def _skip(self) -> None:
        self._unwritten += 1
        if not self._silent:
            self._silent = True
            _log.warning("decisions are not recorded while the message broker is unavailable")


IS_PAUSED: Final = "true"
"""Value of `paused_indexes` under which the paused objects stand."""


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """What is declared, set and opened, and what is made of it once.

    Attributes:
        kube: has no guard: only a term of leadership writes, and has its own.
        runners: carry out the effects, by the name of their type.
        dispatcher: takes each change of the cache to its listeners.
        decisions: takes the records.
        watchdog: stands around all that is done with an object.
    """

    definition: ServiceDefinition
    settings: Settings
    kube: KubeClient
    bus: BusConnection
    runners: Mapping[str, EffectRunner[Any, Any]]
    metrics: Metrics
    layout: Layout
    cache: Cache
    dispatcher: Dispatcher
    feed: CacheFeed
    decisions: DecisionLog
    leaderships: Leaderships
    watchdog: Watchdog

    @classmethod
    def of(
        cls,
        definition: ServiceDefinition,
        settings: Settings,
        clients: Clients,
        bus: BusConnection,
        *,
        metrics: Metrics,
    ) -> Self:
        """The context of a process whose connections are open; nothing runs yet."""
        kube = clients.kube

        def reflected(part: Part[Any]) -> Reflector[SourceVersion]:
            return reflect(kube, part)

        layout, dispatcher, watchdog = Layout(settings.nats_root), Dispatcher(), _watchdog(definition, settings)
        gathered = [facts_of_shard(one.index) for one in shards(definition.shards)]
        derived = (*definition.indexes, *map(facts_by_owner, gathered), *paused_indexes(definition))
        cache = Cache((*definition.consumes, *gathered[1:]), derived, watchdog)
        direct = reflected if settings.direct_watch else None
        times = feed_settings(settings.nats_heartbeat)
        feed = CacheFeed(cache, bus, definition.name, dispatcher, direct, layout=layout, settings=times)
        recorder = Recorder(bus, definition.name, layout=layout)
        return cls(
            definition=definition,
            settings=settings,
            kube=kube,
            bus=bus,
            runners={one.name: one.runner(clients) for one in definition.effects},
            metrics=metrics,
            layout=layout,
            cache=cache,
            dispatcher=dispatcher,
            feed=feed,
            decisions=DecisionLog(recorder, feed, bus, effective(settings)),
            leaderships=leaderships(definition, settings, kube),
            watchdog=watchdog,
        )


def paused_indexes(definition: ServiceDefinition) -> tuple[Index[Any], ...]:
    """Of the objects that a service reconciles: those that the user has paused. Every service's cache has them."""

    def values(obj: Resource) -> list[str]:
        return [IS_PAUSED] if obj.metadata.annotations.get(PAUSED) == IS_PAUSED else []

    return tuple(
        Index(reconciler.part, "paused", values, depth=Depth.METADATA) for reconciler in definition.reconcilers
    )


def feed_settings(heartbeat: float) -> FeedSettings:
    """Times of the feed that follow from the renewal of checkpoints: three of them make a part stale (FW-019)."""
    return FeedSettings(checkpoint_lifetime=3 * heartbeat)


def _watchdog(definition: ServiceDefinition, settings: Settings) -> Watchdog:
    """Outside a pod no process follows that would read the files, and several processes share the folder."""
    name = f"{definition.field_manager}-{settings.pod_uid}"
    memory = (lambda: Memory(settings.watchdog_folder, name)) if settings.pod_uid else None
    return Watchdog(settings.decision_budget, memory)
