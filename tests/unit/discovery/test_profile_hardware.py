"""Which nodes have the accelerator of a profile, and what a profile says of itself (docs/spec/profiles.md)."""

from typing import Any

import pytest
from support.builders import make, owner
from support.discovery_cache import discovery_cache, discovery_cluster, gpu_node

from aim_domain import device_ids, labels
from aim_domain.kinds import (
    AIM_CLUSTER_PROFILE,
    AIM_CLUSTER_RUNTIME_CONFIG,
    AIM_MODEL,
    AIM_PROFILE,
    AIM_PROFILE_CACHE,
    AIM_PROFILE_SET,
    AIM_SERVICE,
)
from aim_domain.parts import CLUSTER_PROFILES, NODES, PROFILE_CACHES, PROFILES
from controller_runtime import JsonObject, Plan
from controller_runtime.kinds import NODE

ACCELERATOR = "feature.node.kubernetes.io/aim-accelerator."
WHOLE = f"{ACCELERATOR}partitioning-scheme.default"
SOURCE = {"modelId": "a/b", "sourceUri": "hf://a/b"}
PLAIN: dict[str, Any] = {"image": "a/b:1.2", "acceleratorModel": "MI300X", "acceleratorCount": 1}
WEIGHTS = {"aimId": "a", "modelSources": [SOURCE]}


def profile(name: str = "p", *, owners: tuple[JsonObject, ...] = (), **spec: Any) -> JsonObject:
    mode = {"acceleratorPartitioningMode": "unpartitioned", "acceleratorType": "gpu"}
    return make(AIM_PROFILE, name, owners=list(owners), spec={**mode, **PLAIN, **WEIGHTS, **spec})


def detected(name: str = "n1", model: str = "MI300X", *schemes: str, gpus: str | None = "8", **more: Any) -> JsonObject:
    """A node with the labels of the detector."""
    given = {f"{ACCELERATOR}{model}": "8", **{f"{ACCELERATOR}partitioning-scheme.{one}": "" for one in schemes}}
    amounts = {} if gpus is None else {"allocatable": {"amd.com/gpu": gpus}}
    return make(NODE, name, labels=given, status=amounts, **more)


def plan_of(spec: dict[str, Any], *nodes: JsonObject, **others: Any) -> Plan:
    cache = discovery_cache(profile(**spec), *others.get("objects", ()), nodes=nodes)
    return cache.plan(PROFILES, "p")


def verdict(plan: Plan) -> tuple[str, str, int | None]:
    assert plan.status is not None
    found = {one["type"]: one for one in plan.status["conditions"]}
    assert found["HardwareAvailable"]["reason"] == found["NodesReady"]["reason"]
    return plan.status["status"], found["NodesReady"]["reason"], plan.status.get("matchingNodes")


def words(plan: Plan) -> str:
    assert plan.status is not None
    return str(next(one["message"] for one in plan.status["conditions"] if one["type"] == "NodesReady"))


READY = ("Ready", "HardwareAvailable")
ABSENT = ("NotAvailable", "HardwareNotAvailable")


@pytest.mark.spec("PR-020", "PR-021", "PR-022", "PR-025")
@pytest.mark.parametrize(
    ("spec", "node", "expected"),
    [
        ({}, detected("n1", "MI300X", "default"), (*READY, 1)),
        ({}, detected("n1", "MI300X"), (*ABSENT, 0)),
        ({}, detected("n1", "MI300X", "CPX-NPS4"), (*ABSENT, 0)),
        ({"acceleratorPartitioningMode": "CPX-NPS4"}, detected("n1", "MI300X", "CPX-NPS4"), (*READY, 1)),
        ({"acceleratorPartitioningMode": "cpx-nps4"}, detected("n1", "MI300X", "CPX-NPS4"), (*READY, 1)),
        ({"acceleratorPartitioningMode": "partitioned"}, detected("n1", "MI300X", "CPX-NPS4"), (*READY, 1)),
        ({"acceleratorPartitioningMode": "partitioned"}, detected("n1", "MI300X", "default"), (*ABSENT, 0)),
        ({}, gpu_node(), (*READY, 1)),
        ({"acceleratorModel": "AMD_Instinct_MI300X"}, gpu_node(), (*READY, 1)),
        ({"acceleratorPartitioningMode": "CPX-NPS4"}, gpu_node(), (*ABSENT, 0)),
        ({"acceleratorModel": "MI325X"}, gpu_node(), (*ABSENT, 0)),
        ({"acceleratorModel": None}, gpu_node(), ("Ready", "NoAcceleratorSpecified", None)),
        ({"acceleratorType": "cpu", "acceleratorModel": "EPYC_9965"}, detected("n1", "EPYC_9965"), (*READY, 1)),
    ],
)
def test_a_node_has_the_accelerator(spec: dict[str, Any], node: JsonObject, expected: tuple[str, str, int]) -> None:
    assert verdict(plan_of(spec, node)) == expected


@pytest.mark.spec("PR-025", "PR-026")
def test_the_message_names_nodes_and_what_each_lacks() -> None:
    taint = {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}
    nodes = (
        detected("full", "MI300X", "default", gpus="1"),
        detected("parts", "MI300X", "CPX-NPS4"),
        detected("kept", "MI300X", "default", spec=taint),
    )
    plan = plan_of({"acceleratorCount": 2}, *nodes)
    assert verdict(plan) == (*ABSENT, 0)
    said = words(plan)
    assert "node full has 1 allocatable amd.com/gpu" in said
    assert "node parts is not unpartitioned (cpx-nps4)" in said
    assert "node kept has a taint that pods of services do not tolerate (team=x:NoSchedule)" in said
    assert verdict(plan_of({"acceleratorCount": 2}, *nodes, detected("n", "MI300X", "default", gpus=None)))[:2] == READY
    many = [detected(f"n{number}", "MI300X", "CPX-NPS4") for number in range(9)]
    assert words(plan_of({}, *many)).endswith("; and 4 more")
    assert "no node has the label" in words(plan_of({}))


@pytest.mark.spec("PR-025")
def test_a_node_that_an_autoscaler_adds_counts_unless_it_would_have_to_be_partitioned() -> None:
    config = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"gpus": {"provisionable": ["MI300X"]}})
    assert verdict(plan_of({}, objects=(config,))) == (*READY, 0)
    parts = {"acceleratorPartitioningMode": "CPX-NPS4"}
    assert verdict(plan_of(parts, objects=(config,))) == (*ABSENT, 0)


def amounts(node: JsonObject, **given: str) -> JsonObject:
    return {**node, "status": {"allocatable": {f"amd.com/{name}": amount for name, amount in given.items()}}}


PARTS = amounts(detected("n1", "MI300X", "CPX-NPS4"), cpx_nps4="64")
SINGLE = amounts(detected("n2", "MI300X", "CPX-NPS4"), gpu="64")
MODE = {"acceleratorPartitioningMode": "cpx-nps4"}


@pytest.mark.spec("PR-033", "PR-026")
@pytest.mark.parametrize(
    ("spec", "nodes", "resource", "count"),
    [
        (MODE, (PARTS,), "amd.com/cpx_nps4", 1),
        ({"acceleratorPartitioningMode": "partitioned"}, (PARTS,), "amd.com/cpx_nps4", 1),
        (MODE, (amounts(PARTS, gpu="0", cpx_nps4="64"),), "amd.com/cpx_nps4", 1),
        (MODE, (PARTS, SINGLE), "amd.com/gpu", 1),
        (MODE, (SINGLE,), "amd.com/gpu", 1),
        ({}, (amounts(detected("n1", "MI300X", "default"), spx_nps1="8"),), "amd.com/spx_nps1", 1),
        ({}, (amounts(gpu_node(), spx_nps1="8"),), "amd.com/spx_nps1", 1),
        ({}, (detected("n1", "MI300X", "default", gpus=None),), "amd.com/gpu", 1),
    ],
)
def test_parts_of_gpus_are_asked_for_as_the_nodes_name_them(
    spec: dict[str, Any], nodes: tuple[JsonObject, ...], resource: str, count: int
) -> None:
    plan = plan_of({**spec, "acceleratorCount": 4}, *nodes)
    assert verdict(plan) == (*READY, count)
    assert plan.status is not None
    asked = plan.status["resources"]["limits"]
    assert {name: amount for name, amount in asked.items() if "/" in name} == {resource: "4"}


@pytest.mark.spec("PR-033", "PR-025")
def test_too_few_parts_are_named_by_their_resource() -> None:
    plan = plan_of({**MODE, "acceleratorCount": 65}, PARTS)
    assert verdict(plan) == (*ABSENT, 0)
    assert "node n1 has 64 allocatable amd.com/cpx_nps4" in words(plan)


SCHEME = f"{ACCELERATOR}partitioning-scheme."
LABELS: tuple[dict[str, str], ...] = (
    {},
    {f"{ACCELERATOR}MI300X": "8"},
    {f"{ACCELERATOR}MI300X": "8", WHOLE: ""},
    {f"{ACCELERATOR}mi300x": "8", WHOLE: ""},
    {f"{ACCELERATOR}AMD_Instinct_MI300X": "8", WHOLE: ""},
    {f"{ACCELERATOR}MI300X": "8", f"{SCHEME}CPX-NPS4": ""},
    {f"{ACCELERATOR}MI300X": "8", f"{SCHEME}cpx-nps4": ""},
    {f"{ACCELERATOR}MI300X": "8", WHOLE: "", f"{SCHEME}CPX-NPS4": ""},
    {f"{ACCELERATOR}MI325X": "8", WHOLE: "", "amd.com/gpu.device-id": "74a1"},
    {f"{ACCELERATOR}MI300X": "8", f"{SCHEME}CPX-NPS4": "", "amd.com/gpu.device-id": "74a1"},
    {"amd.com/gpu.device-id": "74a1"},
    {"beta.amd.com/gpu.device-id": "74b5"},
    {"amd.com/gpu.device-id.74a1": "8"},
    {"beta.amd.com/gpu.device-id.74a9": "4", "beta.amd.com/gpu.family.AI": "4"},
    {"beta.amd.com/gpu.device-id.74a1": "4", "beta.amd.com/gpu.device-id.740f": "4"},
    {"amd.com/gpu.device-id": "ffff"},
    {"amd.com/gpu.device-id.ffff": "4"},
    {"amd.com/gpu.family": "MI300X"},
    {"beta.amd.com/gpu.family.MI300X": "4"},
)
MODELS = ("MI300X", "mi300x", "AMD_Instinct_MI300X", "MI325X", "MI210", "AMD-FFFF")


def leads_to(affinity: JsonObject, given: dict[str, str]) -> bool:
    """As the scheduler has it: one term is enough, and all of it must hold."""

    def holds(one: JsonObject) -> bool:
        found = given.get(one["key"])
        match one["operator"]:
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
            case _:
                return found in one["values"]

    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return any(all(map(holds, term["matchExpressions"])) for term in terms)


@pytest.mark.spec("PR-021", "PR-022", "PR-023", "PR-024")
@pytest.mark.parametrize("mode", ["unpartitioned", "partitioned", "cpx-nps4"])
@pytest.mark.parametrize("model", MODELS)
def test_a_profile_is_ready_exactly_where_its_pods_are_led(model: str, mode: str) -> None:
    spec = {"acceleratorModel": model, "acceleratorPartitioningMode": mode}
    for given in LABELS:
        plan = plan_of(spec, make(NODE, "n1", labels=given))
        assert plan.status is not None
        is_led = leads_to(plan.status["resolvedNodeAffinity"], given)
        assert verdict(plan) == ((*READY, 1) if is_led else (*ABSENT, 0)), given


def test_labels_of_older_labellers_are_enough() -> None:
    assert verdict(plan_of({"acceleratorModel": "MI210"}, make(NODE, "n1", labels=LABELS[14]))) == (*READY, 1)


@pytest.mark.spec("PR-023", "PR-024")
@pytest.mark.parametrize(
    ("spec", "terms"),
    [
        (
            {},
            [
                [(f"{ACCELERATOR}MI300X", "Exists"), (WHOLE, "Exists")],
                [("amd.com/gpu.device-id", "In"), (f"{ACCELERATOR}MI300X", "DoesNotExist")],
                [("beta.amd.com/gpu.device-id", "In"), (f"{ACCELERATOR}MI300X", "DoesNotExist")],
                *(
                    [(f"{prefix}amd.com/gpu.device-id.{one}", "Exists"), (f"{ACCELERATOR}MI300X", "DoesNotExist")]
                    for prefix in ("", "beta.")
                    for one in device_ids("MI300X")
                ),
            ],
        ),
        (
            {"acceleratorPartitioningMode": "partitioned"},
            [[(f"{ACCELERATOR}MI300X", "Exists"), (WHOLE, "DoesNotExist")]],
        ),
        (
            {"acceleratorPartitioningMode": "cpx-nps4"},
            [[(f"{ACCELERATOR}MI300X", "Exists"), (f"{ACCELERATOR}partitioning-scheme.CPX-NPS4", "Exists")]],
        ),
        ({"acceleratorModel": "NEW1"}, [[(f"{ACCELERATOR}NEW1", "Exists"), (WHOLE, "Exists")]]),
        ({"acceleratorType": "cpu", "acceleratorModel": "EPYC_9965"}, [[(f"{ACCELERATOR}EPYC_9965", "Exists")]]),
        ({"acceleratorModel": None}, None),
    ],
)
def test_pods_are_led_to_these_nodes_whichever_nodes_there_are(
    spec: dict[str, Any], terms: list[list[tuple[str, str]]] | None
) -> None:
    for nodes in ((), (gpu_node(), detected("n1", "MI300X", "default"))):
        status = plan_of(spec, *nodes).status
        assert status is not None
        affinity = status.get("resolvedNodeAffinity")
        found = affinity and [
            [(one["key"], one["operator"]) for one in term["matchExpressions"]]
            for term in affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        ]
        assert found == terms


@pytest.mark.spec("PR-006", "PR-007")
def test_a_profile_belongs_to_what_controls_it() -> None:
    model = make(AIM_MODEL, "qwen", spec={"image": "a/b:1"})
    of_model = make(AIM_PROFILE_SET, "derived", owners=[owner(model)], spec={})
    own = make(AIM_PROFILE_SET, "mine", spec={})
    service = make(AIM_SERVICE, "chat", spec={})
    for owners, origin, source in (
        ((model,), "discovered", "qwen"),
        ((of_model,), "derived", "qwen"),
        ((own,), "derived", None),
        ((service,), "derived", None),
        ((), "user-authored", None),
    ):
        body = profile(owners=tuple(owner(one) for one in owners))
        body["metadata"]["labels"] = {labels.SOURCE_MODEL: "other", labels.PROFILE_ORIGIN: "discovered"}
        status = discovery_cache(body, model, of_model, own).plan(PROFILES, "p").status
        assert status is not None
        assert (status["origin"], status.get("sourceModel", {}).get("name")) == (origin, source)


@pytest.mark.spec("PR-003", "PR-006", "PR-030")
def test_a_profile_reports_what_its_pods_need() -> None:
    annotated = {**profile()}
    annotated["metadata"] = {**annotated["metadata"], "annotations": {labels.ANNOTATION_BASE_IMAGE: "x/base:1.2.3"}}
    status = discovery_cache(annotated).plan(PROFILES, "p").status
    assert status is not None
    assert (status["deployable"], status["version"], status["baseImage"]) == (True, "1.2", "x/base:1.2.3")
    assert status["hardwareSummary"] == "1 x MI300X"
    assert status["resources"]["limits"] == {"memory": "48Gi", "amd.com/gpu": "1"}
    base = make(AIM_PROFILE, "p", spec={**PLAIN, "acceleratorPartitioningMode": "unpartitioned"})
    found = discovery_cache(base).plan(PROFILES, "p").status
    assert found is not None
    assert (found["deployable"], found["status"]) == (False, "Ready")
    assert next(one["reason"] for one in found["conditions"] if one["type"] == "Deployable") == "BaseProfile"


@pytest.mark.spec("PR-020")
def test_nodes_that_come_and_go_change_the_profile_and_write_nothing_else() -> None:
    cluster = discovery_cluster(profile(), nodes=[])
    cluster.settle(PROFILES, "p")
    assert cluster.value(PROFILES, "p") == "NotAvailable"
    cluster.put(NODES, gpu_node())
    cluster.settle(PROFILES, "p")
    assert cluster.value(PROFILES, "p") == "Ready"
    before = cluster.written()
    cluster.put(NODES, gpu_node("other", "74a5"))
    cluster.settle(PROFILES, "p")
    assert cluster.written() == before


@pytest.mark.spec("PR-084")
def test_a_profile_that_caches_ahead_has_a_cache_of_its_name() -> None:
    caching = {"enabled": True, "env": [{"name": "HF_TOKEN", "value": "x"}]}
    (child,) = discovery_cache(profile(caching=caching)).plan(PROFILES, "p").children
    assert (child.part, child.name, child.owned) == (PROFILE_CACHES, "p", True)
    assert child.body["spec"] == {
        "profileName": "p",
        "profileScope": "Namespace",
        "env": [{"name": "HF_TOKEN", "value": "x"}],
    }
    assert discovery_cache(profile()).plan(PROFILES, "p").children == ()
    foreign = make(AIM_PROFILE_CACHE, "p", spec={"profileName": "p", "profileScope": "Namespace"})
    plan = discovery_cache(profile(caching=caching), foreign).plan(PROFILES, "p")
    assert (plan.children, [one.reason for one in plan.events][-1]) == ((), "ProfileCacheNameConflict")
    base = make(AIM_PROFILE, "p", spec={**PLAIN, "caching": {"enabled": True}})
    assert discovery_cache(base).plan(PROFILES, "p").children == ()


@pytest.mark.spec("PR-007", "PR-020")
def test_a_profile_of_the_cluster_looks_at_the_same_nodes() -> None:
    shared = make(AIM_CLUSTER_PROFILE, "p", spec={**PLAIN, **WEIGHTS, "acceleratorPartitioningMode": "unpartitioned"})
    plan = discovery_cache(shared).plan(CLUSTER_PROFILES, "p", "")
    assert verdict(plan) == (*READY, 1)
