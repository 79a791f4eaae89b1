"""What a service says of GPUs that its pods do not get: what nodes have, and what is free."""

from datetime import timedelta

import pytest
from support.builders import fact
from support.deciding import decide
from support.serving import (
    TEAM,
    aim_service,
    condition_of,
    message_of,
    model,
    node,
    plan_for,
    pod_events,
    predictor_pod,
    serving_cache,
    summaries_read,
    template,
    template_cache,
    workload,
)

from aim_domain.parts import NODES, SERVICES
from aim_domain.pods.facts import POD_EVENTS
from aim_serving.gpu import GPU_FREE, MOST_NODES, gpus_held
from aim_serving.service import SERVICE_RECONCILER
from controller_runtime import FACTS, Category, ClassifiedError, Effect, JsonObject
from controller_runtime.testing import NOW, BuiltCache

SHORT = "0/2 nodes are available: 2 Insufficient amd.com/gpu."
SERVICE = aim_service(template={"name": "qwen3-lat"})
NEEDS = "each replica needs 4 amd.com/gpu on one node"


def sized(name: str, count: int, *, unschedulable: bool = False, resource: str = "amd.com/gpu") -> JsonObject:
    spec = {"spec": {"unschedulable": True}} if unschedulable else {}
    return {**node(name), **spec, "status": {"allocatable": {resource: str(count)}}}


def waiting(text: str, *nodes: JsonObject, resource: str = "amd.com/gpu") -> BuiltCache:
    """A cache with a pod that no node takes."""
    container = {"name": "kserve-container", "image": "i:1", "resources": {"requests": {"cpu": "1", resource: "4"}}}
    pod = predictor_pod("Pending")
    around = (
        template(count=4),
        model(),
        template_cache("qwen3-lat-a04542d9"),
        workload(SERVICE, containers=[container]),
    )
    return serving_cache(SERVICE, *around, pod, pod_events(SERVICE, pod, ("FailedScheduling", text)), *nodes)


def said_of(cache: BuiltCache) -> str:
    plan = plan_for(cache)
    assert condition_of(plan, "InferenceServicePodsReady") == ("False", "FailedScheduling")
    return message_of(plan, "InferenceServicePodsReady")


def readings(cache: BuiltCache) -> list[Effect]:
    return [one for one in plan_for(cache).effects if one.kind != POD_EVENTS.name]


@pytest.mark.spec("SV-284", "SV-202")
@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ((), "no node has any"),
        (
            (sized("a", 3), sized("b", 1), sized("c", 1), sized("d", 8, unschedulable=True)),
            "nodes have 3 (MI300X), 1 (MI300X): no node is large enough",
        ),
        ((sized("a", 8),), "nodes have 8 (MI300X): they are in use, or the node does not suit"),
    ],
)
def test_gpus_that_a_pod_does_not_get(nodes: tuple[JsonObject, ...], said: str) -> None:
    assert said_of(waiting(SHORT, *nodes)) == f"{SHORT}; {NEEDS}; {said}"


@pytest.mark.spec("SV-284", "SV-288", "RC-157")
def test_the_resource_of_gpus_may_be_another() -> None:
    other = "example.com/accelerator"
    text = f"0/1 nodes are available: 1 Insufficient {other}."
    cache = waiting(text, sized("a", 8, resource=other), sized("b", 8), resource=other)
    assert said_of(cache).startswith(f"{text}; each replica needs 4 {other} on one node; nodes have 8")
    assert [one.params.get("allocatable") for one in readings(cache)] == [{"a": 8}]
    pod = {"spec": {"containers": [{"resources": {"requests": {other: "3", "cpu": "2"}}}]}}
    assert gpus_held(pod) == {other: 3}


@pytest.mark.spec("SV-284", "SV-288")
@pytest.mark.parametrize("short_of", ["memory", "amd.com/gpu-partition"])
def test_nothing_is_said_or_read_for_what_is_not_short(short_of: str) -> None:
    text = f"0/1 nodes are available: 1 Insufficient {short_of}."
    cache = waiting(text, sized("a", 8))
    assert said_of(cache) == text
    assert readings(cache) == []


@pytest.mark.spec("SV-284", "FW-019")
def test_nothing_is_said_of_nodes_that_nobody_knows() -> None:
    cache = waiting(SHORT)
    cache.make_stale(NODES)
    assert said_of(cache) == f"{SHORT}; {NEEDS}"


@pytest.mark.spec("SV-287", "SV-288")
def test_pods_of_nodes_that_are_large_enough_are_read_while_a_pod_waits() -> None:
    cache = waiting(SHORT, sized("a", 8), sized("b", 3), sized("c", 4), sized("d", 8, unschedulable=True))
    (first,) = readings(cache)
    assert (first.kind, first.key, first.not_before) == (GPU_FREE.name, SERVICE["metadata"]["uid"], None)
    assert first.params == {"resource": "amd.com/gpu", "allocatable": {"a": 8, "c": 4}, "isAll": True}
    found(cache, {"a": 3, "c": 0})
    (again,) = readings(cache)
    assert (again.params, again.not_before) == (first.params, NOW + timedelta(seconds=30))
    assert readings(waiting(SHORT, sized("b", 3))) == [], "no node will ever be large enough"


def found(cache: BuiltCache, free: dict[str, int], *, is_all: bool = True, age: float = 0, has: int = 8) -> None:
    """Let the reading have ended so many seconds ago."""
    outcome = {"resource": "amd.com/gpu", "allocatable": dict.fromkeys(free, has), "isAll": is_all, "free": free}
    observed = NOW - timedelta(seconds=age)
    key = SERVICE["metadata"]["uid"]
    cache.put(FACTS, fact("serving", GPU_FREE.name, key, SERVICE, SERVICES, outcome=outcome, observed=observed))


@pytest.mark.spec("SV-287")
@pytest.mark.parametrize(
    ("free", "said"),
    [
        ({"b": 1, "a": 3}, "free: 3 of 8 on a, 1 of 8 on b"),
        ({"b": 5, "a": 3}, "free: 5 of 8 on b, 3 of 8 on a; b has enough; another constraint excludes it"),
        (
            dict.fromkeys("gfedcba", 2),
            "free: 2 of 8 on a, 2 of 8 on b, 2 of 8 on c, 2 of 8 on d, 2 of 8 on e, no more on 2 others",
        ),
    ],
)
def test_where_gpus_are_free(free: dict[str, int], said: str) -> None:
    cache = waiting(SHORT, *(sized(name, 8) for name in free))
    found(cache, free)
    assert said_of(cache) == f"{SHORT}; {NEEDS}; {said}"


@pytest.mark.spec("SV-287")
def test_of_a_large_cluster_some_nodes_are_looked_at_and_the_record_stays_small() -> None:
    many = [f"gpu-{number:04}" for number in range(400)]
    cache = waiting(SHORT, *(sized(name, 8) for name in many))
    (effect,) = readings(cache)
    chosen = effect.params["allocatable"]
    assert (len(chosen), effect.params["isAll"]) == (MOST_NODES, False)
    view = cache.view()
    decide(SERVICE_RECONCILER, cache.object(SERVICES, TEAM, "qwen-chat"), view, NOW)
    assert sum(len(items) for items in view.reads.summaries.values()) < len(many) / 4
    found(cache, dict.fromkeys(chosen, 1), is_all=False)
    assert said_of(cache).endswith("(the freest of 20 nodes; others of this size were not looked at)")


@pytest.mark.spec("SV-287")
def test_what_is_not_known_now_is_not_reported() -> None:
    cache = waiting(SHORT, sized("a", 8))
    usual = said_of(cache)
    found(cache, {"a": 3}, age=119)
    assert "free: 3 of 8 on a" in said_of(cache)
    found(cache, {"a": 3}, age=121)
    assert said_of(cache) == usual
    refused = ClassifiedError(Category.INFRASTRUCTURE, "PodsNotListed", "no answer")
    key = SERVICE["metadata"]["uid"]
    cache.put(FACTS, fact("serving", GPU_FREE.name, key, SERVICE, SERVICES, failure=refused))
    assert said_of(cache) == usual


@pytest.mark.spec("SV-288", "FW-454")
def test_only_who_waits_is_woken_by_nodes() -> None:
    running = serving_cache(
        SERVICE,
        template(count=4),
        model(),
        template_cache("qwen3-lat-a04542d9"),
        workload(SERVICE, ready=True),
        predictor_pod("Running", ready=True),
        sized("a", 8),
    )
    assert not {group for group in summaries_read(running, "qwen-chat") if group[1] in ("gpu-nodes", "gpu-sizes")}
    assert {name for _, name, _ in summaries_read(waiting(SHORT, sized("a", 8)), "qwen-chat")} >= {"gpu-nodes"}


@pytest.mark.spec("SV-287")
@pytest.mark.parametrize(
    ("pod", "held"),
    [
        ({"containers": [{"gpu": 2}, {"gpu": 1}, {}]}, 3),
        ({"containers": [{"gpu": 1}], "initContainers": [{"gpu": 4}]}, 4),
        ({"containers": [{"gpu": 3}], "initContainers": [{"gpu": 2}]}, 3),
        ({"containers": [{"gpu": 3}], "initContainers": [{"gpu": 2, "restartPolicy": "Always"}]}, 5),
        ({"containers": [{"gpu": 2}], "phase": "Succeeded"}, 0),
        ({"containers": [{"gpu": 2}], "phase": "Failed"}, 0),
        ({"containers": [{"gpu": 2}], "phase": "Pending"}, 2),
        ({"containers": [{}]}, 0),
    ],
)
def test_what_a_pod_holds(pod: JsonObject, held: int) -> None:
    def container(given: JsonObject) -> JsonObject:
        requests = {"cpu": "1"} | ({"amd.com/gpu": str(given["gpu"])} if "gpu" in given else {})
        return {"resources": {"requests": requests}} | {key: given[key] for key in given if key != "gpu"}

    spec = {key: [container(one) for one in pod[key]] for key in ("containers", "initContainers") if key in pod}
    found = gpus_held({"spec": spec, "status": {"phase": pod.get("phase", "Running")}})
    assert found.get("amd.com/gpu", 0) == held
    assert "cpu" not in found
