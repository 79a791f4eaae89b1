"""The taint of GPU nodes: decided by discovery, put and taken away under the version that was read."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import fact, make
from support.deciding import decide
from support.discovery_cache import settings

from aim_discovery.node_taint import Taints, with_taint
from aim_discovery.service import definition
from aim_domain.kinds import KAIWO_CONFIG
from aim_domain.parts import KAIWO_CONFIGS, NODES
from controller_runtime import FACTS, EventType, JsonObject, Plan
from controller_runtime.kinds import NODE
from controller_runtime.testing import NOW, BuiltCache, cache_of

SERVICE = definition(settings())
[RECONCILER] = [one for one in SERVICE.reconcilers if one.part is NODES]
KEY = "kaiwo.silogen.ai/gpu"
MARK = "aim.eai.amd.com/gpu-taint"
OURS = {"key": KEY, "value": "aim-engine", "effect": "NoSchedule"}
FOREIGN = {"key": "team", "value": "research", "effect": "NoSchedule"}
EVICTING = {**FOREIGN, "key": KEY, "effect": "NoExecute"}
TIMED = {**OURS, "timeAdded": "2026-01-01T00:00:00Z"}
LABELLED = {"amd.com/gpu.device-id": "74a1"}


def kaiwo(name: str = "kaiwo", age: int = 0, **nodes: Any) -> JsonObject:
    spec = {"nodes": {"addTaintsToGpuNodes": True, **nodes}}
    return make(KAIWO_CONFIG, name, spec=spec, created=NOW - timedelta(days=age))


def node(
    *taints: JsonObject, labels: dict[str, str] | None = None, capacity: dict[str, str] | None = None
) -> JsonObject:
    """A node, with the mark where it has our taint."""
    marks = {MARK: KEY} if OURS in taints else {}
    found = LABELLED if labels is None else labels
    body = make(NODE, "gpu-1", labels=found, annotations=marks, spec={"taints": list(taints)})
    return {**body, "status": {"capacity": capacity or {}}}


def cache(*objects: JsonObject) -> BuiltCache:
    return cache_of((NODES, KAIWO_CONFIGS, FACTS), *objects, indexes=SERVICE.indexes[:0])


def planned(*objects: JsonObject) -> Plan:
    built = cache(*objects)
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
    built = cache(node(OURS))
    built.make_stale(KAIWO_CONFIGS)
    assert decide(RECONCILER, built.object(NODES, "", "gpu-1"), built.view(), NOW) == Plan()


def written(seconds: float, again: int = 0, key: str = KEY, *, done: bool = True) -> JsonObject:
    """What came of the last effect, so long ago."""
    when, uid = NOW - timedelta(seconds=seconds), str(node()["metadata"]["uid"])
    outcome = {"written": done, "key": key, "again": again}
    return fact("discovery", "node-taint", uid, node(), NODES, outcome=outcome, observed=when)


@pytest.mark.spec("RC-158")
def test_what_was_written_is_waited_for_and_then_decided_anew() -> None:
    for seconds, left in ((1, 4.0), (4, 1.0)):
        plan = planned(node(), kaiwo(), written(seconds))
        assert (plan.effects, plan.requeue_after) == ((), left)
    assert asked(node(), kaiwo(), written(5)) == KEY
    assert planned(node(OURS), kaiwo(), written(1)) == Plan()


@pytest.mark.spec("RC-158")
@pytest.mark.parametrize(("again", "wait"), [(0, 5), (1, 10), (2, 20), (6, 320), (7, 600), (2_000, 600)])
def test_what_somebody_takes_away_again_is_put_back_less_and_less_often(again: int, wait: int) -> None:
    early = planned(node(), kaiwo(), written(wait - 1, again))
    assert (early.effects, early.requeue_after) == ((), 1.0)
    plan = planned(node(), kaiwo(), written(wait, again))
    assert [effect.params.get("again") for effect in plan.effects] == [again + 1]
    reported = [(event.type, event.reason) for event in plan.events]
    assert reported == ([(EventType.WARNING, "GPUTaintRemoved")] if again >= 2 else [])
    assert all(f"{KEY}:NoSchedule" in event.message for event in plan.events)


@pytest.mark.spec("RC-158")
def test_what_has_stood_for_an_hour_was_not_fought_over() -> None:
    at_once = planned(node(), kaiwo(), written(3_600, 9))
    assert ([effect.params.get("again") for effect in at_once.effects], at_once.events) == ([0], ())
    fought = planned(node(), kaiwo(), written(3_599, 9))
    assert ([effect.params.get("again") for effect in fought.effects], len(fought.events)) == ([10], 1)


@pytest.mark.spec("RC-158")
@pytest.mark.parametrize("last", [{"key": "another"}, {"done": False}])
def test_another_key_and_what_was_there_already_are_no_fight(last: dict[str, Any]) -> None:
    plan = planned(node(), kaiwo(), written(5, 9, **last))
    assert [effect.params.get("again") for effect in plan.effects] == [0]


@pytest.mark.spec("RC-158")
@pytest.mark.parametrize(
    ("there", "mark", "key", "after", "left"),
    [
        ([], "", KEY, [OURS], KEY),
        ([FOREIGN], "", KEY, [FOREIGN, OURS], KEY),
        ([OURS, FOREIGN], KEY, KEY, [OURS, FOREIGN], KEY),
        ([OURS, FOREIGN], KEY, "", [FOREIGN], ""),
        ([OURS, FOREIGN], KEY, "mine", [FOREIGN, {**OURS, "key": "mine"}], "mine"),
        ([FOREIGN], "", "", [FOREIGN], ""),
        # Taken away by hand.
        ([FOREIGN], KEY, "", [FOREIGN], ""),
        ([FOREIGN], KEY, KEY, [FOREIGN, OURS], KEY),
        # Without the mark, what looks like ours is not.
        ([OURS], "", "", [OURS], ""),
        ([OURS], "", KEY, [OURS], ""),
        ([{**OURS, "key": "dedicated"}], "", KEY, [{**OURS, "key": "dedicated"}, OURS], KEY),
        ([{**OURS, "key": "dedicated"}], KEY, "", [{**OURS, "key": "dedicated"}], ""),
        ([{**OURS, "effect": "NoExecute"}], KEY, "", [{**OURS, "effect": "NoExecute"}], ""),
        # Somebody else's of the same key is theirs, whether or not it makes ours unnecessary.
        ([{**OURS, "value": "true"}], "", KEY, [{**OURS, "value": "true"}], ""),
        ([{**OURS, "value": "true"}], KEY, KEY, [{**OURS, "value": "true"}], ""),
        ([{**OURS, "value": "true"}], KEY, "", [{**OURS, "value": "true"}], ""),
        (
            [{**FOREIGN, "key": KEY, "effect": "NoExecute"}],
            "",
            KEY,
            [{**FOREIGN, "key": KEY, "effect": "NoExecute"}, OURS],
            KEY,
        ),
        (
            [{**OURS, "timeAdded": "2026-01-01T00:00:00Z"}],
            KEY,
            KEY,
            [{**OURS, "timeAdded": "2026-01-01T00:00:00Z"}],
            KEY,
        ),
    ],
)
def test_only_our_own_taint_is_touched(
    there: list[JsonObject], mark: str, key: str, after: list[JsonObject], left: str
) -> None:
    wanted = Taints(tuple(after), left)
    assert with_taint(Taints(tuple(there), mark), key) == wanted
    assert with_taint(wanted, key) == wanted


@pytest.mark.spec("RC-158")
def test_a_patch_takes_away_what_is_empty() -> None:
    assert Taints((), "").patch() == {"metadata": {"annotations": {MARK: None}}, "spec": {"taints": None}}
    assert Taints((OURS,), KEY).patch() == {"metadata": {"annotations": {MARK: KEY}}, "spec": {"taints": [OURS]}}
