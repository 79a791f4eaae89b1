"""One object of each kind of the platform, related to each other, in a cache for each of the five services."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any, Final

from support.builders import condition, make
from support.deciding import decide
from support.declarations import definitions

from aim_domain import kinds, labels
from controller_runtime import JsonObject, Key, Plan, Reconciler
from controller_runtime.log.wire.version import Entry
from controller_runtime.testing import NOW, BuiltCache, cache_of

TEAM: Final = "team"
IMAGE: Final = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
SERVICES: Final = definitions()
_READY: Final = {"status": "Ready", "conditions": [condition("Ready", True, "AllComponentsReady")]}
_SOURCE: Final = {"modelId": "Qwen/Qwen3-32B", "sourceUri": "hf://Qwen/Qwen3-32B"}
_GPU: Final = {"gpu": {"requests": 1, "model": "MI300X"}}
_VRAM: Final = {"gpu": {"requests": 1, "minVram": "64Gi"}}
_FOUND: Final = {
    **_READY,
    "profile": {
        "metadata": {"type": "optimized", "metric": "latency", "precision": "fp8", "gpu": "MI300X", "gpuCount": 1}
    },
    "resolvedHardware": _GPU,
    "modelSources": [_SOURCE],
}


_PROFILE: Final = {
    "aimId": "qwen/qwen3",
    "modelId": "Qwen/Qwen3-32B",
    "image": IMAGE,
    "engine": "vllm",
    "metric": "latency",
    "precision": "fp8",
    "type": "optimized",
    "acceleratorType": "gpu",
    "acceleratorModel": "MI300X",
    "acceleratorCount": 1,
    "acceleratorPartitioningMode": "unpartitioned",
    "modelSources": [_SOURCE],
}
_PROFILED: Final = {**_READY, "deployable": True, "origin": "user-authored", "version": "0.8.5"}
_COPYABLE: Final = {labels.ANNOTATION_COPYABLE: labels.TRUE}
_DERIVED: Final = {"selector": {"aimId": "qwen/qwen3"}, "versionPolicy": "latest"}


def objects() -> dict[str, JsonObject]:
    """By kind; new ones with every call."""
    team: dict[str, Any] = {"namespace": TEAM}
    every = (
        make(kinds.AIM_CLUSTER_MODEL_SOURCE, "catalog", spec={"filters": [{"image": "org/a"}]}),
        make(kinds.AIM_CLUSTER_MODEL, "qwen-cluster", spec={"image": IMAGE}, status=_READY),
        make(kinds.AIM_MODEL, "qwen", **team, spec={"image": IMAGE}, status=_READY),
        make(kinds.AIM_SERVICE_TEMPLATE, "lat", **team, spec={"modelName": "qwen", "hardware": _VRAM}, status=_FOUND),
        make(kinds.AIM_CLUSTER_SERVICE_TEMPLATE, "lat-cluster", spec={"modelName": "qwen-cluster"}, status=_FOUND),
        make(kinds.AIM_TEMPLATE_CACHE, "lat", **team, finalizers=[labels.FINALIZER_TEMPLATE_CACHE],
             spec={"templateName": "lat", "templateScope": "Namespace", "mode": "Shared"}),
        make(kinds.AIM_ARTIFACT, "qwen", **team, spec={"sourceUri": "hf://Qwen/Qwen3-32B", "size": "1Gi"}),
        make(kinds.AIM_SERVICE, "chat", **team, finalizers=[labels.FINALIZER_SERVICE],
             spec={"model": {"name": "qwen"}, "template": {"name": "lat"}, "replicas": 1}),
        make(kinds.AIM_PROFILE, "fast", **team, spec=_PROFILE, annotations=_COPYABLE, status=_PROFILED),
        make(kinds.AIM_CLUSTER_PROFILE, "fast-cluster", spec=_PROFILE, annotations=_COPYABLE, status=_PROFILED),
        make(kinds.AIM_PROFILE_SET, "tuned", **team, spec=_DERIVED),
        make(kinds.AIM_CLUSTER_PROFILE_SET, "tuned-cluster", spec=_DERIVED),
        make(kinds.AIM_PROFILE_CACHE, "fast", **team, finalizers=[labels.FINALIZER_PROFILE_CACHE],
             spec={"profileName": "fast", "profileScope": "Namespace", "mode": "Shared"}),
        make(kinds.AIM_RUNTIME_CONFIG, "default", **team,
             spec={"routing": {"enabled": True, "gatewayRef": {"name": "gateway", "namespace": "gateways"}}}),
        make(kinds.AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"defaultStorageClassName": "fast"}),
    )  # fmt: skip
    return {str(one["kind"]): one for one in every}


def variants() -> dict[str, JsonObject]:
    """What `objects` has, and the other ways to write a service and a model; new ones with every call."""
    known = objects()
    service, model = known["AIMService"], known["AIMModel"]
    custom = {"baseImage": IMAGE, "modelSources": [_SOURCE], "hardware": _VRAM}
    template = {"name": "own", "hardware": _VRAM}
    return known | {
        "AIMService by image": service | {"spec": {"model": {"image": IMAGE}, "replicas": 1}},
        "AIMService of its own": service | {"spec": {"model": {"custom": custom}}},
        "AIMModel of its own": model
        | {"spec": {"image": IMAGE, "modelSources": [_SOURCE], "custom": {}, "customTemplates": [template]}},
    }


_VERSIONS: Final = count(1 << 40)
_SURROUNDINGS: Final = (
    make(kinds.NODE, "gpu-1", labels={labels.GPU_DEVICE_ID: "74a1"}),
    make(kinds.NAMESPACE, TEAM),
)


@dataclass(frozen=True)
class Pass:
    """What a reconciler decided about an object."""

    controller: str
    about: str
    plan: Plan


def passes_after(old: JsonObject, new: JsonObject) -> Iterator[Pass]:
    """A pass of every object, in all services, after a change of one of them."""
    for service in SERVICES:
        cache = _cache(service.name)
        part = next((part for part in service.consumes if part.kind.kind == new["kind"]), None)
        if part is None:
            continue
        changed = [(part, old)]
        about = Key(new["metadata"].get("namespace") or "", new["metadata"]["name"])
        cache.put(part, _another_version(new))
        for reconciler in service.reconcilers:
            for entry in sorted(cache.cache.all(reconciler.part), key=lambda one: one.key):
                changed.append((reconciler.part, old if entry.key == about and reconciler.part is part else entry.raw))
                yield from _passes(reconciler, cache, entry)
        for touched, before in changed:
            cache.put(touched, _another_version(before))


def own_passes(old: JsonObject, new: JsonObject) -> list[Pass]:
    """The first pass of the changed object itself; first in the service that writes its status, then in others."""
    metadata = new["metadata"]
    about = Key(metadata.get("namespace") or "", metadata["name"])
    mine = [
        (service.name, one) for service in SERVICES for one in service.reconcilers if one.part.kind.kind == new["kind"]
    ]
    passes: list[Pass] = []
    for service, reconciler in sorted(mine, key=lambda one: bool(one[1].status.only_conditions)):
        cache = _cache(service)
        cache.put(reconciler.part, _another_version(new))
        plan = decide(reconciler, cache.object(reconciler.part, about.namespace, about.name), cache.view(), NOW)
        cache.put(reconciler.part, _another_version(old))
        passes.append(Pass(reconciler.controller, str(about), plan))
    return passes


def stumbles_over(every: Sequence[JsonObject]) -> Iterator[tuple[int, str]]:
    """Of other contents of one object of `variants`: which, and the service with an index, a summary or a line that can
    make nothing of it.
    """
    metadata = every[0]["metadata"]
    key = Key(metadata.get("namespace") or "", metadata["name"])
    for service in SERVICES:
        cache = _cache(service.name)
        for part in service.consumes:
            if part.kind.kind != every[0]["kind"]:
                continue
            usual = cache.stored[part, key]
            for number, obj in enumerate(every):
                before = cache.cache.failures(part)
                cache.put(part, _another_version(obj))
                if cache.cache.failures(part) != before:
                    yield number, f"{service.name}: {part}"
                    cache.put(part, _another_version(usual))
            cache.put(part, _another_version(usual))


def _another_version(obj: JsonObject) -> JsonObject:
    """What was told of a version is not told of it again."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(next(_VERSIONS))}}


@functools.cache
def _cache(name: str) -> BuiltCache:
    """The cache of a service, made once: a test that changes it puts back what was there."""
    service = next(one for one in SERVICES if one.name == name)
    known = {(part.kind.api_version, part.kind.kind) for part in service.consumes}
    every = [*_SURROUNDINGS, *objects().values()]
    consumed = (one for one in every if (one["apiVersion"], one["kind"]) in known)
    return cache_of(service.consumes, *consumed, indexes=service.indexes)


def _passes(reconciler: Reconciler[Any], cache: BuiltCache, entry: Entry[Any]) -> Iterator[Pass]:
    """The first pass, and the one that sees its status stored, half a minute later."""
    raw = entry.raw
    for moment in (NOW, NOW + timedelta(seconds=30)):
        obj = reconciler.part.model.model_validate(raw)
        plan = decide(reconciler, obj, cache.view(), moment)
        yield Pass(reconciler.controller, str(entry.key), plan)
        if plan.status is None:
            return
        raw = {**raw, "status": {**(raw.get("status") or {}), **plan.status}}
        cache.put(reconciler.part, raw)
