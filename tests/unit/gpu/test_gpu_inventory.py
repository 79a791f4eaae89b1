"""The inventory of GPU models from node labels (DI-174…DI-180, DI-186, DI-190, FW-115)."""

from typing import Any

import pytest
from support.builders import make

from aim_shared.api import NODE, Node
from aim_shared.bus.entry import Change, Entry, Version
from aim_shared.bus.part import Key
from aim_shared.bus.parts import NODES
from aim_shared.gpu.inventory import VramSource, gpu_model_of, inventory_of
from aim_shared.gpu.node_changes import is_significant


def node(name: str = "n", **labels: str) -> Node:
    """A node; double underscores in label names stand for the slash."""
    return NODE.decode(make(NODE, name, labels={_key(key): value for key, value in labels.items()}))


def _key(name: str) -> str:
    prefix, _, rest = name.partition("__")
    domain = "beta.amd.com" if prefix == "beta" else "amd.com"
    return f"{domain}/gpu.{rest.replace('_', '-')}"


def encoded(key: str, count: str = "8") -> Node:
    return NODE.decode(make(NODE, "n", labels={key: count}))


@pytest.mark.spec("DI-174", "DI-175", "DI-177")
def test_sources_of_a_nodes_model_are_tried_in_order() -> None:
    assert gpu_model_of(node(amd__device_id="74a1", amd__family="MI250X")) == "MI300X"
    assert gpu_model_of(node(beta__device_id="75a0")) == "MI350X"
    assert gpu_model_of(node(amd__device_id=" ", beta__device_id="74a5")) == "MI325X"
    assert gpu_model_of(encoded("amd.com/gpu.device-id.74a1")) == "MI300X"
    assert gpu_model_of(encoded("amd.com/gpu.device-id.74a1", "0")) == ""
    assert gpu_model_of(node(amd__family="Instinct_MI300A")) == "MI300A"
    assert gpu_model_of(encoded("beta.amd.com/gpu.family.MI210")) == "MI210"
    several = make(NODE, "n", labels={"amd.com/gpu.device-id.75a0": "1", "amd.com/gpu.device-id.74a5": "1"})
    assert gpu_model_of(NODE.decode(several)) == "MI325X"


@pytest.mark.spec("DI-178", "DI-179")
def test_other_labels_and_capacity_say_nothing() -> None:
    labels = {"amd.com/gpu.product-name": "MI300X", "nvidia.com/gpu.product": "H100"}
    assert gpu_model_of(NODE.decode(make(NODE, "n", labels=labels, status={"capacity": {"amd.com/gpu": "8"}}))) == ""


@pytest.mark.spec("DI-180", "DI-183", "DI-186")
def test_memory_comes_from_the_largest_label_else_from_the_table() -> None:
    inventory = inventory_of(
        [
            node("a", amd__device_id="74a1", amd__vram="128G"),
            node("b", amd__device_id="74a9", beta__vram="196608"),
            node("c", amd__device_id="75a0"),
            node("d", amd__device_id="beef"),
        ]
    )
    found = {model.name: (model.vram, model.vram_source) for model in inventory.models}
    assert found == {
        "AMD-BEEF": ("", VramSource.UNKNOWN),
        "MI300X": ("196608", VramSource.LABEL),
        "MI350X": ("288G", VramSource.STATIC),
    }
    assert inventory.best is not None
    assert inventory.best.name == "MI350X"
    assert [model.name for model in inventory.with_vram(192 << 30)] == ["MI300X", "MI350X"]


@pytest.mark.spec("DI-190")
def test_unknown_devices_are_asked_for_literally() -> None:
    inventory = inventory_of([node("d", amd__device_id="beef")])
    assert inventory.find("amd-beef") is not None
    assert inventory.find("MI300X") is None


def change(before: dict[str, Any], after: dict[str, Any]) -> Change[Node]:
    def entry(obj: dict[str, Any]) -> Entry[Node]:
        return Entry(NODES, Key("", "n"), obj, Version("u", "1"))

    return Change(NODES, Key("", "n"), entry(before), entry(after))


@pytest.mark.spec("FW-115", "DI-363")
def test_only_amd_labels_and_amounts_of_a_node_matter() -> None:
    plain = make(NODE, "n", labels={"amd.com/gpu.family": "MI300X", "zone": "a"}, status={"capacity": {"cpu": "4"}})
    moved = {**plain, "metadata": {**plain["metadata"], "labels": {"amd.com/gpu.family": "MI300X", "zone": "b"}}}
    heartbeat = {**plain, "status": {"capacity": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}}
    relabelled = {**plain, "metadata": {**plain["metadata"], "labels": {"beta.amd.com/gpu.family": "MI300X"}}}
    resized = {**plain, "status": {"capacity": {"amd.com/gpu": "8"}}}
    assert not is_significant(change(plain, moved))
    assert not is_significant(change(plain, heartbeat))
    assert is_significant(change(plain, relabelled))
    assert is_significant(change(plain, resized))
    assert is_significant(Change(NODES, Key("", "n"), None, Entry(NODES, Key("", "n"), plain, Version("u", "1"))))
