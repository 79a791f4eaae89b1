"""A bench with a control plane, an executor and a worker, whose reconciler a test sets."""

import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.responses import Response
from support.controlplane import definitions
from support.deciding import WATCHED
from support.virtual_clock import VirtualClock

from aim_domain import AIMService, kinds
from controller_runtime import (
    FACTS,
    Cache,
    Change,
    Effect,
    JsonObject,
    Key,
    Kind,
    KubeClient,
    MappingBy,
    Part,
    Plan,
    Reconciler,
    TransportSettings,
    View,
)
from controller_runtime.backoff import Backoff
from controller_runtime.core import ConfigMap
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.log.cache.store import Derived
from controller_runtime.log.cache.view import ReadLog
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.history.facts import FactOwner
from controller_runtime.reconcile.cache_access import Admission, CacheAccess
from controller_runtime.reconcile.child import Target
from controller_runtime.reconcile.decide import Decision as PassDecision
from controller_runtime.reconcile.decide import Interceptor, Proceed
from controller_runtime.reconcile.enqueue import ChangeRouter
from controller_runtime.reconcile.events import EventWriter
from controller_runtime.reconcile.executor import Executor
from controller_runtime.reconcile.plan import NOTHING
from controller_runtime.reconcile.queue import DEFAULT_BACKOFF, WorkQueue
from controller_runtime.reconcile.record import Records
from controller_runtime.reconcile.watchdog import Watchdog
from controller_runtime.reconcile.worker import Worker
from embedded_apiserver import ControlPlane
from embedded_apiserver.http import Handler, Request
from embedded_apiserver.serving import json_response

SERVICES = Part("aimservices", kinds.AIM_SERVICE)
CONFIG_MAPS = Part("configmaps", kinds.CONFIG_MAP)
LABELLED = Part("configmaps-labelled", kinds.CONFIG_MAP, label_selector="ours=true")
CLAIMS = Part("claims", kinds.PERSISTENT_VOLUME_CLAIM)
PARTS = (SERVICES, CONFIG_MAPS, LABELLED, CLAIMS, FACTS)

Decision = Callable[[AIMService, View], Plan]


@dataclass
class Faults:
    """Answers given instead of the API server's, by predicate; the first that fits is used."""

    rules: list[tuple[Callable[[Request], bool], int, JsonObject]] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)

    def fail(self, method: str, path: str, code: int, **status: Any) -> None:
        """Fail requests of that method whose path ends so."""
        self.rules.append(
            (lambda request: request.method == method and request.path.endswith(path), code, {"code": code, **status})
        )

    async def __call__(self, request: Request, handler: Handler) -> Response:
        if request.method != "GET":
            self.seen.append((request.method, request.path))
        for applies, code, status in self.rules:
            if applies(request):
                body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", **status}
                return json_response(body, code)
        return await handler(request)


@dataclass
class Looking(Interceptor):
    """Keeps what each decision has read."""

    saw: list[ReadLog]

    def decide(self, decision: PassDecision[Any], proceed: Proceed) -> Plan:
        try:
            return proceed(decision)
        finally:
            self.saw.append(decision.reads)


@dataclass
class Bench:
    """Everything around one AIMService that a test looks at."""

    kube: KubeClient
    faults: Faults
    cache: Cache = field(default_factory=lambda: Cache(PARTS))
    decision: Decision = field(default=lambda _obj, _view: NOTHING)
    leads: bool = True
    records: list[DecisionRecord] = field(default_factory=list)
    saw: list[ReadLog] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    results: dict[str, datetime] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)
    clock: datetime = datetime(2026, 11, 21, 12, tzinfo=UTC)
    woken_by: Callable[[Change[ConfigMap]], list[Key]] = field(default=lambda _: [])
    timers: VirtualClock | None = None
    watchdog: Watchdog = field(default_factory=Watchdog)

    def __post_init__(self) -> None:
        for part in PARTS:
            self.cache.mark(part, synced=True, fresh=True)
        self.reconciler = Reconciler(
            "service",
            SERVICES,
            lambda obj, view, _now: self.decision(obj, view),
            mappings=(MappingBy(CONFIG_MAPS, lambda change, _: self.woken_by(change)),),
        )
        self._start()

    def finalizing(self, finalizer: str, clean_up: Callable[[View], Plan | None]) -> None:
        """Give the reconciler a finalizer."""
        self.reconciler = replace(self.reconciler, finalizer=finalizer, finalize=lambda _, view, __: clean_up(view))
        self._start()

    def enqueuer(self, *mappings: MappingBy[Any]) -> None:
        """Give the reconciler other enqueues."""
        self.reconciler = replace(self.reconciler, mappings=mappings)
        self._start()

    def index(self, *indexes: Derived) -> None:
        """Give the cache look-ups; what it knows stays."""
        parts: tuple[Part[Any], ...] = PARTS
        known = [entry for part in parts for entry in self.cache.all(part)]
        self.cache = Cache(PARTS, indexes)
        for part in PARTS:
            self.cache.mark(part, synced=True, fresh=True)
        for entry in known:
            self.cache.absorb(entry.part, entry.raw, 0.0)
        self._start()

    def on_virtual_time(self) -> None:
        """Let the queue's delays, which are then those of production, pass in `work_for` only."""
        self.timers = VirtualClock()
        self._start()

    def within(self, budget: float) -> None:
        """Allow each decision that many seconds."""
        self.watchdog = Watchdog(budget)
        self._start()

    async def work_for(self, seconds: int, limit: int = 100) -> list[float]:
        """Carry out the passes that are due within that virtual time; returns when each of them was."""
        assert self.timers is not None
        passes: list[float] = []
        for _ in range(seconds * 10):
            while self.queue.statistics.depth:
                assert len(passes) < limit, f"a loop of passes: {passes}"
                taken = await self.queue.get()
                passes.append(round(self.timers.now, 1))
                await self.worker.process(taken.key)
                self.queue.done(taken.key)
            self.timers.advance(0.1)
        return passes

    def _start(self) -> None:
        backoff = (
            Backoff(base=0.01, cap=DEFAULT_BACKOFF.cap, jitter=DEFAULT_BACKOFF.jitter)
            if self.timers is None
            else DEFAULT_BACKOFF
        )
        self.queue: WorkQueue[Key] = WorkQueue(self.timers, backoff=backoff)
        self.access = CacheAccess(self.cache, self._dispatch)
        self.admission = Admission(self.access, self.kube)
        guarded = self.kube.guarded(lambda: math.inf if self.leads else 0.0)
        self.executor = Executor(
            guarded,
            self.reconciler,
            field_manager="aim-serving",
            cache=self.access,
            admission=self.admission,
            events=EventWriter(guarded, "aim-serving"),
            clock=time.monotonic if self.timers is None else self.timers.time,
        )
        self.worker = Worker(
            self.reconciler,
            self.cache,
            self.queue,
            self.executor,
            effects=self,
            interceptors=(Records("serving", self.records.append), Looking(self.saw), WATCHED),
            now=lambda: self.clock,
            watchdog=self.watchdog,
        )

    def observed(self, effect: Effect) -> datetime | None:
        return self.results.get(effect.key)

    def submit(self, effect: Effect, owner: FactOwner) -> None:
        assert owner.part == "aimservices"
        self.effects.append(effect)

    def forget(self, owner_uid: str) -> None:
        self.forgotten.append(owner_uid)

    def _dispatch(self, changes: Sequence[Change[Any]]) -> None:
        router = ChangeRouter(self.cache, (), (self.worker.enqueuer,))
        for change in changes:
            router.route(change)

    async def create(self, part: Part[Any], body: JsonObject) -> JsonObject:
        """Create an object as a user, and let the cache see it."""
        created = await self.kube.create(part.kind, body, "user")
        self.access.absorb(part, created)
        return created

    async def see(self, part: Part[Any], name: str) -> JsonObject:
        """The cache catches up with an object of the namespace `default`."""
        live = await self.get(part.kind, name)
        self.access.absorb(part, live)
        return live

    async def get(self, kind: Kind[Any], name: str) -> JsonObject:
        return await self.kube.get(kind, name, "default")

    def target(self, name: str = "chat") -> Target:
        entry = self.cache.get(SERVICES, Key("default", name))
        assert entry is not None
        return Target(SERVICES, entry.raw, "00-11111111111111111111111111111111-2222222222222222-01")

    @property
    def idle(self) -> bool:
        """Whether no pass runs or waits."""
        now = self.queue.statistics
        return now.depth + now.processing == 0

    def stored_status(self) -> str:
        """The status value of the service as the cache knows it."""
        return str((self.target().raw.get("status") or {}).get("status") or "")

    @property
    def writes(self) -> list[tuple[str, str]]:
        """Method and last two path segments of every write so far, without Events."""
        tails = [(method, "/".join(path.split("/")[-2:])) for method, path in self.faults.seen]
        return [(method, tail) for method, tail in tails if not tail.endswith("events") and "/events" not in tail]


def service(name: str = "chat", **metadata: Any) -> JsonObject:
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMService",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"model": {"name": "qwen"}},
    }


def config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": "default", **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    faults = Faults()
    quick = TransportSettings(attempts=1)
    async with (
        ControlPlane(middleware=faults) as plane,
        KubeClient(Connection(plane.url, NoCredentials()), service="t", settings=quick) as kube,
    ):
        plane.install_crds(definitions())
        bench = Bench(kube, faults)
        await bench.create(SERVICES, service())
        faults.seen.clear()
        yield bench
