"""The API server refuses, breaks off, falls silent and forgets."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from matrix.case import Case, Outcome, Scenario
from matrix.site import NAMESPACE, Site

from aim_domain import labels
from embedded_apiserver.faults import Fault, FaultRule, Latency, Phase, Refusal, Reset, Silence

_WRITES: Final = frozenset({"write"})
_WATCHES: Final = frozenset({"watch"})
_READS: Final = frozenset({"get", "list"})
_TIMES: Final = 40
_HALF_OPEN: Final = 700.0
"""Seconds that a run must have for it: a watch that fell silent is noticed when its time is over, within 315 s."""
_PAGES: Final = 3
_PAGE: Final = 500

_REQUESTS: Final[dict[str, tuple[frozenset[str], Fault]]] = {
    "conflict": (_WRITES, Refusal(code=409)),
    "throttled": (_WRITES | _READS, Refusal(code=429, retry_after_seconds=1)),
    "error": (_WRITES | _READS, Refusal(code=500)),
    "error-after": (_WRITES, Refusal(code=500, phase=Phase.AFTER)),
    "timeout-after": (_WRITES, Refusal(code=504, phase=Phase.AFTER)),
    "reset": (_WRITES | _READS, Reset()),
    "reset-after": (_WRITES, Reset(phase=Phase.AFTER)),
    "slow": (_WRITES | _READS, Latency(seconds=0.05, jitter_seconds=1.0)),
    "gone": (_WATCHES, Refusal(code=410)),
    "broken-watch": (_WATCHES, Reset(chunks=4)),
}


async def _requests(name: str, site: Site, chance: random.Random) -> Outcome:
    verbs, fault = _REQUESTS[name]
    rule = FaultRule(verbs=verbs, probability=chance.uniform(0.2, 0.5), times=_TIMES, fault=fault)
    site.proxy.add(rule)
    site.proxy.cut_watches()
    await site.tell()
    differences = await site.converged(90)
    return Outcome(Counter({name: site.heal()}), len(site.expected), differences)


async def _half_open(site: Site, chance: random.Random) -> Outcome:
    """Every watch falls silent after some events, once: one that falls silent again takes another five minutes."""
    count = site.proxy.cut_watches()
    site.proxy.add(FaultRule(verbs=_WATCHES, times=count, fault=Silence(chunks=chance.randint(1, 5))))
    await site.tell()
    differences = await site.converged(360)
    return Outcome(Counter({"half-open watch": site.heal()}), len(site.expected), differences)


async def _expired_pages(site: Site, _: random.Random) -> Outcome:
    """A list of several pages whose continue token is refused, while a service starts."""
    await site.tell()
    label = {labels.COMPONENT: labels.COMPONENT_CUSTOM_PROFILE}
    limit = asyncio.Semaphore(16)

    async def make(number: int) -> None:
        async with limit:
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"page-{number}", "namespace": NAMESPACE, "labels": label},
            }
            await site.api.created(f"/api/v1/namespaces/{NAMESPACE}/configmaps", body)

    async with asyncio.TaskGroup() as group:
        for number in range(_PAGES * _PAGE - 1):
            group.create_task(make(number))
    expired = site.proxy.expire_pages(5)
    await site.stack["discovery"].kill()
    await site.stack["discovery"].start()
    await site.api.delete(f"/api/v1/namespaces/{NAMESPACE}/configmaps")
    differences = await site.converged(90)
    return Outcome(Counter({"expired continue token": 5 - expired.left}), len(site.expected), differences)


def _cases() -> Sequence[Case]:
    requests = [Case("R7", name, partial(_requests, name)) for name in _REQUESTS]
    return [
        *requests,
        Case("R7", "expired-pages", _expired_pages),
        Case("R7", "half-open-watch", _half_open, needs=_HALF_OPEN),
    ]


SCENARIO: Final = Scenario("R7", "API server faults", "final objects, orphans", _cases, on_real=True)
