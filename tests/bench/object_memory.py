"""What an object costs a service, and what a start with many of them costs.

``PYTHONPATH=tests .venv/bin/python -m bench.object_memory serving 10000`` (or ``discovery``, whose objects are models).

One specimen is made by the whole platform on a stack. It is then copied many times, straight into the store of an
API server and, by ordinary publishers, into the streams, as if another process of the service had converged them all.
Only the service in question is started on that: it lists, takes the snapshot, and passes every object once, as after
any restart. Nothing of what it finds differs from what it wants, so it has to write nothing.
"""

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import aiohttp
import structlog
import typer
import uvloop
from bench.catalogue import METADATA
from bench.figures import Figure, machine, write_results
from bench.ledger import Cost, Ledger
from bench.site import IMAGE, MANAGER, Site, site
from bench.surroundings import CRDS
from bench.table import show
from bench.usage import MIB, processor_seconds
from bench.watcher import Accept, arrivals, has_condition, is_running
from rich.console import Console

from aim_domain import kinds
from aim_domain.naming import inference_service_name
from aim_domain.parts import (
    AUTOSCALERS,
    CLUSTER_MODELS,
    HTTP_ROUTES,
    INFERENCE_SERVICE_EVENTS,
    INFERENCE_SERVICES,
    PREDICTOR_PODS,
)
from aim_domain.parts import SERVICES as AIM_SERVICES
from aim_domain.services import SERVICES
from aim_local.nats import NatsServer
from aim_local.ports import HOST, free_ports
from controller_runtime import FACTS, JsonObject, Key, Part, ServiceDefinition, dumps, loads
from controller_runtime.kind_names import KindName
from controller_runtime.kube.reflector_state import Restarted
from controller_runtime.log.broker.connection import BusConnection, BusSettings, connect
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.source import published
from controller_runtime.log.publish.state import Phase, PublisherSettings, PublisherSetup
from embedded_apiserver import EXTERNAL_CRDS, ControlPlane

_TOKEN: Final = "specimen"
"""Name of the object that is copied; nothing else may be called so. Copies have names of the same length."""
_NAMESPACE: Final = "bench-many"
_PATIENCE: Final = 60.0
_START_PATIENCE: Final = 900.0
"""Seconds; machines that are used by others as well take their time, and memory is the same on them."""
_QUIET_SECONDS: Final = 3.0
_LOOK: Final = 0.05
_QUIET: Final = PublisherSettings(checkpoint_interval=2.0, watch_silence=3600.0, compare_interval=3600.0)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is made many of, for which service.

    Attributes:
        copied: parts of which each specimen's objects are copied; all other parts are taken over once.
        goal: most MiB with 10,000 of them.
    """

    service: str
    kind: KindName
    body: JsonObject
    settled: Accept
    copied: tuple[Part[Any], ...]
    goal: float


_METRIC: Final = {
    "type": "PodMetric",
    "podmetric": {
        "metric": {
            "backend": "opentelemetry",
            "metricNames": ["vllm:num_requests_running"],
            "query": "vllm:num_requests_running",
            "operationOverTime": "avg",
        },
        "target": {"type": "Value", "value": "1"},
    },
}
_SERVICE_BODY: Final[JsonObject] = {
    "apiVersion": kinds.AIM_SERVICE.api_version,
    "kind": kinds.AIM_SERVICE.kind,
    "metadata": {"name": _TOKEN, "namespace": _NAMESPACE},
    "spec": {
        "model": {"image": IMAGE},
        "minReplicas": 1,
        "maxReplicas": 3,
        "autoScaling": {"metrics": [_METRIC]},
    },
}
_MODEL_BODY: Final[JsonObject] = {
    "apiVersion": kinds.AIM_CLUSTER_MODEL.api_version,
    "kind": kinds.AIM_CLUSTER_MODEL.kind,
    "metadata": {"name": _TOKEN},
    "spec": {
        "image": f"example.com/team/{_TOKEN}:1",
        "imageMetadata": METADATA,
        "discovery": {"createServiceTemplates": False},
    },
}
_WITH_SERVICE: Final = (AIM_SERVICES, INFERENCE_SERVICES, HTTP_ROUTES, PREDICTOR_PODS, AUTOSCALERS)

SUBJECTS: Final[Mapping[str, Subject]] = {
    "discovery": Subject(
        "discovery",
        kinds.AIM_CLUSTER_MODEL,
        _MODEL_BODY,
        has_condition("Ready"),
        (CLUSTER_MODELS,),
        200,
    ),
    **{
        name: Subject(name, kinds.AIM_SERVICE, _SERVICE_BODY, is_running, _WITH_SERVICE, 250)
        for name in SERVICES
        if name != "discovery"
    },
}


@dataclass(frozen=True, slots=True)
class Specimen:
    """Everything in a cluster that a service looks at, by part."""

    subject: Subject
    objects: Mapping[str, list[JsonObject]]

    def copies(self, part: Part[Any], count: int) -> Iterable[JsonObject]:
        """That many objects for each one of the part, alike but for names and UIDs."""
        workload = inference_service_name(_TOKEN, _NAMESPACE)
        own = {obj["metadata"]["uid"] for one in self.subject.copied for obj in self.objects.get(one.name, ())}
        for obj in self.objects[part.name]:
            # The garbage collector of the copies' API server would miss owners of other kinds.
            owners = [one for one in obj["metadata"].get("ownerReferences") or () if one["uid"] in own]
            text = dumps({**obj, "metadata": {**obj["metadata"], "ownerReferences": owners}}).decode()
            for number in range(count):
                name = f"s{number:0{len(_TOKEN) - 1}d}"
                copy = text.replace(workload, inference_service_name(name, _NAMESPACE)).replace(_TOKEN, name)
                for uid in own:
                    copy = copy.replace(uid, f"{uid[:24]}{number:012x}")
                yield loads(copy)


async def take_specimen(folder: Path, subject: Subject) -> Specimen:
    """Let the platform converge one object, and copy what there is then."""
    async with site(folder) as place:
        await place.namespace(_NAMESPACE)
        key = Key(subject.body["metadata"].get("namespace", ""), _TOKEN)
        async with arrivals(place.client, subject.kind, subject.settled) as seen:
            await place.create(subject.kind, [subject.body])
            await seen.until_seen([key], _PATIENCE)
        await place.settled()
        return Specimen(subject, {part.name: await _listed(place, part) for part in consumed(subject.service)})


async def _listed(place: Site, part: Part[Any]) -> list[JsonObject]:
    if part is INFERENCE_SERVICE_EVENTS:
        # They expire after an hour: at rest there are none.
        return []
    page = await place.client.list(
        part.kind, None, label_selector=part.label_selector, field_selector=part.field_selector
    )
    identity = {"apiVersion": part.kind.api_version, "kind": part.kind.kind}
    return [{**identity, **one} for one in page.items]


def consumed(service: str) -> list[Part[Any]]:
    """The parts of the API server that a service reads from the log."""
    return [part for part in _declared(service).consumes if part is not FACTS]


def _declared(service: str) -> ServiceDefinition:
    package = import_module(f"aim_{service.replace('-', '_')}.service")
    found: ServiceDefinition = package.definition(package.SETTINGS())
    return found


@dataclass(frozen=True, slots=True)
class Surroundings:
    """An API server and a broker that hold many copies."""

    plane: ControlPlane
    nats: NatsServer
    folder: Path


@asynccontextmanager
async def surroundings(folder: Path, subject: Subject, specimen: Specimen, count: int) -> AsyncIterator[Surroundings]:
    """Fill both; what the service does not publish itself goes on being confirmed."""
    store = folder / "nats"
    store.mkdir(parents=True)
    unsynced = f'jetstream {{ store_dir: "{store}", max_file_store: 1TB }}'
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(ControlPlane())
        plane.install_crds([EXTERNAL_CRDS, CRDS])
        nats = await stack.enter_async_context(NatsServer(store, extra_config=unsynced))
        bus = await stack.enter_async_context(connect(BusSettings.of_urls(nats.url, MANAGER)))
        await bus.wait_connected()
        held = _fill(plane, subject, specimen, count)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        running = await _publish(group, bus, plane, held)
        own = {part.name for part in _declared(subject.service).publishes}
        for name, task in running.items():
            if name in own:
                task.cancel()
        (folder / "kubeconfig").write_text(plane.kubeconfig(), encoding="utf-8")
        plane.store.compact()
        del held
        gc.collect()
        gc.freeze()
        yield Surroundings(plane, nats, folder)
        for task in running.values():
            task.cancel()


def _fill(
    plane: ControlPlane, subject: Subject, specimen: Specimen, count: int
) -> list[tuple[Part[Any], list[JsonObject]]]:
    """Put everything into the API server's store; returns it by part."""
    held: list[tuple[Part[Any], list[JsonObject]]] = []
    registry = plane._life.registry
    for part in consumed(subject.service):
        resource = registry.find_kind(part.kind.api_version, part.kind.kind)
        assert resource is not None
        copied = part in subject.copied
        objects = list(specimen.copies(part, count)) if copied else list(specimen.objects[part.name])
        for obj in objects:
            key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            if plane.store.get(resource.storage, key) is None:
                plane.store.put(resource.storage, key, obj)
            else:
                obj.update(plane.store.collection(resource.storage).objects[key].obj)
        held.append((part, objects))
    return held


async def _publish(
    group: asyncio.TaskGroup, bus: BusConnection, plane: ControlPlane, held: list[tuple[Part[Any], list[JsonObject]]]
) -> dict[str, asyncio.Task[None]]:
    """Publish all parts, and wait until each is confirmed."""
    found = plane.store.get("namespaces", ("", "kube-system"))
    assert found is not None
    running: dict[str, asyncio.Task[None]] = {}
    publishers = []
    for part, objects in held:
        publisher = Publisher(PublisherSetup(bus, "bench", found.uid, settings=_QUIET), part)
        publisher.take(Restarted(tuple(map(published(part), objects)), str(plane.store.revision)))
        running[part.name] = group.create_task(publisher.run())
        publishers.append(publisher)
    async with asyncio.timeout(_START_PATIENCE):
        while any(one.statistics.phase is not Phase.LIVE or not one.statistics.checkpoints for one in publishers):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)
    return running


@dataclass(slots=True)
class Run:
    """One start of the service and what it held after it."""

    seconds_until_synced: float = 0.0
    seconds_until_done: float = 0.0
    cpu_until_synced: float = 0.0
    cpu_until_done: float = 0.0
    resident: float = 0.0
    peak: float = 0.0
    longest_wait: float = 0.0
    writes: int = 0
    published: int = 0
    detail: Mapping[str, int] = field(default_factory=dict)


async def measure_start(around: Surroundings, service: str) -> Run:
    """Start the service, wait until it is idle, and look at it."""
    (port,) = free_ports(1)
    address = f"{HOST}:{port}"
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIM_")},
        "KUBECONFIG": str(around.folder / "kubeconfig"),
        "AIM_NATS_URL": around.nats.url,
        "AIM_HEALTH_PROBE_BIND_ADDRESS": address,
        "AIM_METRICS_BIND_ADDRESS": address,
        "AIM_METRICS_SECURE": "false",
        "AIM_LEADER_ELECT": "false",
        "AIM_POD_NAME": f"bench-{service}",
        "NO_PROXY": HOST,
        "no_proxy": HOST,
    }
    around.plane.requests.reset()
    log = around.folder / f"{service}.log"
    with log.open("w", encoding="utf-8") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", f"aim_{service.replace('-', '_')}", env=env, stdout=output, stderr=output
        )
        try:
            async with asyncio.timeout(_START_PATIENCE), aiohttp.ClientSession(f"http://{address}") as http:
                run = await _follow(http, process)
            report = around.plane.requests.report()
        finally:
            process.terminate()
            await process.wait()
    ledger = Ledger.of(report)
    run.writes = round(ledger.total(Cost.WRITE) + ledger.total(Cost.EVENT))
    run.detail = ledger.detail(Cost.WRITE, Cost.EVENT)
    return run


async def _follow(http: aiohttp.ClientSession, process: asyncio.subprocess.Process) -> Run:
    run, begun, idle_since, pid = Run(), time.monotonic(), None, process.pid
    while idle_since is None or time.monotonic() - idle_since < _QUIET_SECONDS:
        await asyncio.sleep(_LOOK)
        if process.returncode is not None:
            raise RuntimeError(f"the service ended with {process.returncode}")
        asked = time.monotonic()
        ready = await _status(http, "/readyz") == 200
        if ready and not run.seconds_until_synced:
            run.seconds_until_synced, run.cpu_until_synced = asked - begun, processor_seconds(pid)
        page = await _page(http, "/debug/queue") if ready else {}
        if run.cpu_until_synced or page:
            run.longest_wait = max(run.longest_wait, time.monotonic() - asked)
        run.published = sum(one["published"] + one["copied"] for one in page.get("publishers", {}).values())
        if not _is_idle(page):
            idle_since = None
        elif idle_since is None:
            idle_since = asked
            run.seconds_until_done, run.cpu_until_done = asked - begun, processor_seconds(pid)
    run.resident, run.peak = _memory(pid, "VmRSS"), _memory(pid, "VmHWM")
    return run


def _is_idle(page: JsonObject) -> bool:
    if not page.get("leads") or not page["queues"]:
        return False
    published = all(one["checkpoints"] and not one["waiting"] for one in page["publishers"].values())
    return published and all(not one["depth"] and not one["processing"] for one in page["queues"].values())


async def _status(http: aiohttp.ClientSession, path: str) -> int:
    try:
        async with http.get(path) as answer:
            return answer.status
    except aiohttp.ClientError:
        return 0


async def _page(http: aiohttp.ClientSession, path: str) -> JsonObject:
    async with http.get(path) as answer:
        return loads(await answer.read())


def _memory(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 / MIB for line in lines if line.startswith(f"{name}:"))


async def measure(folder: Path, subject: Subject, count: int) -> list[Figure]:
    """The service without any objects, and with that many."""
    specimen = await take_specimen(folder / "site", subject)
    runs: dict[int, Run] = {}
    for size in (1, count):
        async with surroundings(folder / str(size), subject, specimen, size) as around:
            runs[size] = await measure_start(around, subject.service)
    title = f"{subject.service}, {count} × {subject.kind.kind}"
    empty, full = runs[1], runs[count]
    per = 1024 * (full.resident - empty.resident) / count
    return [
        Figure(title, "memory with one", empty.resident, "MiB"),
        Figure(title, "memory", full.resident, "MiB", subject.goal if count == 10_000 else None),
        Figure(title, "most memory at any moment", full.peak, "MiB", subject.goal if count == 10_000 else None),
        Figure(title, "per object with its children", per, "KiB"),
        Figure(title, "start until synced", full.seconds_until_synced, "s", 5),
        Figure(title, "  processor time", full.cpu_until_synced, "s", 5),
        Figure(title, "start until every object was passed", full.seconds_until_done, "s"),
        Figure(title, "  processor time", full.cpu_until_done, "s"),
        Figure(title, "  the same with one", empty.cpu_until_done, "s"),
        Figure(title, "longest wait for an answer of the debug page", 1000 * full.longest_wait, "ms"),
        Figure(title, "writes for nothing", full.writes, goal=0, gate=True, detail=full.detail),
        Figure(title, "versions published for nothing", full.published, goal=0, gate=True),
    ]


def main(
    service: Annotated[str, typer.Argument()] = "serving", count: Annotated[int, typer.Argument()] = 10_000
) -> None:
    """Measure, print, keep."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    on, begun = machine(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        figures = uvloop.run(measure(Path(folder), SUBJECTS[service], count))
    console = Console(width=None if sys.stdout.isatty() else 120)
    show(figures, console)
    console.print(f"kept in {write_results(figures, on, time.monotonic() - begun)}", soft_wrap=True)
    if failed := [one for one in figures if one.failed]:
        for one in failed:
            console.print(f"over its goal: {one.name}: {one.value:g} ({dict(one.detail)})", soft_wrap=True)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
