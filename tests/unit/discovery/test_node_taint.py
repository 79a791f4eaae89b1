"""The taint of GPU nodes: decided by discovery, put and taken away under the version that was read."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import NOW, BuiltWorld, fact, make, world_of
from support.deciding import decide
from support.discovery_world import settings

from aim_discovery.node_taint import with_taint
from aim_discovery.service import definition
from aim_domain.kinds import KAIWO_CONFIG
from aim_domain.parts import KAIWO_CONFIGS, NODES
from controller_runtime import FACTS, JsonObject, Plan
from controller_runtime.kinds import NODE

SERVICE = definition(settings())
[RECONCILER] = [one for one in SERVICE.reconcilers if one.part is NODES]
KEY = "kaiwo.silogen.ai/gpu"
OURS = {"key": KEY, "value": "aim-engine", "effect": "NoSchedule"}
FOREIGN = {"key": "team", "value": "research", "effect": "NoSchedule"}
LABELLED = {"amd.com/gpu.device-id": "74a1"}


def kaiwo(name: str = "kaiwo", age: int = 0, **nodes: Any) -> JsonObject:
    spec = {"nodes": {"addTaintsToGpuNodes": True, **nodes}}
    return make(KAIWO_CONFIG, name, spec=spec, created=NOW - timedelta(days=age))


def node(
    *taints: JsonObject, labels: dict[str, str] | None = None, capacity: dict[str, str] | None = None
) -> JsonObject:
    body = make(NODE, "gpu-1", labels=LABELLED if labels is None else labels, spec={"taints": list(taints)})
    return {**body, "status": {"capacity": capacity or {}}}


def world(*objects: JsonObject) -> BuiltWorld:
    return world_of((NODES, KAIWO_CONFIGS, FACTS), *objects, indexes=SERVICE.indexes[:0])


def planned(*objects: JsonObject) -> Plan:
    built = world(*objects)
    return decide(RECONCILER, built.object(NODES, "", "gpu-1"), built.view(), NOW)


def asked(*objects: JsonObject) -> str | None:
    """The key that a pass asks for; None when it asks for nothing."""
    plan = planned(*objects)
    assert (plan.status, plan.children, plan.patches, plan.deletes) == (None, (), (), ())
    keys = [str(effect.params["key"]) for effect in plan.effects]
    assert len(keys) <= 1
    return keys[0] if keys else None


@pytest.mark.spec("RC-158")
def test_gpu_nodes_get_the_taint_only_if_the_config_says_so() -> None:
    assert asked(node(), kaiwo()) == KEY
    assert asked(node(), kaiwo(defaultGpuTaintKey="mine/gpu")) == "mine/gpu"
    assert asked(node()) is None
    assert asked(node(), kaiwo(addTaintsToGpuNodes=False)) is None
    assert asked(node(OURS), kaiwo()) is None
    assert asked(node(FOREIGN, OURS), kaiwo()) is None


@pytest.mark.spec("RC-158")
def test_a_node_has_gpus_by_its_labels_or_by_the_resource_that_the_config_names() -> None:
    assert asked(node(labels={}), kaiwo()) is None
    assert asked(node(labels={}, capacity={"amd.com/gpu": "8"}), kaiwo()) == KEY
    assert asked(node(labels={}, capacity={"amd.com/gpu": "0"}), kaiwo()) is None
    other = node(labels={}, capacity={"nvidia.com/gpu": "1"})
    assert asked(other, kaiwo()) is None
    assert asked(other, kaiwo(defaultGpuResourceKey="nvidia.com/gpu")) == KEY


@pytest.mark.spec("RC-158", "RC-159")
def test_the_taint_goes_with_the_config_the_setting_the_key_and_the_gpus() -> None:
    assert asked(node(OURS)) == ""
    assert asked(node(OURS), kaiwo(addTaintsToGpuNodes=False)) == ""
    assert asked(node(OURS), kaiwo(defaultGpuTaintKey="mine/gpu")) == "mine/gpu"
    assert asked(node(OURS), kaiwo(defaultGpuTaintKey="no key")) == ""
    assert asked(node(OURS, labels={}), kaiwo()) == ""


@pytest.mark.spec("RC-151", "RC-158")
def test_the_oldest_config_decides() -> None:
    older = kaiwo("z", 2, addTaintsToGpuNodes=False)
    assert asked(node(), older, kaiwo("a", 1)) is None
    assert asked(node(OURS), older, kaiwo("a", 1)) == ""


@pytest.mark.spec("RC-158")
def test_nothing_is_taken_away_while_nobody_can_tell() -> None:
    built = world(node(OURS))
    built.make_stale(KAIWO_CONFIGS)
    assert decide(RECONCILER, built.object(NODES, "", "gpu-1"), built.view(), NOW) == Plan()


@pytest.mark.spec("RC-158")
def test_what_was_written_is_waited_for_and_then_decided_anew() -> None:
    def written(seconds: float) -> JsonObject:
        when = NOW - timedelta(seconds=seconds)
        uid = str(node()["metadata"]["uid"])
        return fact("discovery", "node-taint", uid, node(), NODES, outcome={"written": True}, observed=when)

    for seconds, left in ((1, 4.0), (4, 1.0)):
        plan = planned(node(), kaiwo(), written(seconds))
        assert (plan.effects, plan.requeue_after) == ((), left)
    assert asked(node(), kaiwo(), written(5)) == KEY
    assert planned(node(OURS), kaiwo(), written(1)) == Plan()


@pytest.mark.spec("RC-158")
@pytest.mark.parametrize(
    ("there", "key", "after"),
    [
        ([], KEY, [OURS]),
        ([FOREIGN], KEY, [FOREIGN, OURS]),
        ([OURS, FOREIGN], KEY, [OURS, FOREIGN]),
        ([OURS, FOREIGN], "", [FOREIGN]),
        ([OURS, FOREIGN], "mine", [FOREIGN, {**OURS, "key": "mine"}]),
        ([FOREIGN], "", [FOREIGN]),
        # Somebody else's of the same key is theirs, whether or not it makes ours unnecessary.
        ([{**OURS, "value": "true"}], KEY, [{**OURS, "value": "true"}]),
        ([{**OURS, "value": "true"}], "", [{**OURS, "value": "true"}]),
        ([{**FOREIGN, "key": KEY, "effect": "NoExecute"}], KEY, [{**FOREIGN, "key": KEY, "effect": "NoExecute"}, OURS]),
        ([{**OURS, "timeAdded": "2026-01-01T00:00:00Z"}], KEY, [{**OURS, "timeAdded": "2026-01-01T00:00:00Z"}]),
    ],
)
def test_only_our_own_taint_is_touched(there: list[JsonObject], key: str, after: list[JsonObject]) -> None:
    assert with_taint(there, key) == after
    assert with_taint(after, key) == after
