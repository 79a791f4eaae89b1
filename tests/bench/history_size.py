"""What the streams grow by: per AIMService until it runs, and per hour at rest for each kind.

``PYTHONPATH=tests .venv/bin/python -m bench.history_size``

Bytes are counted as the broker counts them against its limits, message by message. What happens at rest comes at a
known rate (a kubelet reports every five minutes, an autoscaler looks every fifteen seconds), so it is not waited for:
the events of one such interval go through a real publisher a few times, and what each event cost is multiplied by how
many there are in an hour.
"""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog
import uvloop
from bench.figures import Figure, machine, write_results
from bench.latency import measure_cold, measure_warm
from bench.site import MANAGER, Site, site
from bench.table import show
from rich.console import Console

from aim_domain.parts import AUTOSCALERS, CLUSTER_MODELS, NODES, TEMPLATES
from aim_domain.parts import SERVICES as AIM_SERVICES
from aim_local.nats import NatsServer
from controller_runtime import JsonObject, Part
from controller_runtime.kube.reflector_state import Restarted, Upsert
from controller_runtime.log.broker.connection import BusConnection, BusSettings, connect
from controller_runtime.log.broker.consumer import deliver
from controller_runtime.log.broker.streams import StreamLimits
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.source import published
from controller_runtime.log.publish.state import PublisherSettings, PublisherSetup
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT

COLD: Final = 3
WARM: Final = 20
NODE_COUNT: Final = 500
HPA_COUNT: Final = 500
OWN_COUNT: Final = 10_000
ROUNDS: Final = 3
_HEARTBEATS: Final = 12
"""Status reports of a kubelet per hour while nothing changes (nodeStatusReportFrequency is five minutes)."""
_SAMPLES: Final = 240
"""Looks of the autoscaler per hour."""
_RETENTION_HOURS: Final = 168
_BUDGET: Final = StreamLimits().history_bytes
_QUIET: Final = 0.5
_SETTINGS: Final = PublisherSettings(checkpoint_interval=1.0, watch_silence=3600.0, compare_interval=3600.0)
_MESSAGE_FRAME: Final = 30
_HEADER_FRAME: Final = 4
_VERSION: Final = re.compile(rb'"resourceVersion":"\d+"')


@dataclass
class Size:
    """What messages amount to; ``repeated`` are those that say what the object's message before said."""

    messages: int = 0
    size: int = 0
    repeated: int = 0

    def add(self, size: int, *, repeated: bool) -> None:
        """One message more."""
        self.messages += 1
        self.size += size
        self.repeated += repeated


@dataclass
class Contents:
    """What the streams hold, by kind of subject: versions by part, decisions by service."""

    versions: dict[str, Size] = field(default_factory=dict)
    decisions: dict[str, Size] = field(default_factory=dict)
    largest_decision: int = 0
    published: int = 0
    """Messages that the broker has stored, over all streams and since they were made."""

    @property
    def version_bytes(self) -> int:
        """Of all parts."""
        return sum(one.size for one in self.versions.values())

    @property
    def repeated(self) -> int:
        """Versions, of all parts, that say nothing new."""
        return sum(one.repeated for one in self.versions.values())

    @property
    def decision_bytes(self) -> int:
        """Of all services."""
        return sum(one.size for one in self.decisions.values())


async def contents(bus: BusConnection) -> Contents:
    """Read everything that is logged."""
    found = Contents()
    last: dict[str, bytes] = {}
    for name in (await bus.api("STREAM.NAMES"))["streams"]:
        state = (await bus.api(f"STREAM.INFO.{name}"))["state"]
        found.published += int(state["last_seq"])
        if name == DEFAULT_LAYOUT.state_stream or not state["messages"]:
            continue
        async with deliver(bus, name, (">",), {"deliver_policy": "all"}) as delivery:
            async for delivered in delivery.ready():
                message = delivered.message
                _, branch, group, *_ = message.subject.split(".")
                size = _stored_size(message.subject, message.headers, message.data)
                by = found.versions if branch == "log" else found.decisions
                said = _VERSION.sub(b"", message.data)
                by.setdefault(group, Size()).add(size, repeated=last.get(message.subject) == said)
                last[message.subject] = said
                if branch != "log":
                    found.largest_decision = max(found.largest_decision, size)
    return found


def _stored_size(subject: str, headers: Any, data: bytes) -> int:
    """Bytes of a message in the broker's own accounting: frame, subject, headers as sent, body."""
    encoded = sum(len(f"{name}: {value}\r\n".encode()) for name, value in headers.items())
    with_headers = _HEADER_FRAME + len("NATS/1.0\r\n\r\n") + encoded if headers else 0
    return _MESSAGE_FRAME + len(subject) + with_headers + len(data)


# Until it runs


async def measure_growth(folder: Path) -> list[Figure]:
    """One AIMService at a time on the whole platform: everything cold first, then everything ready."""
    async with site(folder) as place, _bus(place.stack.nats_url) as bus:
        await place.settled()
        empty = await contents(bus)
        await measure_cold(place)
        cold = await _quiet_contents(place, bus)
        await measure_warm(place)
        warm = await _quiet_contents(place, bus)
    # The warm path begins with three services that are not measured there, but cost the same.
    return [
        *_growth("AIMService, all cold", empty, cold, COLD),
        *_growth("AIMService, warm", cold, warm, WARM + 3),
    ]


async def _quiet_contents(place: Site, bus: BusConnection) -> Contents:
    await place.settled()
    await asyncio.sleep(_QUIET)
    return await contents(bus)


def _growth(subject: str, before: Contents, after: Contents, objects: int) -> list[Figure]:
    def per_object(now: dict[str, Size], then: dict[str, Size]) -> list[tuple[str, float, float]]:
        rows = []
        for name, one in now.items():
            old = then.get(name, Size())
            rows.append((name, (one.messages - old.messages) / objects, (one.size - old.size) / objects / 1024))
        return sorted((row for row in rows if row[1]), key=lambda row: -row[2])

    figures = [
        Figure(subject, "publishes to the broker", (after.published - before.published) / objects),
        Figure(subject, "versions logged", sum(row[1] for row in per_object(after.versions, before.versions))),
        Figure(subject, "  with nothing new", (after.repeated - before.repeated) / objects),
        Figure(subject, "  of all parts", (after.version_bytes - before.version_bytes) / objects / 1024, "KiB"),
    ]
    figures += [
        Figure(subject, f"  {name}, {count:.1f} versions", size, "KiB")
        for name, count, size in per_object(after.versions, before.versions)
    ]
    figures += [
        Figure(subject, "decisions recorded", sum(row[1] for row in per_object(after.decisions, before.decisions))),
        Figure(subject, "  of all services", (after.decision_bytes - before.decision_bytes) / objects / 1024, "KiB"),
        Figure(subject, "  largest so far", after.largest_decision / 1024, "KiB"),
    ]
    return figures


# At rest


@dataclass(frozen=True, slots=True)
class Rest:
    """A kind at rest.

    Attributes:
        count: objects.
        rate: events of each per hour.
        event: an object's next version; what the event changes, nobody decides by.
    """

    part: Part[Any]
    count: int
    rate: int
    specimen: Callable[[int], JsonObject]
    event: Callable[[JsonObject, int], JsonObject]


async def measure_rest() -> list[Figure]:
    """Each kind alone, on a broker of its own."""
    figures: list[Figure] = []
    per_hour = 0.0
    for rest in KINDS_AT_REST:
        async with NatsServer() as server, _bus(server.url) as bus:
            size, stored = await _rest(bus, rest)
        per_hour += size
        subject = f"{rest.count:,} {rest.part} at rest"
        figures.append(Figure(subject, "log per hour", size / 2**20, "MiB"))
        figures.append(Figure(subject, "publishes per hour, markers apart", stored))
    async with NatsServer() as server, _bus(server.url) as bus:
        held = await _own_objects(bus)
    # Each object is copied into the log once more when its last version there is too old to be kept.
    per_hour += held / _RETENTION_HOURS
    all_own = f"{OWN_COUNT:,} AIM objects at rest"
    figures.append(Figure(all_own, "log, once per retention", held / 2**20, "MiB"))
    total = "all of that at rest"
    figures.append(Figure(total, "log in 168 h", per_hour * _RETENTION_HOURS / 2**20, "MiB", _BUDGET / 2**20))
    figures.append(Figure(total, "until the default size is full", _BUDGET / per_hour if per_hour else 0, "h"))
    return figures


async def _rest(bus: BusConnection, rest: Rest) -> tuple[float, float]:
    """Bytes logged and messages stored per hour."""
    objects = [rest.specimen(number) for number in range(rest.count)]
    version = 1000
    form = published(rest.part)
    async with _publishing(bus, rest.part, objects) as publisher:
        before, checkpoints = await contents(bus), publisher.statistics.checkpoints
        for step in range(1, ROUNDS + 1):
            for number, obj in enumerate(objects):
                version += 1
                objects[number] = _versioned(rest.event(obj, step), version)
                publisher.take(Upsert(form(objects[number]), str(version)))
        await _done(publisher)
        after = await contents(bus)
        stored = after.published - before.published - (publisher.statistics.checkpoints - checkpoints)
    scale = rest.rate / ROUNDS
    return (after.version_bytes - before.version_bytes) * scale, stored * scale


async def _own_objects(bus: BusConnection) -> int:
    """Bytes logged when each of many AIM objects is logged once."""
    for part, specimen, count in OWN:
        async with _publishing(bus, part, [specimen(number) for number in range(count)]):
            pass
    return (await contents(bus)).version_bytes


@asynccontextmanager
async def _publishing(bus: BusConnection, part: Part[Any], objects: Sequence[JsonObject]) -> AsyncIterator[Publisher]:
    publisher = Publisher(PublisherSetup(bus, "bench", "c", settings=_SETTINGS), part)
    form = published(part)
    publisher.take(
        Restarted(tuple(form(_versioned(obj, number)) for number, obj in enumerate(objects, 1)), str(len(objects)))
    )
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(publisher.run())
        await _done(publisher)
        yield publisher
        runner.cancel()


async def _done(publisher: Publisher) -> None:
    """Until a checkpoint confirms everything that was taken so far."""
    checkpoints = publisher.statistics.checkpoints
    async with asyncio.timeout(300):
        while publisher.statistics.checkpoints < checkpoints + 2 or publisher.statistics.waiting:  # noqa: ASYNC110  # no event
            await asyncio.sleep(0.05)


def _versioned(obj: JsonObject, version: int) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


@asynccontextmanager
async def _bus(url: str) -> AsyncIterator[BusConnection]:
    async with connect(BusSettings.of_urls(url, MANAGER)) as bus:
        await bus.wait_connected()
        yield bus


# Specimens, as large as in a real cluster


def _node(number: int) -> JsonObject:
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{bit}": "true" for bit in range(60)}
    resources = {
        "cpu": "192",
        "memory": "2113362148Ki",
        "ephemeral-storage": "925Gi",
        "pods": "250",
        "amd.com/gpu": "8",
    }
    images = [{"names": [f"registry.example/image-{one}@sha256:{'0' * 64}"], "sizeBytes": 10**9} for one in range(50)]
    name = f"gpu-node-{number:04}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"node-{number:04}-4f2c-9a61-000000000000",
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {**labels, "kubernetes.io/hostname": name, "amd.com/gpu.device-id": "74a1"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:{one}": {} for one in range(60)}}],
        },
        "spec": {"providerID": f"example:///{name}"},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [
                {"type": type_, "status": "False", "reason": "Kubelet", "message": "kubelet has no pressure"}
                for type_ in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
            "images": images,
        },
    }


def _heartbeat(obj: JsonObject, step: int) -> JsonObject:
    when = f"2026-11-02T00:{step:02}:00Z"
    conditions = [{**one, "lastHeartbeatTime": when} for one in obj["status"]["conditions"]]
    return {**obj, "status": {**obj["status"], "conditions": conditions}}


def _hpa(number: int) -> JsonObject:
    name = f"chat-{number:04}-predictor"
    metric = {"type": "External", "external": {"metric": {"name": f"s0-{name}"}, "target": {"type": "AverageValue"}}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"hpa-{number:04}-4f2c-9a61-000000000000",
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"aim.eai.amd.com/service.name": f"chat-{number:04}", "serving.kserve.io/inferenceservice": name},
            "managedFields": [
                {"manager": "kube-controller-manager", "fieldsV1": {f"f:{one}": {} for one in range(60)}}
            ],
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [metric],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300, "policies": [{"type": "Pods", "value": 1}]}},
        },
        "status": {
            "currentReplicas": 2,
            "desiredReplicas": 2,
            "conditions": [
                {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "recommended size"},
                {
                    "type": "ScalingActive",
                    "status": "True",
                    "reason": "ValidMetricFound",
                    "message": "the HPA was able",
                },
                {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange", "message": "in range"},
            ],
            "currentMetrics": [{**metric, "current": {"averageValue": "0"}}],
        },
    }


def _sample(obj: JsonObject, step: int) -> JsonObject:
    metrics = deepcopy(obj["status"]["currentMetrics"])
    metrics[0]["current"]["averageValue"] = f"{17 * step}m"
    return {**obj, "status": {**obj["status"], "currentMetrics": metrics}}


def _own(part: Part[Any], spec: JsonObject, status: JsonObject) -> Callable[[int], JsonObject]:
    def make(number: int) -> JsonObject:
        conditions = [
            {
                "type": type_,
                "status": "True",
                "reason": f"{type_}Ready",
                "message": "every component is as wanted",
                "lastTransitionTime": "2026-11-01T00:00:00Z",
                "observedGeneration": 1,
            }
            for type_ in ("Ready", "ModelReady", "TemplateReady", "RuntimeConfigReady", "CacheReady")
        ]
        return {
            "apiVersion": part.kind.api_version,
            "kind": part.kind.kind,
            "metadata": {
                "name": f"object-{number:05}",
                **({"namespace": "ml"} if part.kind.namespaced else {}),
                "uid": f"{part.name}-{number:05}-4f2c-9a61",
                "generation": 1,
                "creationTimestamp": "2026-11-01T00:00:00Z",
            },
            "spec": spec,
            "status": {**status, "status": "Ready", "observedGeneration": 1, "conditions": conditions},
        }

    return make


_METADATA: Final[JsonObject] = {f"label-{one}": "a value as images carry them" for one in range(40)}
_PROFILE: Final[JsonObject] = {"env": {f"AIM_VARIABLE_{one}": "value" for one in range(20)}, "args": ["--x"] * 20}

KINDS_AT_REST: Final = (
    Rest(NODES, NODE_COUNT, _HEARTBEATS, _node, _heartbeat),
    Rest(AUTOSCALERS, HPA_COUNT, _SAMPLES, _hpa, _sample),
)
OWN: Final = (
    (AIM_SERVICES, _own(AIM_SERVICES, {"model": {"image": "x"}}, {"runtime": {"replicas": "1"}}), OWN_COUNT // 2),
    (TEMPLATES, _own(TEMPLATES, {"modelName": "x"}, {"profile": _PROFILE}), OWN_COUNT // 4),
    (CLUSTER_MODELS, _own(CLUSTER_MODELS, {"image": "x"}, {"imageMetadata": _METADATA}), OWN_COUNT // 4),
)


async def _measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        growth = await measure_growth(Path(folder, "platform"))
    return [*growth, *await measure_rest()]


def main() -> None:
    """Measure, print, keep."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    on = machine()
    figures = uvloop.run(_measure())
    console = Console(width=120)
    show(figures, console)
    console.print(f"kept in {write_results(figures, on, 0.0)}", soft_wrap=True)


if __name__ == "__main__":
    main()
