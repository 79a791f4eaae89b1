"""From applying one AIMService until it runs, and what that costs in requests."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from bench.figures import Figure, median_of, quantile
from bench.ledger import COLD_PATH, PER_SERVICE, Cost, Ledger
from bench.site import WARM, Site, service_body
from bench.watcher import ProgressReports

from aim_domain import kinds
from aim_local.demo.summary import complaints
from controller_runtime import JsonObject, Key

WARM_UPS: Final = 3
ROUNDS: Final = 20
COLD_ROUNDS: Final = 3
_PATIENCE: Final = 60.0
_OVERLOOKED: Final = 330.0
"""The scheduler looks at a pod that it could not place again after five minutes, should it miss what changed."""


async def measure_cold(site: Site, *, gate: bool = False) -> list[Figure]:
    """By image, in a namespace where nothing exists; the last one leaves everything ready for the warm path.

    Args:
        gate: fail on counts; where a download takes time, its progress is told as well, which depends on that time.
    """
    subject = "cold path"
    spans, ledgers = [], []
    for name in (*(f"bench-cold-{number}" for number in range(COLD_ROUNDS - 1)), WARM):
        await site.namespace(name)
        await site.settled()
        await site.stack.cluster.reset_requests()
        spans.append(await _until_running(site, Key(name, "first")))
        await site.settled()
        ledgers.append(Ledger.of(await site.stack.cluster.requests()))
    return [
        median_of(subject, "apply → Running, download of 1.2 s in it", spans, "s"),
        *(_median_count(subject, cost, ledgers, gate=gate) for cost in Cost),
        *_by_service(subject, ledgers[-1:], 1),
    ]


def _median_count(subject: str, cost: Cost, ledgers: Sequence[Ledger], *, gate: bool) -> Figure:
    totals = [float(one.total(cost)) for one in ledgers]
    figure = median_of(subject, f"{cost.value} per service", totals, "", COLD_PATH.get(cost))
    return replace(figure, gate=gate and cost in COLD_PATH, detail=ledgers[-1].detail(cost))


async def measure_warm(site: Site) -> list[Figure]:
    """One after the other, while model, template and cache are ready; the services stay."""
    subject = "warm path"
    for number in range(WARM_UPS):
        await _until_running(site, Key(WARM, f"warm-up-{number}"))
    await site.settled()
    await site.stack.cluster.reset_requests()
    keys = [Key(WARM, f"warm-{number}") for number in range(ROUNDS)]
    spans = [1000 * await _until_running(site, key) for key in keys]
    await site.settled()
    ledger = Ledger.of(await site.stack.cluster.requests())
    return [
        Figure(subject, "apply → Running p50", quantile(spans, 0.5), "ms", low=min(spans), high=max(spans)),
        Figure(subject, "apply → Running p99", quantile(spans, 0.99), "ms"),
        *costs_per_service(subject, site.progress, keys, ledger),
        *_by_service(subject, [ledger], ROUNDS),
    ]


def costs_per_service(
    subject: str,
    progress: ProgressReports,
    keys: Sequence[Key],
    ledger: Ledger,
    beside: Mapping[Cost, int] = MappingProxyType({}),
) -> list[Figure]:
    """Requests per AIMService. What these report on their way is a matter of time, so it is counted by itself.

    Args:
        beside: what all of them share.
    """
    reports = progress.total(keys)
    return [
        *(
            Figure(
                subject,
                f"{cost.value} per service" + (", reports of progress apart" if cost is Cost.WRITE else ""),
                (ledger.total(cost) - (reports if cost is Cost.WRITE else 0)) / len(keys),
                goal=PER_SERVICE[cost] + math.ceil(beside.get(cost, 0) / len(keys)),
                gate=True,
                detail=ledger.detail(cost),
            )
            for cost in Cost
        ),
        Figure(subject, "reports of progress per service", reports / len(keys)),
        Figure(subject, "reports of progress, the most of one", progress.most(keys), goal=progress.STATES, gate=True),
    ]


async def _until_running(site: Site, key: Key) -> float:
    """Seconds from the intent to create it until a watcher saw it run."""
    begun = time.monotonic()
    await site.create(kinds.AIM_SERVICE, [service_body(key)])
    try:
        seen = await site.services.until_seen([key], _PATIENCE)
    except TimeoutError as error:
        pods = (await site.client.list(kinds.POD, key.namespace)).items
        said = "\n".join([str(error), complaints(site.services.present.get(key) or {}), *map(_said_of, pods)])
        if all((pod["spec"].get("nodeName")) for pod in pods):
            raise TimeoutError(said) from error
        print(said, file=sys.stderr)
        seen = await site.services.until_seen([key], _OVERLOOKED)
    return seen[key] - begun


def _said_of(pod: JsonObject) -> str:
    return f"  Pod {pod['metadata']['name']}: {(pod.get('status') or {}).get('phase', '')}\n{complaints(pod)}"


def _by_service(subject: str, ledgers: Sequence[Ledger], objects: int) -> list[Figure]:
    return [
        Figure(subject, f"  {cost.value} by {service}", ledger.of_service(service, cost) / objects)
        for ledger in ledgers
        for service in ledger.senders
        for cost in Cost
        if ledger.of_service(service, cost)
    ]
