"""GPUs that nodes name in other ways, that pods can or cannot reach, and that an autoscaler brings."""

from typing import Any

import pytest
from support.builders import make
from support.summed import items_of

from aim_discovery.templates.gpu import Reach, gpu_component, node_affinity
from aim_domain import GPUS, MEMORY, GpuInventory, GpuRequirements, RuntimeConfigSpec, inventory_of
from controller_runtime import JsonObject, State
from controller_runtime.core import Node
from controller_runtime.kinds import NODE

OLD: dict[str, str] = {"beta.amd.com/gpu.device-id.740f": "4", "beta.amd.com/gpu.family.AI": "4"}
MIXED = {"beta.amd.com/gpu.device-id.740f": "4", "beta.amd.com/gpu.device-id.74a1": "4"}
NEW = {"amd.com/gpu.device-id": "74a1"}
FAMILY = {"amd.com/gpu.family": "Instinct_MI300A"}
UNKNOWN = {"amd.com/gpu.device-id": "ffff"}


def node(labels: dict[str, str], **spec: Any) -> Node:
    return NODE.decode(make(NODE, "n", labels=labels, spec=spec))


def inventory(*nodes: Node) -> GpuInventory:
    return inventory_of(items_of(GPUS, nodes, MEMORY))


def required(**values: object) -> GpuRequirements:
    return GpuRequirements.model_validate({"requests": 1, **values})


def terms_of(affinity: JsonObject | None) -> list[JsonObject]:
    assert affinity is not None
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [expression for term in terms for expression in term["matchExpressions"]]


def matches(affinity: JsonObject | None, labels: dict[str, str]) -> bool:
    """As the scheduler has it: one of the terms is enough."""
    return any(
        one["key"] in labels and (one["operator"] == "Exists" or labels[one["key"]] in one["values"])
        for one in terms_of(affinity)
    )


def state_of(found: GpuInventory, requirement: GpuRequirements, reach: Reach = Reach()) -> tuple[State, str]:  # noqa: B008
    component = gpu_component(requirement, found, None, reach)
    assert component is not None
    return component.effective_state, component.effective_reason


@pytest.mark.spec("DI-392", "DI-P13")
@pytest.mark.parametrize(
    ("labels", "model"),
    [
        (OLD, "MI210"),
        ({"amd.com/gpu.device-id.740f": "1"}, "MI210"),
        ({"amd.com/gpu.device-id.740f": "1", "beta.amd.com/gpu.device-id.7410": "1"}, "MI210"),
        (MIXED, "MI300X"),
        (MIXED, "MI210"),
        ({**NEW, **OLD}, "MI210"),
        (FAMILY, "MI300A"),
        ({"beta.amd.com/gpu.family.MI210": "2"}, "MI210"),
        (UNKNOWN, "AMD-FFFF"),
        (NEW, "MI300X"),
    ],
)
def test_what_makes_a_gpu_available_selects_its_node(labels: dict[str, str], model: str) -> None:
    found = inventory(node(labels))
    assert state_of(found, required(model=model)) == (State.READY, "GPUAvailable")
    assert matches(node_affinity(required(model=model), found), labels)


@pytest.mark.spec("DI-392")
def test_terms_are_sorted_and_nothing_changes_without_such_nodes() -> None:
    found = inventory(node({"amd.com/gpu.device-id.7410": "1"}), node(OLD))
    terms = terms_of(node_affinity(required(model="MI210"), found))
    assert [one["key"] for one in terms] == [
        "amd.com/gpu.device-id",
        "amd.com/gpu.device-id.7410",
        "beta.amd.com/gpu.device-id.740f",
    ]
    plain = node_affinity(required(model="MI210"), inventory(node({"amd.com/gpu.device-id": "740f"})))
    assert [(one["key"], one["values"]) for one in terms_of(plain)] == [("amd.com/gpu.device-id", ["740f", "7410"])]
    assert node_affinity(required(model="MI210"), inventory(node({"amd.com/gpu.device-id.740f": "0"}))) == plain


@pytest.mark.spec("DI-393")
@pytest.mark.parametrize(
    ("labels", "vram"),
    [
        ({**OLD, "beta.amd.com/gpu.vram.60G": "4"}, {"MI210": "60G"}),
        ({**OLD, "amd.com/gpu.vram": "61G", "beta.amd.com/gpu.vram.60G": "4"}, {"MI210": "61G"}),
        ({**OLD, "amd.com/gpu.vram.192G": "1", "amd.com/gpu.vram.60G": "1"}, {"MI210": "60G"}),
        ({**MIXED, "amd.com/gpu.vram": "192G"}, {"MI210": "64G", "MI300X": "192G"}),
    ],
)
def test_memory_is_read_from_values_and_keys_of_labels(labels: dict[str, str], vram: dict[str, str]) -> None:
    assert {model.name: model.vram for model in inventory(node(labels)).models} == vram


def tainted(effect: str = "NoSchedule", key: str = "dedicated", value: str = "x") -> dict[str, Any]:
    return {"taints": [{"key": key, "value": value, "effect": effect}]}


@pytest.mark.spec("DI-394", "DI-395")
@pytest.mark.parametrize(
    ("spec", "tolerated", "ready"),
    [
        ({"unschedulable": True}, (), False),
        (tainted(), (), False),
        (tainted("NoExecute"), (), False),
        (tainted("PreferNoSchedule"), (), True),
        (tainted(key="node.kubernetes.io/not-ready", value=""), (), True),
        (tainted(), ({"key": "dedicated", "operator": "Exists"},), True),
        (tainted(), ({"operator": "Exists"},), True),
        (tainted(), ({"key": "dedicated", "value": "x"},), True),
        (tainted(), ({"key": "dedicated", "value": "y"},), False),
        (tainted(), ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},), False),
        ({"unschedulable": True, **tainted()}, ({"key": "dedicated", "operator": "Exists"},), False),
    ],
)
def test_a_gpu_is_available_where_a_node_takes_the_pods(
    spec: dict[str, Any], tolerated: tuple[JsonObject, ...], ready: bool
) -> None:
    found, reach = inventory(node(NEW, **spec)), Reach(tolerated)
    expected = (State.READY, "GPUAvailable") if ready else (State.NOT_AVAILABLE, "GPUNotSchedulable")
    assert state_of(found, required(model="MI300X"), reach) == expected
    assert state_of(found, required(), reach) == expected
    assert state_of(found, required(minVram="64Gi"), reach) == expected
    open_node = inventory(node(NEW, **spec), node(NEW))
    assert state_of(open_node, required(model="MI300X"), reach) == (State.READY, "GPUAvailable")


@pytest.mark.spec("DI-394")
def test_the_message_names_what_keeps_pods_away_and_the_affinity_stays() -> None:
    found = inventory(node(NEW, **tainted()))
    component = gpu_component(required(model="MI300X"), found, None)
    assert component is not None
    assert "dedicated=x:NoSchedule" in component.effective_message
    assert "predictors.tolerations" in component.effective_message
    same = node_affinity(required(model="MI300X"), inventory(node(NEW)))
    assert node_affinity(required(model="MI300X"), found) == same, "a cordon replaces no pod"


@pytest.mark.spec("DI-394")
def test_a_template_of_the_cluster_is_available_behind_taints_that_some_namespace_may_tolerate() -> None:
    reach = Reach.of(RuntimeConfigSpec(), "", is_of_cluster=True)
    behind, cordoned = inventory(node(NEW, **tainted())), inventory(node(NEW, unschedulable=True))
    assert state_of(behind, required(model="MI300X"), reach) == (State.READY, "GPUAvailable")
    assert state_of(cordoned, required(model="MI300X"), reach) == (State.NOT_AVAILABLE, "GPUNotSchedulable")


@pytest.mark.spec("DI-392")
def test_a_node_that_goes_changes_no_affinity() -> None:
    both = node_affinity(required(model="MI210"), inventory(node({"amd.com/gpu.device-id": "740f"}), node(OLD)))
    left = inventory(node({"amd.com/gpu.device-id": "740f"}))
    assert node_affinity(required(model="MI210"), left, stored=both) == both
    other = node_affinity(required(model="MI300X"), inventory(node(NEW)))
    assert node_affinity(required(model="MI300X"), inventory(node(NEW)), stored=both) == other, "another model"


@pytest.mark.spec("DI-380", "DI-392")
def test_any_gpu_needs_no_values_of_labels() -> None:
    zero = GpuRequirements.model_validate({"requests": 0})
    assert node_affinity(zero, inventory(node(FAMILY), node(UNKNOWN))) == node_affinity(zero, inventory(node(NEW)))


@pytest.mark.spec("DI-396")
@pytest.mark.parametrize(
    ("requirement", "reason"),
    [
        ({"model": "MI355X"}, "GPUProvisionable"),
        ({"model": "AMD_Instinct_MI355X_OAM"}, "GPUProvisionable"),
        ({}, "GPUProvisionable"),
        ({"minVram": "200Gi"}, "GPUProvisionable"),
        ({"minVram": "512Gi"}, "VRAMNotAvailable"),
        ({"model": "MI300X"}, "GPUNotAvailable"),
    ],
)
def test_a_pool_that_is_scaled_to_none_makes_no_deadlock(requirement: dict[str, str], reason: str) -> None:
    config = RuntimeConfigSpec.model_validate({"gpus": {"provisionable": ["mi355x", " "]}})
    reach, wanted = Reach.of(config, ""), required(**requirement)
    assert state_of(GpuInventory(), wanted, reach)[1] == reason
    if "minVram" in requirement and reason == "GPUProvisionable":
        assert terms_of(node_affinity(wanted, GpuInventory(), reach))[0]["values"] == ["75a3", "75b3"]


@pytest.mark.spec("DI-394", "DI-396")
def test_pods_of_services_tolerate_the_gpu_taint_and_what_the_settings_say() -> None:
    config = RuntimeConfigSpec.model_validate({"predictors": {"tolerations": [{"key": "a", "operator": "Exists"}]}})
    reach = Reach.of(config, "amd.com/gpu")
    assert not reach.repelled_by(["a=b:NoSchedule", "amd.com/gpu=present:NoSchedule"])
    assert reach.repelled_by(["c=:NoSchedule"]) == ("c=:NoSchedule",)
