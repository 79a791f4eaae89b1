"""What one change costs discovery among thousands of templates: passes, processor time, size of the records.

PYTHONPATH=tests .venv/bin/python -m bench.scale          # about a minute

Everything runs in this process: the cache, the enqueues, the work queue on virtual time, the worker with its decisions
and the encoding of its records. Plans are carried out in the cache alone, so writes are counted but cost nothing here.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, Final

import typer
from bench.figures import Figure
from bench.table import show
from rich.console import Console
from support.builders import condition, make
from support.virtual_clock import VirtualClock

from aim_discovery.service import definition
from aim_discovery.settings import DiscoverySettings
from aim_domain.kinds import AIM_CLUSTER_MODEL, AIM_SERVICE_TEMPLATE
from aim_domain.parts import DISCOVERY_JOBS, NODES, TEMPLATES
from controller_runtime import Change, Child, JsonObject, Key, Part, Plan, Predicate, Verb, timestamp
from controller_runtime.kinds import JOB, NODE
from controller_runtime.kinds import NAMESPACE as NAMESPACE_KIND
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.wire.version import Entry, Version
from controller_runtime.reconcile.child import Target, same_status, with_owner
from controller_runtime.reconcile.enqueue import ChangeRouter
from controller_runtime.reconcile.plan import Execution, Write, WriteResult
from controller_runtime.reconcile.queue import WorkQueue
from controller_runtime.reconcile.record import Records
from controller_runtime.reconcile.worker import Worker
from controller_runtime.testing import NOW, BuiltCache, cache_of

_SYSTEM: Final = "aim-system"
_JOB_LABELS: Final = {
    "app.kubernetes.io/name": "aim-discovery",
    "app.kubernetes.io/component": "discovery",
    "app.kubernetes.io/managed-by": "aim-controller",
}
_KINDS: Final = ("74a1", "74a5", "740c", "75a0", "75a3")
"""Device ids of the crowd of nodes: MI300X, MI325X, MI250X, MI350X, MI355X."""
_RARE: Final = "740f"
"""MI210, which one node has and twenty templates want."""
_MOST_PASSES: Final = 200_000


@dataclass
class Tally:
    """What was counted since the last reset."""

    passes: Counter[Key] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    records: int = 0
    largest: int = 0


class Desk:
    """Carries out plans in the cache alone; everything else of the worker's surroundings is left out."""

    def __init__(self, built: BuiltCache, shown: Sequence[Predicate[Any]], tally: Tally, limit: int) -> None:
        self.worker: Worker[Any] | None = None
        self._built = built
        self._shown = shown
        self._tally = tally
        self._limit = limit
        self._version = 1_000_000

    async def execute(self, target: Target, plan: Plan, **_: object) -> Execution:
        """Children that are missing, and the status if it differs."""
        writes = [self._create(target, child) for child in plan.children if not self._exists(child)]
        live = self._built.cache.get(target.part, _key(target.raw))
        if plan.status is not None and live is not None and not same_status(plan.status, live.raw.get("status") or {}):
            self.put(target.part, {**live.raw, "status": plan.status})
            self._tally.writes["status"] += 1
            writes.append(Write(Verb.APPLY, target.part.kind.kind, live.key.namespace, live.key.name, WriteResult.DONE))
        return Execution(tuple(writes))

    report = execute

    def forget(self, uid: str) -> None:
        """Nothing is remembered."""

    def observed(self, _: object) -> None:
        """No effect has a result."""

    def submit(self, *_: object) -> None:
        """Effects are not started."""

    def record(self, record: DecisionRecord) -> None:
        self._tally.records += 1
        self._tally.largest = max(self._tally.largest, len(record.to_json()))

    def put(self, part: Part[Any], obj: JsonObject) -> None:
        """An object enters the cache, and enqueues whom it concerns."""
        self._version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self._version)}
        body = {**obj, "metadata": metadata}
        version = Version(metadata["uid"], str(self._version), next(self._built.sequences), "e1")
        self._dispatch(self._built.cache.put(Entry.of(part, _key(body), body, version), 0.0))

    def remove(self, part: Part[Any], key: Key) -> None:
        """An object is deleted."""
        entry = self._built.cache.get(part, key)
        assert entry is not None
        self._dispatch(self._built.cache.absorb_deleted(part, key, entry.version.uid, 0.0))

    def _dispatch(self, changes: Iterable[Change[Any]]) -> None:
        assert self.worker is not None
        router = ChangeRouter(self._built.cache, self._shown, (self.worker.enqueuer,))
        for change in changes:
            router.route(change)

    def _exists(self, child: Child) -> bool:
        return self._built.cache.get(child.part, Key(child.namespace, child.name)) is not None

    def _create(self, target: Target, child: Child) -> Write:
        full = any(len(self._built.cache.select(one.index, one.value)) >= one.most for one in child.quotas)
        result = WriteResult.HELD if full else WriteResult.DONE
        self._tally.writes[result.value] += 1
        if not full:
            body = with_owner(target, child)
            made = {"uid": f"{child.name}-uid", "creationTimestamp": timestamp(NOW), "generation": 1}
            self.put(child.part, {**body, "metadata": {**body["metadata"], **made}})
        return Write(Verb.CREATE, child.part.kind.kind, child.namespace, child.name, result)


@dataclass
class Load:
    """A cache, and the controller of namespaced templates at work in it."""

    built: BuiltCache
    desk: Desk
    queue: WorkQueue[Key]
    worker: Worker[Any]
    clock: VirtualClock
    tally: Tally

    async def settle(self, limit: int = _MOST_PASSES) -> None:
        """All passes that are due now."""
        left = limit
        while self.queue.statistics.depth and left:
            taken = await self.queue.get()
            self.tally.passes[taken.key] += 1
            await self.worker.process(taken.key)
            self.queue.done(taken.key)
            left -= 1

    async def minutes(self, count: int) -> None:
        """Virtual time passes, second by second."""
        for _ in range(60 * count):
            self.clock.advance(1.0)
            await self.settle()

    def reset(self) -> None:
        """Count from zero."""
        self.tally.passes.clear()
        self.tally.writes.clear()
        self.tally.records = self.tally.largest = 0


def _key(obj: JsonObject) -> Key:
    return Key(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


def node(name: str, device: str, **labels: str) -> JsonObject:
    """A node with eight GPUs of a device id."""
    amounts = {"amd.com/gpu": "8"}
    own = {"amd.com/gpu.device-id": device, "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", **labels}
    return make(NODE, name, labels=own, status={"capacity": amounts, "allocatable": amounts})


def template(number: int, gpu: str, models: int, *, discovered: bool) -> JsonObject:
    """A template that wants a GPU; once discovered it has everything that an image tells."""
    spec = {
        "modelName": f"model-{number % models:05}",
        "profileId": f"p{number}",
        "hardware": {"gpu": {"requests": 1, "model": gpu}},
    }
    metadata = {"gpu": gpu, "gpuCount": 1, "metric": "latency", "precision": "fp8", "type": "optimized"}
    status = {
        "status": "Ready",
        "conditions": [condition("Discovered", True, "DiscoveryComplete")],
        "profile": {"metadata": metadata, "engine_args": {f"arg-{n}": n for n in range(20)}},
        "modelSources": [{"modelId": "org/model", "sourceUri": "hf://org/model", "size": "60Gi"}],
    }
    created = NOW + timedelta(seconds=number)
    made = make(AIM_SERVICE_TEMPLATE, f"template-{number:05}", spec=spec, created=created)
    return {**made, "status": status} if discovered else made


def running_job(number: int) -> JsonObject:
    """A discovery Job of somebody else that has not ended."""
    return make(JOB, f"busy-{number}", namespace=_SYSTEM, labels=_JOB_LABELS)


async def loaded(templates: list[JsonObject], models: int, others: Iterable[JsonObject]) -> Load:
    """The controller with everything settled; the nodes given here are known from the beginning."""
    settings = DiscoverySettings.model_validate({"system_namespace": _SYSTEM})
    declared = definition(settings)
    image = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
    crowd = [
        make(NAMESPACE_KIND, "ml"),
        make(NAMESPACE_KIND, _SYSTEM),
        *(make(AIM_CLUSTER_MODEL, f"model-{n:05}", spec={"image": image}) for n in range(models)),
        *others,
        *templates,
    ]
    built = cache_of(declared.consumes, *crowd, indexes=declared.indexes)
    clock, tally = VirtualClock(), Tally()
    queue: WorkQueue[Key] = WorkQueue(clock)
    reconciler = next(one for one in declared.reconcilers if one.part is TEMPLATES)
    desk = Desk(built, definition(settings).predicates, tally, settings.max_discovery_jobs)
    worker: Worker[Any] = Worker(
        reconciler,
        built.cache,
        queue,
        desk,  # type: ignore[arg-type]
        effects=desk,
        interceptors=(Records("discovery", desk.record),),
        now=lambda: NOW + timedelta(days=1, seconds=clock.now),
    )
    desk.worker = worker
    load = Load(built, desk, queue, worker, clock, tally)
    worker.resync()
    await load.settle()
    load.reset()
    return load


async def measure_nodes(nodes: int, templates: int, models: int) -> list[Figure]:
    """One node's GPU label changes: so that nobody, twenty, and everybody is concerned."""
    subject = f"{templates} templates, {nodes} nodes"
    wanting_rare = [template(n, "MI210", models, discovered=True) for n in range(20)]
    wanting = [template(n, "MI300X", models, discovered=True) for n in range(20, templates)]
    every = [node("only-rare", _RARE), node("only-mi300x", _KINDS[0])]
    load = await loaded([*wanting_rare, *wanting], models, every)
    for number in range(nodes - len(every)):
        load.desk.put(NODES, node(f"n{number:04}", _KINDS[1 + number % (len(_KINDS) - 1)]))
    await load.settle()
    figures: list[Figure] = []
    for name, changed in (
        ("label changes, nothing flips", node("n0000", _KINDS[2])),
        (
            "first node with a memory label, nothing flips",
            node("only-mi300x", _KINDS[0], **{"amd.com/gpu.vram": "192G"}),
        ),
        ("20 flip", node("only-rare", _KINDS[1])),
        ("all others flip", node("only-mi300x", _KINDS[1])),
        ("all others flip back", node("only-mi300x", _KINDS[0])),
    ):
        figures += await _cost(load, subject, name, lambda obj=changed: load.desk.put(NODES, obj))
    return figures


async def _cost(load: Load, subject: str, name: str, act: Any) -> list[Figure]:
    load.reset()
    began = time.process_time()
    act()
    await load.settle()
    return _figures(load, subject, name, time.process_time() - began)


def _figures(load: Load, subject: str, name: str, seconds: float) -> list[Figure]:
    tally = load.tally
    return [
        Figure(subject, f"{name}: passes", float(tally.passes.total()), ""),
        Figure(subject, f"{name}: status writes", float(tally.writes["status"]), ""),
        Figure(subject, f"{name}: largest record", tally.largest / 1024, "KiB", 64.0 if tally.largest else None),
        Figure(subject, f"{name}: processor time", seconds, "s", 2.0),
    ]


async def measure_waiting(templates: int, models: int) -> list[Figure]:
    """Everybody waits for a discovery slot; then one becomes free."""
    subject = f"{templates} templates waiting"
    waiting = [template(n, "MI300X", models, discovered=False) for n in range(templates)]
    jobs = [running_job(number) for number in range(10)]
    load = await loaded(waiting, models, [node("n", _KINDS[0]), *jobs])
    began = time.process_time()
    await load.minutes(1)
    figures = _figures(load, subject, "a minute", time.process_time() - began)
    end = load.built.cache.get(DISCOVERY_JOBS, _key(jobs[0]))
    assert end is not None
    figures += await _cost(load, subject, "a slot", lambda: load.desk.remove(DISCOVERY_JOBS, end.key))
    created = sum(1 for entry in load.built.cache.all(DISCOVERY_JOBS) if entry.key.namespace != _SYSTEM)
    return [*figures, Figure(subject, "a slot: Jobs created", float(created), "")]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    templates: Annotated[str, typer.Option(help="How many templates, increasing.")] = "500,5000",
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 500,
    models: Annotated[int, typer.Option(help="How many models.")] = 500,
) -> None:
    """Measure and print."""
    figures: list[Figure] = []
    for count in (int(one) for one in templates.split(",")):
        figures += asyncio.run(measure_nodes(nodes, count, models))
        figures += asyncio.run(measure_waiting(count, models))
    show(figures, Console(width=120))


if __name__ == "__main__":
    app()
