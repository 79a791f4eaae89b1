"""What a service says of templates that it did not choose, and of GPUs that its pods do not get."""

from typing import Any

import pytest
from support.builders import condition
from support.serving import (
    TEAM,
    aim_service,
    cache,
    condition_of,
    message_of,
    model,
    node,
    plan_for,
    pod_events,
    predictor_pod,
    serving_world,
    template,
    workload,
)

from aim_domain.parts import NODES
from aim_serving.selection_report import LONGEST, MOST
from controller_runtime import JsonObject


def told(*templates: JsonObject, **spec: Any) -> tuple[str, list[str]]:
    """The reason, and what is said of each candidate."""
    plan = plan_for(serving_world(aim_service(**spec), model(), node(), *templates))
    found = condition_of(plan, "TemplateReady")
    assert found is not None
    _, _, listed = message_of(plan, "TemplateReady").partition(": ")
    return found[1], listed.split("; ")


@pytest.mark.spec("SV-282", "SV-102")
def test_candidates_that_are_not_ready() -> None:
    failed = template("b", status="Failed")
    failed["status"]["conditions"] = [condition("Ready", False, "DiscoveryFailed", "no profile fits")]
    reason, listed = told(template("a", status="Progressing"), failed, template("c", status="NotAvailable"))
    assert (reason, listed) == (
        "TemplateNotReady",
        [
            f"AIMServiceTemplate {TEAM}/a: is Progressing",
            f"AIMServiceTemplate {TEAM}/b: is Failed: DiscoveryFailed: no profile fits",
            f"AIMServiceTemplate {TEAM}/c: is NotAvailable",
        ],
    )


@pytest.mark.spec("SV-282", "SV-102")
def test_candidates_that_came_further_are_told_first() -> None:
    wanted = {"metric": "latency", "hardware": {"gpu": {"requests": 4, "model": "MI325X"}}}
    others = (
        template("failed", status="Failed"),
        template("plain", type_="unoptimized"),
        template("other", metric="throughput", count=2),
        template("far", gpu="MI325X", count=4),
    )
    reason, listed = told(*others, overrides=wanted)
    assert (reason, [one.partition(": ")[2] for one in listed]) == (
        "TemplateNotFound",
        [
            "needs 4 x MI325X, which no node has",
            "is for throughput instead of latency, MI300X instead of MI325X, 2 GPUs instead of 4",
            "its profile is unoptimized, not optimized",
            "is Failed",
        ],
    )


@pytest.mark.spec("SV-282", "SV-100")
def test_a_tie_says_what_the_best_are_like() -> None:
    reason, listed = told(template("a"), template("b", count=8), template("c", precision="fp16"))
    assert reason == "TemplateSelectionAmbiguous"
    text = "; ".join(listed)
    assert f"{TEAM}/a: optimized, 1 x MI300X, latency, fp8" in text
    assert f"{TEAM}/b: optimized, 8 x MI300X, latency, fp8" in text
    assert f"{TEAM}/c: comes after the others (optimized, 1 x MI300X, latency, fp16)" in text


@pytest.mark.spec("SV-282")
def test_the_list_is_bounded() -> None:
    many = [template(f"t{number:02}", status="Failed") for number in range(MOST + 12)]
    for one in many:
        one["status"]["conditions"] = [condition("Ready", False, "DiscoveryFailed", "x" * 5_000)]
    _, listed = told(*many)
    assert (len(listed), listed[-1]) == (MOST + 1, "and 12 more")
    assert max(map(len, listed)) <= LONGEST


def sized(name: str, count: int, *, unschedulable: bool = False) -> JsonObject:
    spec = {"spec": {"unschedulable": True}} if unschedulable else {}
    return {**node(name), **spec, "status": {"allocatable": {"amd.com/gpu": str(count)}}}


def scheduled(text: str, *nodes: JsonObject, stale: bool = False) -> str:
    """What is said of a pod that no node takes."""
    service = aim_service(template={"name": "qwen3-lat"})
    container = {"name": "kserve-container", "image": "i:1", "resources": {"requests": {"amd.com/gpu": "4"}}}
    pod = predictor_pod("Pending")
    around = (template(count=4), model(), cache("qwen3-lat-a04542d9"), workload(service, containers=[container]))
    world = serving_world(service, *around, pod, pod_events(service, pod, ("FailedScheduling", text)), *nodes)
    if stale:
        world.make_stale(NODES)
    plan = plan_for(world)
    assert condition_of(plan, "InferenceServicePodsReady") == ("False", "FailedScheduling")
    return message_of(plan, "InferenceServicePodsReady")


@pytest.mark.spec("SV-284", "SV-202")
@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ((), "each replica needs 4 amd.com/gpu on one node, and no node has any"),
        (
            (sized("a", 3), sized("b", 1), sized("c", 1), sized("d", 8, unschedulable=True)),
            "nodes have 3 (MI300X), 1 (MI300X): no node is large enough",
        ),
        ((sized("a", 8),), "nodes have 8 (MI300X): they are in use, or the node does not suit"),
    ],
)
def test_gpus_that_a_pod_does_not_get(nodes: tuple[JsonObject, ...], said: str) -> None:
    text = "0/2 nodes are available: 2 Insufficient amd.com/gpu."
    message = scheduled(text, *nodes)
    assert message.startswith(text)
    assert said in message
    assert scheduled("0/2 nodes are available: 2 Insufficient memory.", *nodes).endswith("memory.")


@pytest.mark.spec("SV-284", "FW-019")
def test_nothing_is_said_of_nodes_that_nobody_knows() -> None:
    said = scheduled("0/2 nodes are available: 2 Insufficient amd.com/gpu.", stale=True)
    assert said.endswith("each replica needs 4 amd.com/gpu on one node")
