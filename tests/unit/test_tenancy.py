"""Namespaces keep to themselves: what happens in one changes nothing in another (framework.md, section 22)."""

from typing import Any

import pytest
from support.builders import make
from support.deciding import decide
from support.whole_platform import SERVICES, TEAM, variants

from aim_domain import labels
from controller_runtime import JsonObject, Key, Reconciler, ServiceDefinition
from controller_runtime.kinds import NAMESPACE, NODE
from controller_runtime.reconcile.record import plan_to_json
from controller_runtime.testing import NOW, BuiltCache, cache_of

ELSEWHERE = "elsewhere"
AROUND = (
    make(NODE, "gpu-1", labels={labels.GPU_DEVICE_ID: "74a1"}),
    make(NAMESPACE, TEAM),
    make(NAMESPACE, ELSEWHERE),
)
NAMESPACED = {name: obj for name, obj in variants().items() if obj["metadata"].get("namespace")}
READERS = {
    f"{name} by {service.name}": (service, one, obj)
    for name, obj in NAMESPACED.items()
    for service in SERVICES
    for one in service.reconcilers
    if one.part.kind.kind == obj["kind"]
}


def elsewhere(obj: JsonObject) -> JsonObject:
    """The same object in another namespace, ready and usable."""
    metadata = {**obj["metadata"], "namespace": ELSEWHERE, "uid": f"{obj['metadata']['uid']}-elsewhere"}
    ready = {"status": "Ready", **(obj.get("status") or {})}
    return {**obj, "metadata": metadata, **({} if obj["kind"] == "AIMService" else {"status": ready})}


def cache(service: ServiceDefinition, *objects: JsonObject) -> BuiltCache:
    consumed = {(part.kind.api_version, part.kind.kind) for part in service.consumes}
    known = (obj for obj in (*AROUND, *objects) if (obj["apiVersion"], obj["kind"]) in consumed)
    return cache_of(service.consumes, *known, indexes=service.indexes)


def plan(service: ServiceDefinition, one: Reconciler[Any], about: JsonObject, *others: JsonObject) -> JsonObject:
    """What a pass of that object decides among others."""
    built = cache(service, about, *others)
    entry = built.cache.get(one.part, Key(TEAM, about["metadata"]["name"]))
    assert entry is not None
    assert entry.object is not None
    return plan_to_json(decide(one, entry.object, built.view(), NOW))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "with its own"])
@pytest.mark.spec("FW-362", "FW-363")
def test_another_namespace_makes_no_difference(reader: str, alone: bool) -> None:
    """Neither beside what the namespace has itself, nor in the place of what it lacks."""
    service, one, about = READERS[reader]
    own = [obj for name, obj in variants().items() if name == obj["kind"] and obj["kind"] != about["kind"]]
    mine = [obj for obj in own if not (alone and obj["metadata"].get("namespace"))]
    theirs = [elsewhere(obj) for name, obj in NAMESPACED.items() if name == obj["kind"]]
    assert plan(service, one, about, *mine, *theirs) == plan(service, one, about, *mine)
