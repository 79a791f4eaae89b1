"""Whether the required GPU is in the cluster, and where it is (sections 8.5 and 15.3)."""

import pytest
from support.builders import make
from support.discovery_cache import discovery_cluster, gpu_node, model, template
from support.summed import items_of

from aim_discovery.templates.gpu import effective_requirement, gpu_component, node_affinity, requires_gpu
from aim_domain import GPUS, MEMORY, GpuInventory, GpuRequirements, Hardware, TemplateSpec, inventory_of
from aim_domain.gpu.inventory import VramSource
from aim_domain.parts import NODES, TEMPLATES
from controller_runtime import Category, ClassifiedError, JsonObject, State
from controller_runtime.core import Node
from controller_runtime.kinds import NODE

DEVICES = {"MI100": "738c", "MI210": "740f", "MI250X": "7408", "MI300X": "74a1", "MI325X": "74a5", "MI350X": "75a0"}
SOURCES = [{"modelId": "a/b", "sourceUri": "hf://a/b"}]
PRIMARY, BETA = "amd.com/gpu.device-id", "beta.amd.com/gpu.device-id"


def node(**labels: str) -> Node:
    return NODE.decode(make(NODE, "n", labels={key.replace("__", "/"): value for key, value in labels.items()}))


def inventory(*nodes: Node) -> GpuInventory:
    """Everything that nodes say of their GPUs."""
    return inventory_of(items_of(GPUS, nodes, MEMORY))


def cluster_of(*models: str) -> GpuInventory:
    """Nodes with these models, whose memory is what the table says."""
    return inventory(*(NODE.decode(gpu_node(name, DEVICES[name])) for name in models))


def required(**values: object) -> GpuRequirements:
    return GpuRequirements.model_validate(values)


def state_of(requirement: GpuRequirements | None, inventory: GpuInventory) -> tuple[State, str] | None:
    found = gpu_component(requirement, inventory, None)
    return None if found is None else (found.effective_state, found.effective_reason)


@pytest.mark.spec("AC-36", "DI-193", "DI-195", "DI-196", "DI-192")
def test_availability_of_a_model() -> None:
    both = cluster_of("MI300X", "MI250X")
    assert state_of(required(requests=1, model="mi300x"), both) == (State.READY, "GPUAvailable")
    assert state_of(required(requests=1, model="MI355X"), both) == (State.NOT_AVAILABLE, "GPUNotAvailable")
    assert state_of(required(requests=1), both) == (State.READY, "GPUAvailable")
    assert state_of(required(requests=1), GpuInventory()) == (State.NOT_AVAILABLE, "GPUNotAvailable")
    assert state_of(None, both) is None
    missing = gpu_component(required(requests=1, model="Mi355x"), both, None)
    assert missing is not None
    assert missing.effective_message.endswith("has GPU Mi355x; available: MI250X, MI300X")
    unknown = gpu_component(
        required(requests=1), both, ClassifiedError(Category.INFRASTRUCTURE, "ViewStale", "no marker")
    )
    assert unknown is not None
    assert (unknown.effective_state, unknown.effective_reason) == (State.DEGRADED, "GPUCheckFailed")


@pytest.mark.spec("AC-37", "DI-192", "DI-201", "DI-P14")
@pytest.mark.parametrize(
    ("gpu", "needed"),
    [
        ({"requests": 1, "model": "MI300X"}, True),
        ({"requests": 1, "model": "  MI300X "}, True),
        ({"requests": 0, "model": "MI300X"}, True),
        ({"requests": 0}, True),
        ({"requests": 0, "minVram": "64Gi"}, True),
        ({"minVram": "64Gi"}, True),
        ({"requests": 0, "model": "  "}, True),
        ({"resourceName": "amd.com/gpu"}, False),
        ({}, False),
        ({"requests": 1}, True),
        (None, False),
    ],
)
def test_who_requires_a_gpu(gpu: JsonObject | None, needed: bool) -> None:
    hardware = {} if gpu is None else {"hardware": {"gpu": gpu}}
    spec = TemplateSpec.model_validate({"modelName": "m", **hardware})
    assert requires_gpu(effective_requirement(spec, None)) is needed


@pytest.mark.spec("DI-201", "DI-196")
def test_a_model_without_requests_targets_nodes_that_have_it() -> None:
    assert state_of(required(requests=0, model="MI355X"), cluster_of("MI300X")) == (
        State.NOT_AVAILABLE,
        "GPUNotAvailable",
    )
    assert state_of(required(requests=0, model="MI300X"), cluster_of("MI300X")) == (State.READY, "GPUAvailable")


@pytest.mark.spec("DI-380", "DI-192", "DI-331", "AC-37")
def test_zero_gpus_target_the_nodes_that_have_some() -> None:
    affinity = node_affinity(required(requests=0), cluster_of("MI300X"))
    assert affinity is not None
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (first, *_) = [term["matchExpressions"] for term in terms]
    assert first == [{"key": "amd.com/gpu.device-id", "operator": "Exists"}]
    assert state_of(required(requests=0), cluster_of("MI300X")) == (State.READY, "GPUAvailable")
    assert state_of(required(requests=0), GpuInventory()) == (State.NOT_AVAILABLE, "GPUNotAvailable")
    assert node_affinity(required(requests=1), cluster_of("MI300X")) is None, "the requested GPU chooses the node"
    enough = node_affinity(required(requests=0, minVram="64Gi"), cluster_of("MI300X", "MI100"))
    assert enough is not None
    assert values(enough) == ["74a1", "74a9", "74b5", "74bd"]


@pytest.mark.spec("AC-38", "DI-194", "DI-197")
@pytest.mark.parametrize(
    ("least", "models", "reason"),
    [
        ("64Gi", ("MI300X",), "GPUAvailable"),
        ("256Gi", ("MI300X", "MI210"), "VRAMNotAvailable"),
        ("1Ti", ("MI300X",), "VRAMNotAvailable"),
        ("128Gi", ("MI300X", "MI210", "MI100"), "GPUAvailable"),
        ("0", ("MI100",), "GPUAvailable"),
    ],
)
def test_memory_that_is_required(least: str, models: tuple[str, ...], reason: str) -> None:
    found = gpu_component(required(requests=1, minVram=least), cluster_of(*models), None)
    assert found is not None
    assert found.effective_reason == reason
    if reason == "VRAMNotAvailable":
        assert found.effective_message.endswith("the best is MI300X with 192Gi")


@pytest.mark.spec("DI-194", "AC-38")
def test_memory_is_checked_first_also_with_a_model() -> None:
    inventory = cluster_of("MI300X")
    assert state_of(required(requests=1, model="MI300X", minVram="512Gi"), inventory) == (
        State.NOT_AVAILABLE,
        "VRAMNotAvailable",
    )
    assert state_of(required(requests=1, model="MI300X", minVram="128Gi"), inventory) == (State.READY, "GPUAvailable")
    nothing = gpu_component(required(requests=1, minVram="64Gi"), GpuInventory(), None)
    assert nothing is not None
    assert nothing.effective_message.endswith("no GPU was detected")


@pytest.mark.spec("AC-39", "DI-326", "DI-333", "DI-337")
def test_memory_of_an_inline_template_becomes_its_affinity_and_follows_the_nodes() -> None:
    hardware = {"gpu": {"requests": 1, "minVram": "64Gi"}}
    large = template("large", modelSources=SOURCES, hardware={"gpu": {"requests": 1, "minVram": "1Ti"}})
    nodes = [gpu_node("a", "74a1"), gpu_node("b", "75a0")]
    cluster = discovery_cluster(model(), template(modelSources=SOURCES, hardware=hardware), large, nodes=nodes)
    cluster.settle(TEMPLATES, "tpl")
    status = cluster.status(TEMPLATES, "tpl")
    assert status["status"] == "Ready"
    gpu = status["resolvedHardware"]["gpu"]
    assert (gpu["requests"], gpu["minVram"]) == (1, "64Gi")
    assert cluster.condition(TEMPLATES, "tpl", "GPUReady") == ("True", "GPUAvailable")
    assert values(status["resolvedNodeAffinity"]) == ["74a1", "74a9", "74b5", "74bd", "75a0", "75b0"]
    cluster.settle(TEMPLATES, "large")
    assert cluster.condition(TEMPLATES, "large", "GPUReady") == ("False", "VRAMNotAvailable")
    assert cluster.value(TEMPLATES, "large") == "NotAvailable"
    cluster.put(NODES, gpu_node("c", "74a5"))
    cluster.settle(TEMPLATES, "tpl")
    assert "74a5" in values(cluster.status(TEMPLATES, "tpl")["resolvedNodeAffinity"])


def values(affinity: JsonObject) -> list[str]:
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    found: list[str] = expression["values"]
    return found


@pytest.mark.spec("AC-40", "DI-183")
@pytest.mark.parametrize(
    ("device", "labels", "vram", "source"),
    [
        ("74a1", {"amd.com/gpu.vram": "192G"}, "192G", VramSource.LABEL),
        ("74a1", {"beta.amd.com/gpu.vram": "192G"}, "192G", VramSource.LABEL),
        ("74a1", {"amd.com/gpu.vram": "192G", "beta.amd.com/gpu.vram": "180G"}, "192G", VramSource.LABEL),
        ("74a1", {}, "192G", VramSource.STATIC),
        ("74a5", {}, "256G", VramSource.STATIC),
        ("740f", {}, "64G", VramSource.STATIC),
        ("beef", {}, "", VramSource.UNKNOWN),
        ("74a1", {"amd.com/gpu.vram": "256G"}, "256G", VramSource.LABEL),
    ],
)
def test_where_the_size_of_the_memory_is_from(
    device: str, labels: dict[str, str], vram: str, source: VramSource
) -> None:
    (found,) = inventory(NODE.decode(gpu_node("n", device, **labels))).models
    assert (found.vram, found.vram_source) == (vram, source)


@pytest.mark.spec("DI-332", "DI-334", "DI-331")
def test_the_affinity_names_all_devices_of_the_model_whether_or_not_they_exist() -> None:
    affinity = node_affinity(required(requests=1, model="MI308X"), GpuInventory())
    assert affinity is not None
    assert values(affinity) == ["74a2", "74a8", "74b6"]
    assert node_affinity(required(requests=1), cluster_of("MI300X")) is None
    assert node_affinity(required(requests=1, model="H100"), cluster_of("MI300X")) is None
    assert node_affinity(required(minVram="0"), cluster_of("MI300X")) is None
    assert node_affinity(None, cluster_of("MI300X")) is None


@pytest.mark.spec("DI-336", "DI-P13")
def test_nodes_with_the_older_label_are_reached_by_a_second_term() -> None:
    older = NODE.decode(make(NODE, "n", labels={BETA: "74a1"}))
    affinity = node_affinity(required(requests=1, model="MI300X"), inventory(older))
    assert affinity is not None
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchExpressions"][0]["key"] for term in terms] == [PRIMARY, BETA]
    assert terms[0]["matchExpressions"][0]["values"] == terms[1]["matchExpressions"][0]["values"]
    newer = inventory(NODE.decode(make(NODE, "n", labels={BETA: "74a1", PRIMARY: "74a1"})))
    plain = node_affinity(required(requests=1, model="MI300X"), newer)
    assert plain is not None
    assert len(values(plain)) == 4


ACCELERATOR = "feature.node.kubernetes.io/aim-accelerator."


@pytest.mark.spec("DI-395", "DI-392")
def test_nodes_that_only_the_accelerator_detector_labelled_are_reached_by_its_label() -> None:
    detected = NODE.decode(make(NODE, "n", labels={f"{ACCELERATOR}MI300X": "8", f"{ACCELERATOR}GPU": "8"}))
    affinity = node_affinity(required(requests=1, model="MI300X"), inventory(detected))
    assert affinity is not None
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchExpressions"][0]["key"] for term in terms] == [PRIMARY, f"{ACCELERATOR}MI300X"]
    both = NODE.decode(make(NODE, "n", labels={PRIMARY: "74a1", f"{ACCELERATOR}MI300X": "8"}))
    assert node_affinity(required(requests=1, model="MI300X"), inventory(both)) == node_affinity(
        required(requests=1, model="MI300X"), cluster_of("MI300X")
    )


@pytest.mark.spec("DI-338")
def test_a_template_names_no_affinity_of_its_own() -> None:
    assert not [name for name in TemplateSpec.model_fields if "affinity" in name or "selector" in name]


@pytest.mark.spec("AC-42", "DI-198", "DI-199")
def test_a_gpu_that_nobody_sells_starts_nothing() -> None:
    gpu = {"gpu": {"requests": 1, "model": "NONEXISTENT-GPU-MODEL-12345"}}
    cached = template("cached", modelSources=SOURCES, hardware=gpu, caching={"enabled": True})
    cluster = discovery_cluster(model(), template(hardware=gpu), cached)
    for name in ("tpl", "cached"):
        assert cluster.settle(TEMPLATES, name).children == ()
        assert cluster.value(TEMPLATES, name) == "NotAvailable"


@pytest.mark.spec("DI-191")
def test_what_was_found_counts_only_where_nothing_is_specified() -> None:
    resolved = Hardware.model_validate({"gpu": {"requests": 1, "model": "MI300X"}})
    plain = TemplateSpec.model_validate({"modelName": "m"})
    cpu = TemplateSpec.model_validate({"modelName": "m", "hardware": {"cpu": {"requests": "1"}}})
    assert effective_requirement(plain, resolved) == resolved.gpu
    assert effective_requirement(cpu, resolved) is None
