"""The controllers of templates with their real queues, workers and executors, on virtual time.

The cache is fed by hand: with the answers to own writes, and with what a test does as a user or as the cluster.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

from support.builders import make
from support.controlplane import CRDS
from support.deciding import WATCHED
from support.discovery_cache import SYSTEM, cluster_model, settings
from support.virtual_clock import VirtualClock

from aim_discovery.service import definition
from aim_discovery.templates.discovery import JOBS_BY_OWNER
from aim_discovery.templates.slots import ACTIVE_JOBS
from aim_domain.parts import CLUSTER_MODELS, CLUSTER_TEMPLATES, DISCOVERY_JOBS, NAMESPACES, TEMPLATES
from controller_runtime import Cache, Change, JsonObject, Key, KubeClient, Part, scoped, timestamp
from controller_runtime.kinds import NAMESPACE as NAMESPACE_KIND
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.wire.version import Entry, Version
from controller_runtime.reconcile.cache_access import Admission, CacheAccess
from controller_runtime.reconcile.enqueue import ChangeRouter
from controller_runtime.reconcile.events import EventWriter
from controller_runtime.reconcile.executor import Executor
from controller_runtime.reconcile.queue import WorkQueue
from controller_runtime.reconcile.record import Records
from controller_runtime.reconcile.worker import Worker
from controller_runtime.testing import NOW
from embedded_apiserver import EXTERNAL_CRDS, ControlPlane

_MOST_PASSES = 5000


@dataclass
class DiscoveryBench:
    """Both controllers of templates.

    Attributes:
        passes: how often each object was looked at, by name, since a test cleared it.
    """

    kube: KubeClient
    limit: int
    cache: Cache = field(init=False)
    clock: VirtualClock = field(default_factory=VirtualClock)
    passes: Counter[str] = field(default_factory=Counter)
    records: list[DecisionRecord] = field(default_factory=list)
    births: dict[str, str] = field(default_factory=dict)
    _sequences: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        declared = definition(settings(max_discovery_jobs=self.limit))
        self.cache = Cache(declared.consumes, declared.indexes)
        for part in declared.consumes:
            self.cache.mark(part, synced=True, fresh=True, epoch="e1")
        self.access = _AgedByTheBench(self)
        admission = Admission(self.access, self.kube)
        events = EventWriter(self.kube, declared.field_manager)
        self.queues: dict[str, WorkQueue[Key]] = {}
        self.workers: dict[str, Worker[Any]] = {}
        for reconciler in declared.reconcilers:
            if reconciler.part not in (TEMPLATES, CLUSTER_TEMPLATES):
                continue
            executor = Executor(
                self.kube,
                reconciler,
                field_manager=declared.field_manager,
                cache=self.access,
                admission=admission,
                events=events,
            )
            queue: WorkQueue[Key] = WorkQueue(self.clock)
            self.queues[reconciler.controller] = queue
            self.workers[reconciler.controller] = Worker(
                reconciler,
                self.cache,
                queue,
                executor,
                effects=self,
                interceptors=(Records(declared.name, self.records.append), WATCHED),
                now=lambda: NOW + timedelta(seconds=self.clock.now),
            )
        self._router = ChangeRouter(self.cache, declared.predicates, [one.enqueuer for one in self.workers.values()])

    # What the controllers need

    def observed(self, _: object) -> None:
        """No effect has a result."""

    def submit(self, *_: object) -> None:
        """Effects are not carried out: nobody reads logs here."""

    def forget(self, owner_uid: str) -> None:
        """Nothing is remembered of effects."""

    def dispatch(self, changes: Sequence[Change[Any]]) -> None:
        """Changes of the cache enqueue whom they concern."""
        for change in changes:
            self._router.route(change)

    async def settle(self) -> None:
        """All passes that are due."""
        left = _MOST_PASSES
        while any(queue.statistics.depth for queue in self.queues.values()):
            for controller, queue in self.queues.items():
                if queue.statistics.depth:
                    assert left, f"a loop of passes: {self.passes.most_common(5)}"
                    left -= 1
                    taken = await queue.get()
                    self.passes[taken.key.name] += 1
                    await self.workers[controller].process(taken.key)
                    queue.done(taken.key)

    async def pass_time(self, seconds: int) -> None:
        """Virtual time goes on; timers fire in their order."""
        for _ in range(seconds):
            self.clock.advance(1.0)
            await self.settle()

    # Acting as users and as the cluster

    async def create(self, part: Part[Any], obj: JsonObject) -> None:
        """An object appears."""
        metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
        self.absorb(part, await self.kube.create(part.kind, {**obj, "metadata": metadata}, "user"))

    async def change(self, part: Part[Any], key: Key, patch: JsonObject, subresource: str | None = None) -> None:
        """Somebody changes an object."""
        version = self._known(part, key)["metadata"]["resourceVersion"]
        answer = await self.kube.merge_patch(
            part.kind,
            key.name,
            key.namespace or None,
            patch,
            resource_version=version,
            field_manager="user",
            subresource=subresource,
        )
        self.absorb(part, answer)

    async def delete(self, part: Part[Any], key: Key) -> None:
        """An object goes, at once, and its Jobs with it, as the garbage collector would have it."""
        known = self._known(part, key)
        uid = known["metadata"]["uid"]
        await self.kube.delete(part.kind, key.name, key.namespace or None, uid=uid)
        self.absorb(part, known, gone=True)
        for job in self.cache.select(JOBS_BY_OWNER, scoped(key.namespace, uid)):
            self.absorb(DISCOVERY_JOBS, job.raw, gone=True)

    async def end(self, job: Key) -> None:
        """A Job fails; the kubelet and the Job controller are not here."""
        failed = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
        await self.change(DISCOVERY_JOBS, job, {"status": {"conditions": [failed]}}, "status")

    def absorb(self, part: Part[Any], obj: JsonObject, *, gone: bool = False) -> None:
        """The cache learns of an answer."""
        self.access.absorb(part, obj, gone=gone)

    def feed(self, part: Part[Any], obj: JsonObject) -> None:
        """Services do not write this part: it comes over the bus."""
        metadata = obj["metadata"]
        version = Version(metadata["uid"], metadata["resourceVersion"], next(self._sequences), "e1")
        self.dispatch(self.cache.put(Entry.of(part, Key("", metadata["name"]), obj, version), self.clock.now))

    # Looking

    def _known(self, part: Part[Any], key: Key) -> JsonObject:
        known = self.access.live(part, key)
        assert known is not None, f"no {part} {key}"
        return known

    def running(self) -> list[Key]:
        """Keys of the Jobs that count, the oldest first."""
        return [entry.key for entry in self.cache.select(ACTIVE_JOBS, "yes")]

    def owners(self) -> list[str]:
        """Names of the templates that have a Job which counts, in the order of the Jobs."""
        found = self.cache.select(ACTIVE_JOBS, "yes")
        return [str(owner["name"]) for entry in found for owner in entry.raw["metadata"]["ownerReferences"]]


class _AgedByTheBench(CacheAccess):
    """The age of objects is told by the bench's clock, too."""

    def __init__(self, bench: DiscoveryBench) -> None:
        super().__init__(bench.cache, bench.dispatch, bench.clock.time)
        self._bench = bench

    def absorb(self, part: Part[Any], obj: JsonObject, *, gone: bool = False) -> None:
        bench, metadata = self._bench, obj["metadata"]
        born = bench.births.setdefault(metadata["uid"], timestamp(NOW + timedelta(seconds=bench.clock.now)))
        aged = {**obj, "metadata": {**metadata, "creationTimestamp": born}}
        if part.read_only:
            bench.feed(part, aged)
        else:
            super().absorb(part, aged, gone=gone)


@asynccontextmanager
async def discovery_bench(limit: int) -> AsyncIterator[DiscoveryBench]:
    """A bench with one model of the cluster and the usual namespaces."""
    async with ControlPlane() as plane, KubeClient(Connection(plane.url, NoCredentials()), service="t") as kube:
        plane.install_crds([EXTERNAL_CRDS, CRDS])
        bench = DiscoveryBench(kube, limit)
        for name in (SYSTEM, "ml"):
            await bench.create(NAMESPACES, make(NAMESPACE_KIND, name))
        await bench.create(CLUSTER_MODELS, cluster_model())
        yield bench
