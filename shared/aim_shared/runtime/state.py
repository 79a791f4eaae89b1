"""What a running service knows about itself, for probes, metrics and the debug endpoints."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from aim_shared.api import labels
from aim_shared.bus.connection import BusConnection, ConnectionState
from aim_shared.bus.feed import WorldFeed
from aim_shared.bus.recorder import Recorder
from aim_shared.bus.world import World
from aim_shared.json import JsonObject
from aim_shared.kube.client import KubeClient
from aim_shared.reconcile.reconciler import ServiceDefinition
from aim_shared.runtime.leadership import Leadership
from aim_shared.runtime.leading import Term
from aim_shared.telemetry.metrics import Gauges, gauges_of


@dataclass(slots=True)
class ServiceState:
    """The live parts of a process; ``term`` is ``None`` while another replica leads."""

    definition: ServiceDefinition
    world: World
    feed: WorldFeed
    bus: BusConnection
    kube: KubeClient
    recorder: Recorder
    leadership: Leadership
    term: Term | None = None

    def not_ready(self) -> list[str]:
        """What keeps the service from being ready, in words; empty when it is ready (FW-282, FW-402)."""
        reasons = [
            f"{part.part} is not synced: its publisher has not vouched for it yet"
            for part in self.feed.statistics.parts
            if not part.synced
        ]
        connection = self.bus.statistics
        if connection.denied is not None:
            reasons.append(f"the message broker denies {connection.denied}; check the permissions of this identity")
        return reasons

    def readiness(self) -> JsonObject:
        """Details of readiness, ready or not."""
        statistics = self.feed.statistics
        return {
            "service": self.definition.name,
            "leads": self.leadership.leads,
            "broker": self.bus.statistics.state.value,
            "direct": list(statistics.direct),
            "reasons": self.not_ready(),
        }

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
            "recorder": asdict(self.recorder.statistics),
            "requests": asdict(self.kube.statistics()),
            "paused": self._paused(),
        }

    def _paused(self) -> list[str]:
        found = []
        for reconciler in self.definition.reconcilers:
            for entry in self.world.all(reconciler.part):
                annotations = entry.raw["metadata"].get("annotations") or {}
                if annotations.get(labels.ANNOTATION_PAUSED) == "true":
                    found.append(f"{reconciler.part} {entry.key}")
        return found

    def gauges(self) -> Gauges:
        """Everything that metrics show of the present state."""
        samples: defaultdict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        for name, sample in self._samples():
            samples[name].append(sample)
        return samples

    def _samples(self) -> Iterable[tuple[str, tuple[Mapping[str, str], float]]]:
        leads = float(self.leadership.leads)
        yield "leader_election_master_status", ({"name": self.definition.field_manager}, leads)
        for part in self.feed.statistics.parts:
            which = {"part": part.part, "source": part.source.value}
            yield "aim_part_fresh", (which, float(part.fresh))
            yield "aim_part_objects", (which, float(part.objects))
        yield from gauges_of("aim_decisions", self.recorder.statistics, {}).items()
        yield "aim_paused_objects", ({}, float(len(self._paused())))
        if self.term is not None:
            yield from self._term_samples(self.term)

    @staticmethod
    def _term_samples(term: Term) -> Iterable[tuple[str, tuple[Mapping[str, str], float]]]:
        for controller, queue in term.controllers.queues.items():
            yield from gauges_of("workqueue", queue, {"name": controller}).items()
        for controller, active in term.controllers.active.items():
            yield "controller_runtime_active_workers", ({"controller": controller}, float(active))
        for part, publisher in term.publishers.items():
            yield from gauges_of("aim_publisher", publisher, {"part": part}).items()
