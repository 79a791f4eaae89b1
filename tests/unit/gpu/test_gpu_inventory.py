"""The inventory of GPU models from node labels (DI-174…DI-180, DI-186, DI-190, FW-115)."""

from itertools import count
from typing import Any

import pytest
from support.builders import make
from support.summed import items_of

from aim_domain import GPUS, MEMORY, MODELS, GpuInventory, inventory_of, of_model
from aim_domain.gpu.inventory import GpuKind, VramSource, gpu_model_of
from aim_domain.parts import NODES
from controller_runtime import Key
from controller_runtime.core import Node
from controller_runtime.kinds import NODE
from controller_runtime.log.wire.part import GroupId
from controller_runtime.testing import cache_of

_count = count(100_000)


def node(name: str = "n", **labels: str) -> Node:
    """A node; double underscores in label names stand for the slash."""
    return NODE.decode(make(NODE, name, labels={_key(key): value for key, value in labels.items()}))


def _key(name: str) -> str:
    prefix, _, rest = name.partition("__")
    domain = "beta.amd.com" if prefix == "beta" else "amd.com"
    return f"{domain}/gpu.{rest.replace('_', '-')}"


def encoded(key: str, count: str = "8") -> Node:
    return NODE.decode(make(NODE, "n", labels={key: count}))


def inventory_with(*nodes: Node) -> GpuInventory:
    return inventory_of(items_of(GPUS, nodes, MEMORY))


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


@pytest.mark.spec("DI-395")
@pytest.mark.parametrize(
    ("labels", "model"),
    [
        ({"MI300X": "8", "GPU": "8", "vendor.GPU.AMD": "true", "partitioning-scheme.default": "true"}, "MI300X"),
        ({"EPYC_9965": "2", "CPU": "2"}, ""),
        ({"partitioning-scheme.CPX-NPS4": "true"}, ""),
        ({"MI300X": "0"}, ""),
        ({"R9700": "true"}, "R9700"),
    ],
)
def test_accelerator_labels_name_a_model_where_no_others_do(labels: dict[str, str], model: str) -> None:
    prefix = "feature.node.kubernetes.io/aim-accelerator."
    detected = {f"{prefix}{key}": value for key, value in labels.items()}
    assert gpu_model_of(NODE.decode(make(NODE, "n", labels=detected))) == model
    labelled = {**detected, "amd.com/gpu.device-id": "74a5"}
    assert gpu_model_of(NODE.decode(make(NODE, "n", labels=labelled))) == "MI325X"


@pytest.mark.spec("DI-178", "DI-179")
def test_other_labels_and_capacity_say_nothing() -> None:
    labels = {"amd.com/gpu.product-name": "MI300X", "nvidia.com/gpu.product": "H100"}
    assert gpu_model_of(NODE.decode(make(NODE, "n", labels=labels, status={"capacity": {"amd.com/gpu": "8"}}))) == ""


@pytest.mark.spec("DI-180", "DI-183", "DI-186")
def test_memory_comes_from_the_largest_label_else_from_the_table() -> None:
    inventory = inventory_with(
        node("a", amd__device_id="74a1", amd__vram="128G"),
        node("b", amd__device_id="74a9", beta__vram="196608"),
        node("c", amd__device_id="75a0"),
        node("d", amd__device_id="beef"),
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


@pytest.mark.spec("DI-190", "DI-P17")
def test_unknown_devices_are_asked_for_literally() -> None:
    inventory = inventory_with(node("d", amd__device_id="beef"))
    assert inventory.find("amd-beef") is not None
    assert inventory.find("MI300X") is None


@pytest.mark.spec("FW-115", "FW-453", "DI-363")
def test_only_what_nodes_say_of_their_gpus_matters() -> None:
    cache = cache_of([NODES], indexes=[GPUS])
    family = {"amd.com/gpu.family": "MI300X"}
    plain = make(NODE, "n", labels={**family, "zone": "a"}, status={"capacity": {"cpu": "4"}})
    memory, models, one = (GPUS.group(name) for name in (MEMORY, MODELS, of_model("MI300X")))

    def changed(obj: dict[str, Any] | None) -> set[GroupId]:
        """The groups that a version of the node changes; ``None`` deletes it."""
        if obj is None:
            changes = cache.cache.absorb_deleted(NODES, Key("", "n"), plain["metadata"]["uid"], 0.0)
        else:
            changes = cache.put(NODES, {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(next(_count))}})
        return {group for change in changes for group in change.groups}

    assert changed(plain) == {memory, models, one}
    assert changed({**plain, "metadata": {**plain["metadata"], "labels": {**family, "zone": "b"}}}) == set()
    assert changed({**plain, "status": {"capacity": {"amd.com/gpu": "8"}}}) == set(), "nobody reads amounts (DI-178)"
    labelled = {**plain, "metadata": {**plain["metadata"], "labels": {**family, "amd.com/gpu.vram": "192G"}}}
    assert changed(labelled) == {memory}, "who asks for a model does not ask for its memory"
    assert changed(None) == {memory, models, one}


@pytest.mark.spec("FW-453")
def test_another_node_of_a_known_kind_says_nothing_new() -> None:
    cache = cache_of([NODES], make(NODE, "a", labels={"amd.com/gpu.device-id": "74a1"}), indexes=[GPUS])
    (change,) = cache.put(NODES, make(NODE, "b", labels={"amd.com/gpu.device-id": "74a9"}))
    assert change.groups == set()
    assert cache.cache.summary(GPUS, MODELS) == (GpuKind(model="MI300X"),)
