"""What a running service knows about itself, for probes, metrics and the debug endpoints."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

from aim_shared.annotation_keys import PAUSED
from aim_shared.api import Resource
from aim_shared.bus.connection import BusConnection, ConnectionState
from aim_shared.bus.feed import PartStatus, WorldFeed
from aim_shared.bus.freshness import Source
from aim_shared.bus.part import Index, Key
from aim_shared.bus.world import World
from aim_shared.json import JsonObject
from aim_shared.kube.client import KubeClient
from aim_shared.reconcile.queue import QueueStatistics
from aim_shared.reconcile.reconciler import ServiceDefinition
from aim_shared.reconcile.worker import DEFAULT_WORKERS
from aim_shared.runtime.decisions import DecisionLog
from aim_shared.runtime.dispatch import Dispatcher
from aim_shared.runtime.leadership import Leadership
from aim_shared.runtime.leading import Term
from aim_shared.telemetry.metrics import Metrics, Readings, Total, gauges_of

_Sample: TypeAlias = tuple[Mapping[str, str], float | Total]
_Named: TypeAlias = tuple[str, Mapping[str, str], float | Total]

_PAUSED: Final = "true"
_API_GRACE: Final = 10.0
"""Seconds without an answer after which a service is not ready; a restarting API server takes less."""


def paused_indexes(definition: ServiceDefinition) -> tuple[Index[Any], ...]:
    """Of the objects that a service reconciles: those that the user has paused. Every service's world has them."""

    def values(obj: Resource) -> list[str]:
        return [_PAUSED] if obj.metadata.annotations.get(PAUSED) == _PAUSED else []

    return tuple(Index(reconciler.part, "paused", values, of_status=False) for reconciler in definition.reconcilers)


@dataclass(slots=True)
class ServiceState:
    """The live parts of a process.

    Attributes:
        term: ``None`` while another replica leads.
        api_server: why the API server could not be reached at start; ``None`` since it was.
    """

    definition: ServiceDefinition
    world: World
    feed: WorldFeed
    bus: BusConnection
    kube: KubeClient
    metrics: Metrics
    decisions: DecisionLog
    leadership: Leadership
    dispatcher: Dispatcher
    term: Term | None = None
    api_server: str | None = "the API server was not asked yet"

    def not_ready(self) -> list[str]:
        """What keeps the service from being ready, in words; empty when it is ready (FW-282, FW-402)."""
        connection = self.bus.statistics
        connected = connection.state is ConnectionState.CONNECTED
        parts = self.feed.statistics.parts
        withheld = self._withheld()
        reasons = [
            _unsynced(part, connected=connected, withheld=withheld.get(part.part)) for part in parts if not part.synced
        ]
        if not connected and any(not part.fresh and part.source is Source.BUS for part in parts):
            reasons.append(f"the message broker is {connection.state.value}: {connection.last_error or 'no answer'}")
        if connection.denied is not None:
            reasons.append(f"the message broker denies {connection.denied}; check the permissions of this identity")
        if self.api_server is not None:
            reasons.append(self.api_server)
        elif self.metrics.unanswered_seconds >= _API_GRACE:
            reasons.append(f"the API server has not answered for {self.metrics.unanswered_seconds:.0f} s")
        if self.term is not None:
            reasons += [f"{part} can not be watched: {why}" for part, why in self.term.refused_watches.items()]
            reasons += [f"{part} is not vouched for by this leader: {why}" for part, why in self.term.unvouched.items()]
        return reasons

    def readiness(self) -> JsonObject:
        """Details of readiness, ready or not."""
        statistics = self.feed.statistics
        return {
            "service": self.definition.name,
            "leads": self.leadership.leads,
            "broker": self.bus.statistics.state.value,
            "direct": list(statistics.direct),
            "foreign": {part.part: part.foreign for part in statistics.parts if part.foreign},
            "publishing": self._withheld(),
            "reasons": self.not_ready(),
        }

    def _withheld(self) -> dict[str, str]:
        """The parts that this process publishes but can not vouch for at present, and why."""
        publishers = {} if self.term is None else self.term.publishers
        return {name: one.interrupted_by for name, one in publishers.items() if one.interrupted_by is not None}

    @property
    def alive(self) -> bool:
        """Whether the process can still recover by itself."""
        return self.bus.statistics.state is not ConnectionState.CLOSED

    def world_page(self) -> JsonObject:
        """Each part: where it is fed from, how fresh it is, and which objects are known."""
        return {
            status.part: {
                **asdict(status),
                "keys": {str(entry.key): entry.version.resource_version for entry in self.world.all(part)},
            }
            for part, status in zip(self.world.parts, self.feed.statistics.parts, strict=True)
        }

    def queue_page(self) -> JsonObject:
        """Each controller's queue, the publishers, and paused objects (SV-270)."""
        term = self.term
        return {
            "leads": self.leadership.leads,
            "queues": {} if term is None else {name: asdict(one) for name, one in term.controllers.queues.items()},
            "publishers": {} if term is None else {name: asdict(one) for name, one in term.publishers.items()},
            "recorder": asdict(self.decisions.statistics),
            "streams": {} if term is None else {name: asdict(one) for name, one in term.streams.items()},
            "requests": asdict(self.kube.statistics()),
            "paused": self._paused(),
        }

    def why_woken_page(self, controller: str, key: Key) -> JsonObject | None:
        """The change that brought the last pass of an object (FW-503); ``None`` when there was no pass."""
        found = None if self.term is None else self.term.controllers.woken_by(controller, key)
        return None if found is None else {"controller": controller, "object": str(key), "wokenBy": found or None}

    def _paused(self) -> list[str]:
        return [
            f"{index.part} {entry.key}"
            for index in paused_indexes(self.definition)
            for entry in self.world.select(index, _PAUSED)
        ]

    def readings(self) -> Readings:
        """Everything that metrics show of the present state."""
        samples: defaultdict[str, list[_Sample]] = defaultdict(list)
        for name, labels, value in self._samples():
            samples[name].append((labels, value))
        return {**samples, **self.definition.readings(self.world)}

    def _samples(self) -> Iterable[_Named]:
        leads = float(self.leadership.leads)
        yield "leader_election_master_status", {"name": self.definition.field_manager}, leads
        for part in self.feed.statistics.parts:
            which = {"part": part.part, "source": part.source.value}
            yield "aim_part_fresh", which, float(part.fresh)
            yield "aim_part_objects", which, float(part.objects)
            yield "aim_part_foreign", which, float(bool(part.foreign))
        for known in self.world.parts:
            yield "aim_failed_indexes_total", {"part": known.name}, float(self.world.stumbles(known))
            yield "aim_failed_changes_total", {"part": known.name}, float(self.dispatcher.failed[known.name])
        yield from _numbers("aim_projection", self.feed.statistics.projection, {})
        yield from _numbers("aim_decisions", self.decisions.statistics, {})
        yield "aim_paused_objects", {}, float(len(self._paused()))
        if self.term is not None:
            yield from _term_samples(self.term)
        else:
            for reconciler in self.definition.reconcilers:
                yield "workqueue_depth", {"name": reconciler.controller}, 0.0


def _term_samples(term: Term) -> Iterable[_Named]:
    for controller, queue in term.controllers.queues.items():
        yield from _queue_samples({"name": controller}, queue)
    for controller, active in term.controllers.active.items():
        yield "controller_runtime_active_workers", {"controller": controller}, float(active)
        yield "controller_runtime_max_concurrent_reconciles", {"controller": controller}, float(DEFAULT_WORKERS)
    for controller, failed in term.controllers.failed_wakes.items():
        yield "aim_failed_wakes_total", {"controller": controller}, float(failed)
    for controller, untold in term.controllers.untold.items():
        yield "aim_untold_refusals_total", {"controller": controller}, float(untold)
    for part, publisher in term.publishers.items():
        yield from _numbers("aim_publisher", publisher, {"part": part})
    for stream, kept in term.streams.items():
        yield from _numbers("aim_stream", kept, {"stream": stream})
    yield from _numbers("aim_effects", term.effects, {})


def _queue_samples(labels: Mapping[str, str], queue: QueueStatistics) -> Iterable[_Named]:
    """A queue under the names of FW-284."""
    yield "workqueue_depth", labels, float(queue.depth)
    yield "workqueue_adds_total", labels, float(queue.adds)
    yield "workqueue_retries_total", labels, float(queue.retries)
    yield "workqueue_queue_duration_seconds", labels, Total(queue.taken, queue.queue_seconds)
    yield "workqueue_work_duration_seconds", labels, Total(queue.taken - queue.processing, queue.work_seconds)
    yield "workqueue_unfinished_work_seconds", labels, queue.unfinished_seconds
    yield "workqueue_longest_running_processor_seconds", labels, queue.longest_running_seconds


def _numbers(prefix: str, statistics: object, labels: Mapping[str, str]) -> Iterable[_Named]:
    for name, (own, value) in gauges_of(prefix, statistics, labels).items():
        yield name, own, value


def _unsynced(part: PartStatus, *, connected: bool, withheld: str | None) -> str:
    if part.source is Source.DIRECT:
        return f"{part.part} is not synced: the API server has not listed it yet"
    if part.foreign:
        return f"{part.part} is not synced: cluster {part.foreign} publishes it under the same AIM_NATS_ROOT"
    if not connected:
        return f"{part.part} is not synced: the message broker is not connected"
    return f"{part.part} is not synced: {withheld or 'its publisher has not vouched for it yet'}"
