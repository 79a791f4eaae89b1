"""P3: AIMServices created, changed and deleted at a steady rate, whatever the answers, beside many that run."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from bench.figures import Figure, quantile
from bench.ledger import Cost, Ledger
from bench.site import MANAGER, WARM, Site, service_body
from bench.usage import read_cpu
from bench.watcher import Arrivals, arrivals, is_running

from aim_domain import kinds
from aim_domain.naming import inference_service_name
from aim_domain.services import SERVICES
from controller_runtime import JsonObject, Key

RATE: Final = 10.0
"""Creations, changes and deletions per second, a third each."""
_GOALS: Final = {0.5: 150.0, 0.99: 2000.0}
_PATIENCE: Final = 60.0
_AHEAD: Final = 90
"""How many of its own the loop keeps: what is changed or deleted is some ten seconds old."""
_SCALED: Final = 2


@dataclass(frozen=True, slots=True)
class _Watchers:
    """When what was asked for was seen, by watches of our own."""

    running: Arrivals
    workloads: Arrivals
    routes: Arrivals
    scaled: Arrivals
    observed: Arrivals


@dataclass(slots=True)
class _Spans:
    """Milliseconds from the intended moment, by operation; and what was not done within `_PATIENCE`."""

    created: list[float] = field(default_factory=list)
    changed: list[float] = field(default_factory=list)
    deleted: list[float] = field(default_factory=list)
    late: Counter[str] = field(default_factory=Counter)


async def measure_open_loop(site: Site, seconds: float) -> list[Figure]:
    """So many seconds at `RATE`; latency counts from the intended moment, so time in our own queue counts."""
    spans = _Spans()
    async with _watchers(site) as watchers:
        await site.settled(_PATIENCE)
        await site.stack.cluster.reset_requests()
        before = read_cpu(site.stack)
        await _run(site, watchers, spans, round(seconds * RATE))
        shares = read_cpu(site.stack).shares_since(before)
    ledger = Ledger.of(await site.stack.cluster.requests())
    subject, count = f"churn at {RATE:g}/s for {seconds:.0f} s", seconds * RATE
    return [
        *_figures(subject, "create → children and Running", spans.created, _GOALS),
        *_figures(subject, "change → InferenceService and status", spans.changed, _GOALS),
        *_figures(subject, "delete → gone", spans.deleted, {}),
        Figure(subject, f"not done after {_PATIENCE:g} s", spans.late.total(), goal=0, detail=spans.late),
        *(Figure(subject, f"{cost.value} per operation", ledger.total(cost) / count) for cost in Cost),
        *(Figure(subject, f"CPU of {name}", shares[name], "%") for name in (*SERVICES, "nats")),
    ]


def _figures(subject: str, name: str, spans: list[float], goals: dict[float, float]) -> Iterable[Figure]:
    for share in (0.5, 0.99, 1.0):
        title = "max" if share == 1 else f"p{share * 100:g}"
        yield Figure(subject, f"{name} {title}", quantile(spans, share), "ms", goals.get(share))


@asynccontextmanager
async def _watchers(site: Site) -> AsyncIterator[_Watchers]:
    client = site.client
    async with (
        arrivals(client, kinds.AIM_SERVICE, is_running) as running,
        arrivals(client, kinds.INFERENCE_SERVICE, lambda _: True) as workloads,
        arrivals(client, kinds.HTTP_ROUTE, lambda _: True) as routes,
        arrivals(client, kinds.INFERENCE_SERVICE, _is_scaled) as scaled,
        arrivals(client, kinds.AIM_SERVICE, _is_observed) as observed,
    ):
        yield _Watchers(running, workloads, routes, scaled, observed)


def _is_scaled(isvc: JsonObject) -> bool:
    return bool(isvc["spec"]["predictor"].get("minReplicas") == _SCALED)


def _is_observed(service: JsonObject) -> bool:
    """Whether the status speaks of the changed spec."""
    generation = service["metadata"]["generation"]
    return bool(generation > 1 and (service.get("status") or {}).get("observedGeneration") == generation)


async def _run(site: Site, watchers: _Watchers, spans: _Spans, count: int) -> None:
    begun, names, own = time.monotonic(), iter(range(count)), deque[Key]()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            due = begun + number / RATE
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if number % 3 == 0 or len(own) <= _AHEAD:
                key = Key(WARM, f"churn-{next(names)}")
                own.append(key)
                group.create_task(_counted(_create(site, watchers, key, due, spans.created), spans.late))
            elif number % 3 == 1:
                changed = own[len(own) // 2]
                group.create_task(_counted(_change(site, watchers, changed, due, spans.changed), spans.late))
            else:
                oldest = own.popleft()
                group.create_task(_counted(_delete(site, watchers, oldest, due, spans.deleted), spans.late))


async def _counted(operation: Awaitable[None], late: Counter[str]) -> None:
    """An operation that takes too long is a figure, not the end of all others."""
    try:
        await operation
    except TimeoutError as error:
        late[str(error)] += 1


async def _create(site: Site, watchers: _Watchers, key: Key, due: float, spans: list[float]) -> None:
    await site.client.create(kinds.AIM_SERVICE, service_body(key), MANAGER)
    at = (await watchers.running.until_seen([key], _PATIENCE))[key]
    child = _child(key)
    spans.append(1000 * (max(at, watchers.workloads.seen[child], watchers.routes.seen[child]) - due))


async def _change(site: Site, watchers: _Watchers, key: Key, due: float, spans: list[float]) -> None:
    child = _child(key)
    body = service_body(key)
    changed = {**body, "spec": {**body["spec"], "replicas": _SCALED}}
    await site.client.apply(kinds.AIM_SERVICE, changed, MANAGER)
    scaled = (await watchers.scaled.until_seen([child], _PATIENCE))[child]
    observed = (await watchers.observed.until_seen([key], _PATIENCE))[key]
    spans.append(1000 * (max(scaled, observed) - due))


async def _delete(site: Site, watchers: _Watchers, key: Key, due: float, spans: list[float]) -> None:
    uid = str(watchers.running.present[key]["metadata"]["uid"])
    await site.client.delete(kinds.AIM_SERVICE, key.name, key.namespace, uid=uid)
    await watchers.running.until_gone([key], _PATIENCE)
    spans.append(1000 * (time.monotonic() - due))


def _child(key: Key) -> Key:
    """The InferenceService of a service, and its route."""
    return Key(key.namespace, inference_service_name(key.name, key.namespace))
