"""N AIMServices at once, until all run; and the same children written by hand, as the floor."""

import asyncio
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.figures import Figure, median_of, quantile
from bench.latency import costs_per_service
from bench.ledger import Cost, Ledger
from bench.site import IMAGE, WARM, Site, service_body, site
from bench.surroundings import Surroundings
from bench.usage import read_cpu
from bench.watcher import arrivals, has_condition, route_accepted

from aim_domain import kinds
from controller_runtime import JsonObject, Key
from controller_runtime.kind_names import KindName

RATIO_GOAL: Final = 2.0
"""P2: at most twice as long as a bare writer of the same children."""
_CACHE: Final = {Cost.WRITE: 20, Cost.EVENT: 5, Cost.READ: 5}
"""What cache, artifact, volume and download cost at most, which all services of a burst share."""
_PATIENCE: Final = 120.0
_WARM_UP: Final = 20
_SINGLES: Final = 10
_SERVER_SET: Final = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences", "finalizers"}
)


@dataclass(frozen=True, slots=True)
class Effort:
    """What it took until N objects were as wished: seconds, and processor seconds of all processes together."""

    seconds: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Children:
    """What the platform writes for one AIMService, without what ties it to that one."""

    inference_service: JsonObject
    route: JsonObject


async def measure_convergence(
    site: Site, sizes: tuple[int, ...], *, cold: bool = False
) -> tuple[list[Figure], Mapping[int, Effort]]:
    """Each size on its own; those of the last stay. Also what each took.

    ``cold``: in namespaces where model and template are ready and the cache is not.
    """
    figures: list[Figure] = []
    efforts: dict[int, Effort] = {}
    for size in sizes:
        namespace = await _with_model(site, f"bench-n{size}") if cold else WARM
        keys = [Key(namespace, f"n{size}-{number}") for number in range(size)]
        found, efforts[size] = await _converge(site, keys, _CACHE if cold else {})
        figures += found
        if size != sizes[-1]:
            await site.delete_services(keys, _PATIENCE)
            await site.settled()
    return figures, efforts


async def _with_model(site: Site, namespace: str) -> str:
    """A new namespace, in which the model and its template are ready."""
    await site.namespace(namespace)
    model = {
        "apiVersion": kinds.AIM_MODEL.api_version,
        "kind": kinds.AIM_MODEL.kind,
        "metadata": {"name": "model", "namespace": namespace},
        "spec": {"image": IMAGE},
    }
    async with arrivals(site.client, kinds.AIM_MODEL, _is_ready) as models:
        await site.create(kinds.AIM_MODEL, [model])
        await models.until_seen([Key(namespace, "model")], _PATIENCE)
    await site.settled()
    return namespace


def _is_ready(model: JsonObject) -> bool:
    return bool((model.get("status") or {}).get("status") == "Ready")


async def _converge(site: Site, keys: list[Key], beside: Mapping[Cost, int]) -> tuple[list[Figure], Effort]:
    size, subject = len(keys), f"converge {len(keys)}"
    await site.stack.cluster.reset_requests()
    before = read_cpu(site.stack)
    begun = time.monotonic()
    await site.create(kinds.AIM_SERVICE, map(service_body, keys))
    seen = await site.services.until_seen(keys, _PATIENCE)
    spans = [at - begun for at in seen.values()]
    after = read_cpu(site.stack)
    used = after.since(before)
    await site.settled()
    ledger = Ledger.of(await site.stack.cluster.requests())
    figures = [
        Figure(subject, "until all run", max(spans), "s"),
        Figure(subject, "until one runs p50", quantile(spans, 0.5), "s"),
        Figure(subject, "machine used by strangers meanwhile", after.strangers_since(before), "%"),
        *costs_per_service(subject, site.progress, keys, ledger, beside),
        *(
            Figure(subject, f"  CPU per service: {name}", 1000 * spent / size, "ms")
            for name, spent in sorted(used.items(), key=lambda item: -item[1])
            if 1000 * spent / size >= 0.5
        ),
    ]
    return figures, Effort(max(spans), sum(used.values()))


async def children_of(site: Site, key: Key) -> Children:
    """What was written for an AIMService that runs.

    Raises:
        LookupError: it has no InferenceService or no HTTPRoute.
    """
    uid = str(site.services.present[key]["metadata"]["uid"])
    isvc = await _child(site, kinds.INFERENCE_SERVICE, key, uid)
    return Children(_without_claims(isvc), await _child(site, kinds.HTTP_ROUTE, key, uid))


def _without_claims(isvc: JsonObject) -> JsonObject:
    """Without the volumes of weights, which nobody makes where nothing but the children is written."""
    predictor = isvc["spec"]["predictor"]
    claimed = {one["name"] for one in predictor.get("volumes") or () if "persistentVolumeClaim" in one}
    volumes = [one for one in predictor.get("volumes") or () if one["name"] not in claimed]
    containers = [
        {**one, "volumeMounts": [mount for mount in one.get("volumeMounts") or () if mount["name"] not in claimed]}
        for one in predictor["containers"]
    ]
    return {**isvc, "spec": {**isvc["spec"], "predictor": {**predictor, "volumes": volumes, "containers": containers}}}


async def _child(site: Site, kind: KindName, key: Key, owner: str) -> JsonObject:
    page = await site.client.list(kind, key.namespace)
    for item in page.items:
        if any(one["uid"] == owner for one in item["metadata"].get("ownerReferences") or ()):
            metadata = {name: value for name, value in item["metadata"].items() if name not in _SERVER_SET}
            kept = {name: value for name, value in item.items() if name != "status"}
            return {**kept, "apiVersion": f"{kind.group}/{kind.version}", "kind": kind.kind, "metadata": metadata}
    raise LookupError(f"AIMService {key} owns no {kind.kind}")


async def measure_bare(
    folder: Path, children: Children, ours: Mapping[int, Effort], surroundings: Surroundings
) -> list[Figure]:
    """The same children by hand, on a stack without the five services; how much more ours took."""
    figures: list[Figure] = []
    async with site(folder, services=(), surroundings=surroundings) as bare:
        await bare.namespace(WARM)
        await _write_bare(bare, children, "w", _WARM_UP)
        single = [(await _write_bare(bare, children, f"one-{number}", 1)).seconds for number in range(_SINGLES)]
        figures.append(median_of("bare writer 1", "until ready", [1000 * one for one in single], "ms"))
        for size, effort in ours.items():
            figures += _compared(f"bare writer {size}", effort, await _write_bare(bare, children, f"n{size}", size))
    return figures


def _compared(subject: str, ours: Effort, floor: Effort) -> list[Figure]:
    return [
        Figure(subject, "until all are ready", floor.seconds, "s"),
        Figure(subject, "ours ÷ bare, time", ours.seconds / floor.seconds, "×", RATIO_GOAL),
        Figure(subject, "ours ÷ bare, processor time", ours.cpu / floor.cpu, "×"),
    ]


async def _write_bare(bare: Site, children: Children, prefix: str, size: int) -> Effort:
    keys = [Key(WARM, f"{prefix}-{number}") for number in range(size)]
    async with (
        arrivals(bare.client, kinds.INFERENCE_SERVICE, has_condition("Ready")) as served,
        arrivals(bare.client, kinds.HTTP_ROUTE, route_accepted) as routed,
    ):
        before = read_cpu(bare.stack)
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for key in keys:
                group.create_task(bare.create(kinds.INFERENCE_SERVICE, [_named(children.inference_service, key)]))
                group.create_task(bare.create(kinds.HTTP_ROUTE, [_named(children.route, key)]))
        ready = await served.until_seen(keys, _PATIENCE)
        accepted = await routed.until_seen(keys, _PATIENCE)
        used = sum(read_cpu(bare.stack).since(before).values())
        return Effort(max(*ready.values(), *accepted.values()) - begun, used)


def _named(body: JsonObject, key: Key) -> JsonObject:
    named = deepcopy(body)
    named["metadata"] |= {"name": key.name, "namespace": key.namespace}
    return named
