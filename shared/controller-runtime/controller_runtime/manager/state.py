"""What a running service knows about itself, for probes, metrics and the debug endpoints."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Final, TypeAlias

from controller_runtime.json import JsonObject
from controller_runtime.kube.errors import ApiError
from controller_runtime.kube.refusals import AccessRequest
from controller_runtime.log.broker.connection import ConnectionState
from controller_runtime.log.cache.feed import PartStatus
from controller_runtime.log.freshness import Source
from controller_runtime.log.wire.part import Key
from controller_runtime.log.wire.subjects import is_facts_of_shard
from controller_runtime.manager.causes import Cause
from controller_runtime.manager.context import IS_PAUSED, ProcessContext, paused_indexes
from controller_runtime.manager.effects import EffectStatistics
from controller_runtime.manager.leading import Controllers, Term
from controller_runtime.manager.troubles import (
    Trouble,
    broker_troubles,
    of_object,
    of_refusals,
    of_stream,
    of_unreached,
)
from controller_runtime.names import PREFIX
from controller_runtime.reconcile.access import Where
from controller_runtime.reconcile.permissions import permissions
from controller_runtime.reconcile.queue import DURATIONS, QueueStatistics
from controller_runtime.reconcile.worker import DEFAULT_WORKERS
from controller_runtime.telemetry.catalogue import Readings, Total
from controller_runtime.telemetry.metrics import readings_of

_Sample: TypeAlias = tuple[Mapping[str, str], float | Total]
_Named: TypeAlias = tuple[str, Mapping[str, str], float | Total]

_API_GRACE: Final = 10.0
"""Seconds without an answer after which a service is not ready; a restarting API server takes less."""


@dataclass(slots=True)
class ServiceState:
    """A process as it is now.

    Attributes:
        terms: by the shard that this process leads; empty while other replicas lead.
        api_server: why the API server could not be reached at start; ``None`` since it was.
        unreached: the error behind that.
    """

    process: ProcessContext
    terms: dict[int, Term] = field(default_factory=dict)
    api_server: str | None = "the API server has not been asked yet"
    unreached: Exception | None = None

    def not_ready(self) -> list[str]:
        """What keeps the service from being ready, in words; empty when it is ready (FW-282, FW-402)."""
        connection = self.process.bus.statistics
        connected = connection.state is ConnectionState.CONNECTED
        parts = self.process.feed.statistics.parts
        withheld = self._withheld()
        reasons = [
            _unsynced(part, connected=connected, withheld=withheld.get(part.part))
            for part in parts
            if not part.synced and not is_facts_of_shard(part.part)
        ]
        if not connected and any(not part.fresh and part.source is Source.BUS for part in parts):
            reasons.append(f"the message broker is {connection.state.value}: {connection.last_error or 'no answer'}")
        if connection.denied is not None:
            reasons.append(f"the message broker denies {connection.denied}; check the permissions of this identity")
        if self.api_server is not None:
            reasons.append(self.api_server)
        elif self.process.metrics.unanswered_seconds >= _API_GRACE:
            reasons.append(f"the API server has not answered for {self.process.metrics.unanswered_seconds:.0f} s")
        for term in self.terms.values():
            reasons += [f"{part} cannot be watched: {why}" for part, why in term.refused_watches.items()]
            reasons += [f"{part} is not confirmed by this leader: {why}" for part, why in term.unconfirmed.items()]
        return list(dict.fromkeys(reasons))

    def troubles(self) -> list[Trouble]:
        """What is in the way of this service, ready or not (FW-583)."""
        silent, refused = self.process.metrics.unanswered_seconds, self.process.kube.refusals.current()
        found = list(broker_troubles(self.process.bus.statistics))
        found += [of_stream(fault) for term in self.terms.values() for fault in term.stream_faults]
        if self.unreached is not None:
            found.append(of_unreached(self.unreached))
        elif silent >= _API_GRACE:
            # Without the seconds, which would make another trouble of it every time.
            found.append(Trouble(Cause.API_UNREACHABLE, f"the API server {self.process.kube.server} does not answer"))
        if refused:
            found += self._troubles_of_watches(refused)
        found += map(of_object, self.process.watchdog.refused)
        # Who was never reached and who refuses may be one.
        return list(dict.fromkeys(found))

    def _troubles_of_watches(self, current: Iterable[tuple[AccessRequest, ApiError]]) -> Iterable[Trouble]:
        definition = self.process.definition
        optional = [part.kind.resource for part in (*definition.consumes, *definition.publishes) if part.optional]
        wanted = permissions(definition)
        of_roles = {(one.group, one.resource) for one in wanted if one.where is Where.SYSTEM_NAMESPACE}
        return of_refusals(current, optional=optional, of_roles=of_roles)

    def readiness(self) -> JsonObject:
        """Details of readiness, ready or not."""
        statistics = self.process.feed.statistics
        return {
            "service": self.process.definition.name,
            "leads": self.process.leaderships.leads,
            **self._shards(),
            "broker": self.process.bus.statistics.state.value,
            "direct": list(statistics.direct),
            "foreign": {part.part: part.foreign for part in statistics.parts if part.foreign},
            "publishing": self._withheld(),
            "reasons": self.not_ready(),
            "troubles": [{"reason": one.cause.value, "message": one.line} for one in self.troubles()],
        }

    def _withheld(self) -> dict[str, str]:
        """The parts that this process publishes but cannot confirm at present, and why."""
        publishers = [one for term in self.terms.values() for one in term.publishers.items()]
        return {name: one.interrupted_by for name, one in publishers if one.interrupted_by is not None}

    def _shards(self) -> JsonObject:
        """The shards that this process leads, of a service that is divided."""
        count = self.process.definition.shards
        return {} if count == 1 else {"shards": count, "leadsShards": self.process.leaderships.led}

    @property
    def alive(self) -> bool:
        """Whether the process can still recover by itself."""
        return self.process.bus.statistics.state is not ConnectionState.CLOSED

    def cache_page(self) -> JsonObject:
        """Each part: where it is fed from, how fresh it is, and which objects are known."""
        return {
            status.part: {
                **asdict(status),
                "keys": {str(entry.key): entry.version.resource_version for entry in self.process.cache.all(part)},
            }
            for part, status in zip(self.process.cache.parts, self.process.feed.statistics.parts, strict=True)
        }

    def queue_page(self) -> JsonObject:
        """Each controller's queue, the publishers, and paused objects (SV-270)."""
        terms = list(self.terms.values())
        return {
            "leads": self.process.leaderships.leads,
            **self._shards(),
            "queues": {name: asdict(one) for name, one in _queues(terms).items()},
            "publishers": {name: asdict(one) for term in terms for name, one in term.publishers.items()},
            "recorder": asdict(self.process.decisions.statistics),
            "streams": {name: asdict(one) for term in terms for name, one in term.streams.items()},
            "requests": asdict(self.process.kube.statistics()),
            "paused": [f"{part} {key}" for part, keys in self._paused().items() for key in keys],
        }

    def why_woken_page(self, controller: str, key: Key) -> JsonObject | None:
        """The change that brought the last pass of an object (FW-503); ``None`` when there was no pass."""
        causes = (term.controllers.woken_by(controller, key) for term in self.terms.values())
        found = next((cause for cause in causes if cause is not None), None)
        return None if found is None else {"controller": controller, "object": str(key), "wokenBy": found or None}

    def _paused(self) -> dict[str, list[Key]]:
        """Keys of the paused objects by part."""
        return {
            index.part.name: [entry.key for entry in self.process.cache.select(index, IS_PAUSED)]
            for index in paused_indexes(self.process.definition)
        }

    def readings(self) -> Readings:
        """Everything that metrics show of the present state."""
        samples: defaultdict[str, list[_Sample]] = defaultdict(list)
        for name, labels, value in self._samples():
            samples[name].append((labels, value))
        return {**samples, **self.process.definition.readings(self.process.cache)}

    def _samples(self) -> Iterable[_Named]:
        for one in self.process.leaderships.each:
            lease = one.shard.lease(self.process.definition.field_manager)
            yield "leader_election_master_status", {"name": lease}, float(one.leads)
        for part in self.process.feed.statistics.parts:
            which = {"part": part.part, "source": part.source.value}
            yield f"{PREFIX}_part_fresh", which, float(part.fresh)
            yield f"{PREFIX}_part_objects", which, float(part.objects)
            yield f"{PREFIX}_part_foreign", which, float(bool(part.foreign))
            if part.age is not None:
                yield f"{PREFIX}_part_age_seconds", which, part.age
        for known in self.process.cache.parts:
            yield f"{PREFIX}_failed_indexes_total", {"part": known.name}, float(self.process.cache.failures(known))
            failed = self.process.dispatcher.failed[known.name]
            yield f"{PREFIX}_failed_changes_total", {"part": known.name}, float(failed)
        projection = self.process.feed.statistics.projection
        yield from _numbers(f"{PREFIX}_projection", projection, {})
        yield f"{PREFIX}_event_delivery_seconds", {}, Total(*projection.followed)
        yield from _numbers(f"{PREFIX}_decisions", self.process.decisions.statistics, {})
        for paused, keys in self._paused().items():
            yield f"{PREFIX}_paused_objects", {"part": paused}, float(len(keys))
        if self.terms:
            yield from _term_samples(list(self.terms.values()))
        else:
            for reconciler in self.process.definition.reconcilers:
                yield "workqueue_depth", {"name": reconciler.controller}, 0.0


def _queues(terms: Iterable[Term]) -> dict[str, QueueStatistics]:
    """Each controller's queues of all shards together."""
    found: dict[str, QueueStatistics] = {}
    for term in terms:
        for controller, queue in term.controllers.queues.items():
            found[controller] = found[controller].together(queue) if controller in found else queue
    return found


def _numbers_of(terms: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Numbers of all shards together, those included that are none yet."""
    found: Counter[str] = Counter()
    for numbers in terms:
        found.update(numbers)
    return found


def _term_samples(terms: Sequence[Term]) -> Iterable[_Named]:
    for controller, queue in _queues(terms).items():
        yield from _queue_samples({"name": controller}, queue)
    yield from _controller_samples([term.controllers for term in terms])
    for part, publisher in (one for term in terms for one in term.publishers.items()):
        yield from _numbers(f"{PREFIX}_publisher", publisher, {"part": part})
        yield f"{PREFIX}_publisher_markers_total", {"part": part}, float(publisher.checkpoints)
        yield f"{PREFIX}_publish_seconds", {"part": part}, Total(*publisher.finished)
    for stream, kept in (one for term in terms for one in term.streams.items()):
        yield from _numbers(f"{PREFIX}_stream", kept, {"stream": stream})
    yield from _numbers(f"{PREFIX}_effects", reduce(EffectStatistics.together, (term.effects for term in terms)), {})


def _controller_samples(each: Sequence[Controllers]) -> Iterable[_Named]:
    for controller, active in _numbers_of(one.active for one in each).items():
        yield "controller_runtime_active_workers", {"controller": controller}, float(active)
        most = float(DEFAULT_WORKERS * len(each))
        yield "controller_runtime_max_concurrent_reconciles", {"controller": controller}, most
    for controller in each[0].statuses:
        for status, number in sorted(_numbers_of(one.statuses[controller] for one in each).items()):
            yield f"{PREFIX}_objects", {"controller": controller, "status": status}, float(number)
        for reason, times in sorted(_numbers_of(one.reasons[controller] for one in each).items()):
            yield f"{PREFIX}_decisions_total", {"controller": controller, "reason": reason}, float(times)
    for controller, failed in _numbers_of(one.failed_mappings for one in each).items():
        yield f"{PREFIX}_failed_wakes_total", {"controller": controller}, float(failed)
    for controller, unreported in _numbers_of(one.unreported for one in each).items():
        yield f"{PREFIX}_untold_refusals_total", {"controller": controller}, float(unreported)


def _queue_samples(labels: Mapping[str, str], queue: QueueStatistics) -> Iterable[_Named]:
    """A queue under the names of FW-284."""
    yield "workqueue_depth", labels, float(queue.depth)
    yield "workqueue_adds_total", labels, float(queue.adds)
    yield "workqueue_retries_total", labels, float(queue.retries)
    yield "workqueue_queue_duration_seconds", labels, _spread(queue.waits, queue.queue_seconds)
    yield "workqueue_work_duration_seconds", labels, _spread(queue.works, queue.work_seconds)
    yield "workqueue_unfinished_work_seconds", labels, queue.unfinished_seconds
    yield f"{PREFIX}_queue_oldest_seconds", labels, queue.oldest_seconds
    yield "workqueue_longest_running_processor_seconds", labels, queue.longest_running_seconds


def _spread(counts: tuple[int, ...], seconds: float) -> Total:
    return Total(sum(counts), seconds, tuple(zip(DURATIONS, counts, strict=False)))


def _numbers(prefix: str, statistics: object, labels: Mapping[str, str]) -> Iterable[_Named]:
    for name, (own, value) in readings_of(prefix, statistics, labels).items():
        yield name, own, value


def _unsynced(part: PartStatus, *, connected: bool, withheld: str | None) -> str:
    if part.source is Source.DIRECT:
        return f"{part.part} is not synced: the API server has not listed it yet"
    if part.foreign:
        return f"{part.part} is not synced: cluster {part.foreign} publishes it under the same --nats-root"
    if not connected:
        return f"{part.part} is not synced: the message broker is not connected"
    return f"{part.part} is not synced: {withheld or 'its publisher has not confirmed it yet'}"
