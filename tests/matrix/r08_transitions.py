"""An AIMService goes from one spec to another and back: what it has then is what it had before."""

import asyncio
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from matrix.case import Case, Outcome, Scenario
from matrix.oracle import ObjectKey, differences, normalised
from matrix.site import CATALOGUE_IMAGE, NAMESPACE, OWN, Site, service

from controller_runtime import JsonObject

_METRIC: Final[JsonObject] = {
    "type": "PodMetric",
    "podmetric": {
        "metric": {"backend": "opentelemetry", "metricNames": ["vllm:x"], "query": "vllm:x"},
        "target": {"type": "Value", "value": "1"},
    },
}
SPECS: Final[Sequence[JsonObject]] = (
    {},
    {"replicas": 2},
    {"replicas": 3, "env": [{"name": "A", "value": "1"}]},
    {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
    {"env": [{"name": "HF_TOKEN", "value": "token"}]},
    {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}},
    {"resources": {"limits": {"amd.com/gpu": "2"}, "requests": {"amd.com/gpu": "2"}}},
    {"minReplicas": 1, "maxReplicas": 3},
    {"minReplicas": 2, "maxReplicas": 4, "autoScaling": {"metrics": [_METRIC]}},
    {"minReplicas": 1, "maxReplicas": 2, "autoScaling": {"metrics": [_METRIC]}},
    {"routing": {"enabled": False}},
    {"routing": {"pathTemplate": "/other/{.metadata.name}"}},
    {"routing": {"requestTimeout": "30s", "annotations": {"example.com/a": "1"}}},
    {"routing": {"gatewayRef": {"name": "absent", "namespace": "gateways"}}},
    {"storage": {"pvcHeadroomPercent": 20}},
    {"imagePullSecrets": [{"name": "registry"}]},
    {"serviceAccountName": "server"},
    {"priorityClassName": "high"},
    {"replicas": 2, "routing": {"requestTimeout": "1m"}, "priorityClassName": "low"},
    {"minReplicas": 2, "maxReplicas": 2, "serviceAccountName": "other", "env": [{"name": "A", "value": "2"}]},
)
"""Specs that differ in what may be changed."""
BROKEN: Final[Sequence[JsonObject]] = (
    {"routing": {"pathTemplate": "/{.metadata.labels['absent']}"}},
    {"runtimeConfigName": "absent", "replicas": 2},
)
"""Specs that an error keeps from being carried out: only on the way, because what is there stays as it was."""
_EVERY: Final = (*SPECS, *BROKEN)
_STEPS: Final = 2
"""Pairs that one case takes each of its services through."""
_PATIENCE: Final = 40.0
_START: Final = 15.0
_HASTE: Final = 0.2
"""Share of changes that are taken back without waiting for their effect."""


def _name(number: int) -> str:
    return f"s{number:02}"


def _belongings(objects: Iterable[JsonObject]) -> dict[str, dict[ObjectKey, JsonObject]]:
    """By AIMService: itself and its children, without what others make of them."""
    found: dict[str, list[JsonObject]] = {}
    for obj in objects:
        owners = [one["name"] for one in obj["metadata"].get("ownerReferences") or () if one["kind"] == "AIMService"]
        if obj["kind"] == "AIMService":
            found.setdefault(obj["metadata"]["name"], []).append(obj)
        elif owners:
            found.setdefault(owners[0], []).append({name: value for name, value in obj.items() if name != "status"})
    return {name: normalised(some) for name, some in found.items()}


def _settled(objects: Mapping[ObjectKey, JsonObject]) -> bool:
    """Whether each AIMService's status is about its present spec."""
    services = [obj for key, obj in objects.items() if key.kind == "AIMService" and key.namespace == NAMESPACE]
    return len(services) == len(SPECS) and all(map(_is_settled, services))


def _is_settled(obj: JsonObject) -> bool:
    observed = (obj.get("status") or {}).get("observedGeneration")
    return bool(observed == obj["metadata"]["generation"])


def _is_running(obj: JsonObject) -> bool:
    return obj["kind"] != "AIMService" or (obj.get("status") or {}).get("status") == "Running"


async def _change(site: Site, specs: Mapping[int, JsonObject]) -> None:
    async with asyncio.TaskGroup() as group:
        for number, spec in specs.items():
            group.create_task(_set(site, site.service_path(_name(number)), spec))


async def _set(site: Site, path: str, spec: JsonObject) -> None:
    """Replace the whole spec, whoever writes at the same time."""
    while True:
        present = (await site.api.get(path)).body
        wanted = {**present, "spec": {"model": present["spec"]["model"], **spec}}
        reply = await site.api.put(path, wanted)
        if reply.status != 409:
            assert reply.status == 200, reply.body
            return


async def _until_settled(site: Site) -> None:
    await site.mirror.until(lambda: _settled(site.mirror.objects), _PATIENCE * site.patience)
    await site.mirror.quiet(0.5, 10)


async def _transitions(first: int, site: Site, chance: random.Random) -> Outcome:
    """Every spec, and back from each of several others."""
    outcome = Outcome()
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await site.api.created("/api/v1/namespaces", body)
    collection = f"{OWN}/namespaces/{NAMESPACE}/aimservices"
    for number, spec in enumerate(SPECS):
        made = service(_name(number), NAMESPACE, model={"image": CATALOGUE_IMAGE}, **spec)
        await site.api.created(collection, made)
    await _until_settled(site)
    # Most run in the end, on a busy machine after a silence; those whose spec keeps them from it cost this time.
    await site.mirror.until(lambda: all(map(_is_running, site.mirror.within(NAMESPACE))), _START * site.patience)
    await site.mirror.quiet(3.0, 40 * site.patience)
    before = _belongings(site.mirror.within(NAMESPACE))
    for step in range(first, min(first + _STEPS, len(_EVERY))):
        others = {number: _EVERY[(number + step) % len(_EVERY)] for number in range(len(SPECS))}
        await _change(site, others)
        if chance.random() > _HASTE:
            await _until_settled(site)
        await _change(site, dict(enumerate(SPECS)))
        outcome.injected["A→B→A"] += len(SPECS)
        outcome.compared += sum(map(len, before.values()))
        outcome.differences += [f"after step {step}: {text}" for text in await _restored(site, before)]
    return outcome


async def _restored(site: Site, before: Mapping[str, Mapping[ObjectKey, JsonObject]]) -> list[str]:
    """In what the services differ from what they had before, once they have stopped changing."""

    def different() -> list[str]:
        after = _belongings(site.mirror.within(NAMESPACE))
        return [text for name, wanted in before.items() for text in differences(wanted, after.get(name, {}))]

    deadline = time.monotonic() + _PATIENCE * site.patience
    while (left := deadline - time.monotonic()) > 0:
        await site.mirror.until(lambda: _settled(site.mirror.objects) and not different(), left)
        await site.mirror.quiet(0.5, 5)
        if not different():
            return []
    return different()


def _cases() -> Sequence[Case]:
    return [Case("R8", f"from-{first}", partial(_transitions, first)) for first in range(1, len(_EVERY), _STEPS)]


SCENARIO: Final = Scenario("R8", "transitions A→B→A", "children and status of the second A", _cases)
