"""Discovery on its own: what a model and a template cost, how long they take, and what many models weigh."""

import time
from pathlib import Path
from typing import Final

from bench.figures import Figure, quantile
from bench.ledger import Cost, Ledger
from bench.site import MANAGER, Site, site
from bench.usage import resident_mib
from bench.watcher import Accept, arrivals

from aim_domain import kinds, labels
from controller_runtime import JsonObject, Key

ROUNDS: Final = 20
FLIPS: Final = 10
_SUBJECT: Final = "catalogue"
_DUMMY: Final = "amdenterpriseai/aim-dummy:0.1.0"
"""An image with one recommended deployment."""
_SPARE: Final = "bench-spare"
_DEVICE: Final = "75a3"
_PATIENCE: Final = 120.0
_SERVICE: Final = "discovery"
_NEEDED: Final = (_SERVICE, "artifacts", "serving")
"""Discovery with those who publish what it reads."""
_GOALS: Final = {Cost.WRITE: 7, Cost.EVENT: 5, Cost.READ: 3}
"""Per model with one template that is discovered."""
_FLIP_GOAL: Final = 1000.0
"""Milliseconds until every template knows that its GPU is gone, or back."""
METADATA: Final = {
    "model": {
        "canonicalName": "Qwen/Qwen3-32B",
        "source": "https://huggingface.co/Qwen/Qwen3-32B",
        "tags": ["text-generation", "chat"],
        "title": "Qwen3 32B",
        "descriptionFull": "Qwen3 32B served with vLLM, tuned for AMD Instinct accelerators. " * 8,
        "recommendedDeployments": [
            {"gpuModel": "MI300X", "gpuCount": count, "metric": metric, "precision": "fp16", "profileId": f"p{count}"}
            for count in (1, 2)
            for metric in ("latency", "throughput")
        ],
    },
    "oci": {"title": "Qwen3 32B", "version": "0.8.5", "licenses": "Apache-2.0"},
}
"""What an image tells of its model: 1.7 KB of JSON, which the status repeats."""


async def measure_catalogue(place: Site) -> list[Figure]:
    """Models and templates on the running platform; nothing of them stays."""
    await place.namespace(_SUBJECT)
    figures = [*await _models(place), *await _templates(place), *await _flips(place)]
    for kind, name in ((kinds.NAMESPACE, _SUBJECT), (kinds.NODE, _SPARE)):
        found = await place.client.get(kind, name)
        await place.client.delete(kind, name, None, uid=found["metadata"]["uid"])
    await place.settled(_PATIENCE)
    return figures


async def measure_many_models(folder: Path, count: int) -> list[Figure]:
    """Memory of discovery with that many cluster models, which carry their metadata, and nothing else."""
    subject = f"catalogue, {count} models"
    async with site(folder, _NEEDED) as place:
        await place.settled()
        empty = resident_mib(place.stack, _SERVICE)
        keys = [Key("", f"m{number}") for number in range(count)]
        off = {"createServiceTemplates": False}
        bodies = [
            _model(key, image=f"example.com/team/m{number}:1", imageMetadata=METADATA, discovery=off)
            for number, key in enumerate(keys)
        ]
        begun = time.monotonic()
        async with arrivals(place.client, kinds.AIM_CLUSTER_MODEL, _has_status("Ready")) as ready:
            await place.create(kinds.AIM_CLUSTER_MODEL, bodies)
            seen = await ready.until_seen(keys, _PATIENCE + count / 20)
        full = resident_mib(place.stack, _SERVICE)
    return [
        Figure(subject, "memory of discovery, empty", empty, "MiB"),
        Figure(subject, "memory of discovery", full, "MiB"),
        Figure(subject, "per model", 1024 * (full - empty) / count, "KiB"),
        Figure(subject, "until all are Ready", max(seen.values()) - begun, "s"),
    ]


async def _models(place: Site) -> list[Figure]:
    """Models whose metadata is given, without templates: one evaluation each."""
    keys = [Key(_SUBJECT, f"given-{number}") for number in range(ROUNDS)]
    off = {"createServiceTemplates": False}
    bodies = [_model(key, image=_DUMMY, imageMetadata=METADATA, discovery=off) for key in keys]
    await _begin(place)
    async with arrivals(place.client, kinds.AIM_MODEL, _has_status("Ready")) as ready:
        await place.create(kinds.AIM_MODEL, bodies)
        await ready.until_seen(keys, _PATIENCE)
    return await _cost(place, "per model without templates", {Cost.WRITE: 1, Cost.EVENT: 1, Cost.READ: 0})


async def _templates(place: Site) -> list[Figure]:
    """Models of an image with one deployment, one after the other: inspection, template, Job, result."""
    await _begin(place)
    spans: list[float] = []
    async with arrivals(place.client, kinds.AIM_MODEL, _has_status("Ready")) as ready:
        for number in range(ROUNDS):
            key = Key(_SUBJECT, f"dummy-{number}")
            begun = time.monotonic()
            await place.create(kinds.AIM_MODEL, [_model(key, image=_DUMMY)])
            seen = await ready.until_seen([key], _PATIENCE)
            spans.append(1000 * (seen[key] - begun))
    return [
        Figure(_SUBJECT, "model → Ready templates p50", quantile(spans, 0.5), "ms", low=min(spans), high=max(spans)),
        Figure(_SUBJECT, "model → Ready templates p99", quantile(spans, 0.99), "ms"),
        *await _cost(place, "per model with one template", _GOALS),
    ]


async def _flips(place: Site) -> list[Figure]:
    """Twenty templates for a GPU that only one node has, whose label goes and comes back."""
    await place.client.apply(kinds.NODE, _node(present=True), MANAGER)
    keys = [Key(_SUBJECT, f"gpu-{number}") for number in range(ROUNDS)]
    async with arrivals(place.client, kinds.AIM_SERVICE_TEMPLATE, _has_status("Ready")) as ready:
        await place.create(kinds.AIM_SERVICE_TEMPLATE, [_template(key) for key in keys])
        await ready.until_seen(keys, _PATIENCE)
    spans: list[float] = []
    for number in range(FLIPS):
        present = number % 2 == 1
        wanted = _has_status("Ready" if present else "NotAvailable")
        async with arrivals(place.client, kinds.AIM_SERVICE_TEMPLATE, wanted) as flipped:
            begun = time.monotonic()
            await place.client.apply(kinds.NODE, _node(present=present), MANAGER)
            seen = await flipped.until_seen(keys, _PATIENCE)
        spans.append(1000 * (max(seen.values()) - begun))
    name = f"label of the last GPU node → {ROUNDS} templates"
    return [
        Figure(_SUBJECT, f"{name}, p50", quantile(spans, 0.5), "ms", _FLIP_GOAL, low=min(spans), high=max(spans)),
        Figure(_SUBJECT, f"{name}, worst", max(spans), "ms", _FLIP_GOAL),
    ]


async def _begin(place: Site) -> None:
    await place.settled()
    await place.stack.cluster.reset_requests()


async def _cost(place: Site, what: str, goals: dict[Cost, int]) -> list[Figure]:
    await place.settled()
    ledger = Ledger.of(await place.stack.cluster.requests())
    return [
        Figure(
            _SUBJECT,
            f"{cost.value} {what}",
            ledger.of_service(_SERVICE, cost) / ROUNDS,
            goal=goals[cost],
            gate=True,
            detail=ledger.detail(cost),
        )
        for cost in Cost
    ]


def _has_status(value: str) -> Accept:
    return lambda obj: (obj.get("status") or {}).get("status") == value


def _model(key: Key, **spec: object) -> JsonObject:
    kind = kinds.AIM_MODEL if key.namespace else kinds.AIM_CLUSTER_MODEL
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": _metadata(key), "spec": spec}


def _template(key: Key) -> JsonObject:
    kind = kinds.AIM_SERVICE_TEMPLATE
    spec = {
        "modelName": "given-0",
        "modelSources": [{"modelId": "a/b", "sourceUri": "hf://a/b"}],
        "hardware": {"gpu": {"requests": 1, "model": "MI355X"}},
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": _metadata(key), "spec": spec}


def _metadata(key: Key) -> JsonObject:
    return {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}


def _node(*, present: bool) -> JsonObject:
    own = {"kubernetes.io/hostname": _SPARE, **({labels.GPU_DEVICE_ID: _DEVICE} if present else {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": _SPARE, "labels": own}}
