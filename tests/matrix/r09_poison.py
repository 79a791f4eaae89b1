"""Objects that cannot be served do not keep the others from being served, and are told of once."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import aiohttp
from matrix.api_proxy import Written
from matrix.case import Case, Outcome, Scenario
from matrix.site import CATALOGUE_IMAGE, NAMESPACE, OTHER_IMAGE, OWN, STEADY_SECONDS, Site, service

from aim_domain.services import SERVICES
from controller_runtime import BRIEFLY, JsonObject

_Poison: TypeAlias = Callable[[Site, random.Random], Awaitable[str]]
"""Brings the poison in; the name of the condition that has to tell of it, empty for none."""
_NAME: Final = "poison"
_LARGE: Final = 1_500_000
"""Bytes; etcd takes requests of up to 1.5 MiB, managed fields included."""
_MOST_TRIES: Final = 12
_MINUTE: Final = 60.0
_LEAST_SECONDS: Final = 10.0
"""So long it is watched after the others have come to rest, however slow they were."""
_SETTLED: Final = BRIEFLY.total_seconds() + 5.0
"""After which nothing waits for a time any more: a route whose backend does not come is told of once, then."""
_ELSEWHERE: Final = "matrix-ending"


async def _create(site: Site, **spec: object) -> None:
    collection = f"{OWN}/namespaces/{NAMESPACE}/aimservices"
    await site.api.created(collection, service(_NAME, NAMESPACE, **spec))


async def _bad_path(site: Site, _: random.Random) -> str:
    await _create(site, model={"image": CATALOGUE_IMAGE}, routing={"pathTemplate": "/{.metadata.labels['absent']}"})
    return "HTTPRouteReady"


async def _bad_config(site: Site, _: random.Random) -> str:
    await _create(site, model={"image": CATALOGUE_IMAGE}, runtimeConfigName="absent")
    return "RuntimeConfigReady"


async def _bad_image(site: Site, _: random.Random) -> str:
    # Its model outlives it and takes its name from the image; it is the poison's as well.
    await _create(site, model={"image": f"{_NAME} image"})
    return "ModelReady"


async def _large(site: Site, _: random.Random) -> str:
    await _create(site, model={"image": CATALOGUE_IMAGE}, env=[{"name": "LARGE", "value": "x" * _LARGE}])
    return ""


async def _unknown_fields(site: Site, _: random.Random) -> str:
    await _create(site, model={"image": CATALOGUE_IMAGE, "novelty": 1}, novelty={"a": [1]})
    return ""


async def _deleted_on_the_way(site: Site, chance: random.Random) -> str:
    at = chance.randint(1, 40)
    # With a cache of its own: a shared one would stay, and share what the other service has downloaded.
    await _create(site, model={"image": OTHER_IMAGE}, caching={"mode": "Dedicated"})
    await site.mirror.until(lambda: len(site.proxy.written) >= at, 10 * site.patience)
    await site.api.delete(site.service_path(_NAME))
    return ""


async def _ending_namespace(site: Site, chance: random.Random) -> str:
    """A namespace that goes away slowly, with a service in it that is not finished."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _ELSEWHERE}}
    await site.api.created("/api/v1/namespaces", body)
    held = {"name": "held", "namespace": _ELSEWHERE, "finalizers": ["example.com/held"]}
    path = f"/api/v1/namespaces/{_ELSEWHERE}/configmaps"
    await site.api.created(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    made = service(_NAME, _ELSEWHERE, model={"image": OTHER_IMAGE})
    at = chance.randint(1, 20)
    await site.api.created(f"{OWN}/namespaces/{_ELSEWHERE}/aimservices", made)
    await site.mirror.until(lambda: len(site.proxy.written) >= at, 10 * site.patience)
    await site.api.delete(f"/api/v1/namespaces/{_ELSEWHERE}")
    return ""


async def _release(site: Site) -> list[str]:
    """Let the namespace go; what stays in it."""
    path = f"/api/v1/namespaces/{_ELSEWHERE}"
    if (await site.api.get(path)).status == 404:
        return []
    await site.api.merge(f"{path}/configmaps/held", {"metadata": {"finalizers": None}})
    try:
        async with asyncio.timeout(30 * site.patience):
            await site.api.until_gone(path)
    except TimeoutError:
        return [f"{_ELSEWHERE} does not go: {[str(obj['metadata']['name']) for obj in site.mirror.within(_ELSEWHERE)]}"]
    return []


async def _poisoned(poison: _Poison, name: str, site: Site, chance: random.Random) -> Outcome:
    """Others run before it comes, so that what is tried is tried for the poison; then they are changed."""
    outcome = Outcome(Counter({name: 1}), len(site.expected))
    await site.tell()
    outcome.differences = await site.converged()
    site.proxy.written.clear()
    begun, before = time.monotonic(), await _retries(site)
    condition = await poison(site, chance)
    for replicas in (3, 2):
        await site.api.merge(site.service_path("own"), {"spec": {"replicas": replicas}})
        if not await site.mirror.until(partial(site.asked_for, "own", replicas), 20 * site.patience):
            outcome.differences.append(f"another service does not get its {replicas} replicas")
    outcome.differences += await site.converged(ignoring=_NAME)
    await asyncio.sleep(max(0.0, begun + _SETTLED - time.monotonic()))
    await site.mirror.quiet(STEADY_SECONDS, _LEAST_SECONDS)
    at_rest = len(site.proxy.written)
    await asyncio.sleep(max(_LEAST_SECONDS, begun + _MINUTE - time.monotonic()))
    retries = {service_name: count - before[service_name] for service_name, count in (await _retries(site)).items()}
    outcome.notes["tries in the first minute"] = max(tries(retries, site.proxy.written).values())
    outcome.differences += restless(retries, site.proxy.written, at_rest)
    if condition:
        outcome.differences += await _reported(site, condition)
    outcome.differences += await _release(site)
    return outcome


def tries(retries: Mapping[str, float], written: Sequence[Written]) -> dict[str, float]:
    """How often each service tried in vain: passes that were tried again, or writes that were refused. Pure."""
    refused = Counter(one.client for one in written if not one.is_lease and not 200 <= one.status < 300)
    return {name: max(count, refused[name]) for name, count in retries.items()}


def restless(retries: Mapping[str, float], written: Sequence[Written], at_rest: int) -> list[str]:
    """Who tries more often than it may, or writes when all is done, in words. Pure.

    Args:
        retries: by service, how many passes were tried again in the first minute.
        written: what was asked for in that minute.
        at_rest: how many of them came before there was nothing left to do.
    """
    found = [
        f"{name} tried {count:g} times in the first minute"
        for name, count in tries(retries, written).items()
        if count > _MOST_TRIES
    ]
    return found + [
        f"written at rest: {one}"
        for one in written[at_rest:]
        # What is refused is tried again with growing pauses (FW-810), and counted above.
        if one.client in retries and not one.is_lease and 200 <= one.status < 300
    ]


async def _retries(site: Site) -> dict[str, float]:
    """How often passes were tried again, by service."""
    found = {}
    async with aiohttp.ClientSession(trust_env=False) as session:
        for name in SERVICES:
            async with session.get(f"{site.stack[name].url}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            found[name] = sum(
                float(line.rpartition(" ")[2]) for line in lines if line.startswith("workqueue_retries_total")
            )
    return found


async def _reported(site: Site, condition: str) -> list[str]:
    """Whether the condition and one Event tell of the poison."""
    obj = (await site.api.get(site.service_path(_NAME))).body
    found: dict[str, JsonObject] = {one["type"]: one for one in (obj.get("status") or {}).get("conditions") or ()}
    reported = found.get(condition)
    if reported is None or reported["status"] == "True" or not reported.get("message"):
        return [f"{condition} tells nothing: {reported}; there are {sorted(found)}"]
    about = [
        one
        for one in (await site.api.get(f"/api/v1/namespaces/{NAMESPACE}/events")).body["items"]
        if (one["involvedObject"]["name"], one["type"], one["reason"]) == (_NAME, "Warning", reported["reason"])
    ]
    if sum(one.get("count", 1) for one in about) != 1:
        by = [(one["source"]["component"], one.get("count", 1), one["message"]) for one in about]
        return [f"not one warning with reason {reported['reason']}: {by}"]
    return []


def _cases() -> Sequence[Case]:
    poisons: dict[str, _Poison] = {
        "path": _bad_path,
        "config": _bad_config,
        "image": _bad_image,
        "large": _large,
        "unknown-fields": _unknown_fields,
        "deleted": _deleted_on_the_way,
        "ending-namespace": _ending_namespace,
    }
    return [Case("R9", name, partial(_poisoned, one, f"poison: {name}")) for name, one in poisons.items()]


SCENARIO: Final = Scenario("R9", "poison", "the others' final objects, condition, Event", _cases)
