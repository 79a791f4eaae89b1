"""A tenant's object that costs as much as it can: refused or not, the services go on for everybody else."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import aiohttp
from matrix.case import Case, Outcome, Scenario
from matrix.site import CATALOGUE_IMAGE, OWN, Site, service

from aim_domain.services import SERVICES
from controller_runtime import JsonObject

_Hostile: TypeAlias = Callable[[random.Random], Sequence[JsonObject]]
_ELSEWHERE: Final = "matrix-hostile"
_ANSWERS_WITHIN: Final = 5.0
"""Seconds in which every service has to answer its liveness probe."""
_CHANGES_WITHIN: Final = 20.0
_LOOKS: Final = 5


def _config(**spec: object) -> JsonObject:
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMRuntimeConfig",
        "metadata": {"name": "default", "namespace": _ELSEWHERE},
        "spec": spec,
    }


def _labelled(labels: dict[str, str], **spec: object) -> JsonObject:
    made = service("hostile", _ELSEWHERE, model={"image": CATALOGUE_IMAGE}, **spec)
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def _wildcards(chance: random.Random) -> Sequence[JsonObject]:
    pattern = "*a" * chance.randint(16, 40) + "b"
    return [_config(labelPropagation={"enabled": True, "match": [pattern]}), _labelled({"a" * 63: "x"})]


def _many_patterns(chance: random.Random) -> Sequence[JsonObject]:
    patterns = [f"p{number}.*/{'x' * chance.randint(1, 9)}" for number in range(20_000)]
    labels = {f"l{number}": "x" for number in range(10)}
    return [_config(labelPropagation={"enabled": True, "match": patterns}), _labelled(labels)]


def _spaces(chance: random.Random) -> Sequence[JsonObject]:
    return [_labelled({}, routing={"pathTemplate": "/x{.a[" + " " * chance.randint(40_000, 300_000) + "]}"})]


def _digits(chance: random.Random) -> Sequence[JsonObject]:
    return [_labelled({}, routing={"pathTemplate": "/x{.a[" + "9" * chance.randint(4_301, 60_000) + "]}"})]


def _config_spaces(chance: random.Random) -> Sequence[JsonObject]:
    template = "/x{.a[" + " " * chance.randint(40_000, 300_000) + "]}"
    return [_config(routing={"enabled": True, "pathTemplate": template})]


async def _attacked(hostile: _Hostile, name: str, site: Site, chance: random.Random) -> Outcome:
    outcome = Outcome(Counter({name: 1}), len(site.expected))
    await site.tell()
    outcome.differences = await site.converged()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _ELSEWHERE}}
    await site.api.created("/api/v1/namespaces", namespace)
    for body in hostile(chance):
        answer = await site.api.post(f"{OWN}/namespaces/{_ELSEWHERE}/{body['kind'].lower()}s", body)
        outcome.notes["refused"] = outcome.notes.get("refused", 0) + (answer.status != 201)
    for look in range(_LOOKS):
        outcome.differences += await _silent(site)
        replicas = 3 if look % 2 == 0 else 1
        begun = time.monotonic()
        await site.api.merge(site.service_path("own"), {"spec": {"replicas": replicas}})
        if not await site.mirror.until(partial(site.asked_for, "own", replicas), _CHANGES_WITHIN * site.patience):
            outcome.differences.append(f"another service does not get its {replicas} replicas")
            break
        outcome.notes["seconds to a change"] = max(
            outcome.notes.get("seconds to a change", 0), time.monotonic() - begun
        )
    await site.api.merge(site.service_path("own"), {"spec": {"replicas": 2}})
    await site.api.delete(f"/api/v1/namespaces/{_ELSEWHERE}")
    async with asyncio.timeout(60 * site.patience):
        await site.api.until_gone(f"/api/v1/namespaces/{_ELSEWHERE}")
    outcome.differences += await site.converged()
    return outcome


async def _silent(site: Site) -> list[str]:
    """Services that do not answer their liveness probe in time."""
    found = []
    timeout = aiohttp.ClientTimeout(total=_ANSWERS_WITHIN * site.patience)
    async with aiohttp.ClientSession(trust_env=False, timeout=timeout) as session:
        for name in SERVICES:
            try:
                async with session.get(f"{site.stack[name].url}/healthz") as answer:
                    found += [] if answer.status == 200 else [f"{name} is not healthy: {answer.status}"]
            except (aiohttp.ClientError, TimeoutError) as error:
                found.append(f"{name} does not answer: {type(error).__name__}")
    return found


def _cases() -> Sequence[Case]:
    hostile: dict[str, _Hostile] = {
        "wildcards": _wildcards,
        "patterns": _many_patterns,
        "spaces": _spaces,
        "digits": _digits,
        "config-spaces": _config_spaces,
    }
    return [Case("R14", name, partial(_attacked, one, f"hostile: {name}")) for name, one in hostile.items()]


SCENARIO: Final = Scenario("R14", "hostile objects", "probes, the others' changes, final objects", _cases)
