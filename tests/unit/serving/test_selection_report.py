"""What a service says of templates that it did not choose."""

from typing import Any

import pytest
from support.builders import condition
from support.serving import (
    TEAM,
    aim_service,
    condition_of,
    message_of,
    model,
    node,
    plan_for,
    serving_cache,
    template,
)

from aim_serving.template_selection import LONGEST, MOST
from controller_runtime import JsonObject


def reported(*templates: JsonObject, **spec: Any) -> tuple[str, list[str]]:
    """The reason, and what is said of each candidate."""
    plan = plan_for(serving_cache(aim_service(**spec), model(), node(), *templates))
    found = condition_of(plan, "TemplateReady")
    assert found is not None
    _, _, listed = message_of(plan, "TemplateReady").partition(": ")
    return found[1], listed.split("; ")


@pytest.mark.spec("SV-282", "SV-102")
def test_candidates_that_are_not_ready() -> None:
    failed = template("b", status="Failed")
    failed["status"]["conditions"] = [condition("Ready", False, "DiscoveryFailed", "no profile fits")]
    reason, listed = reported(template("a", status="Progressing"), failed, template("c", status="NotAvailable"))
    assert (reason, listed) == (
        "TemplateNotReady",
        [
            f"AIMServiceTemplate {TEAM}/a: is Progressing",
            f"AIMServiceTemplate {TEAM}/b: is Failed: DiscoveryFailed: no profile fits",
            f"AIMServiceTemplate {TEAM}/c: is NotAvailable",
        ],
    )


@pytest.mark.spec("SV-282", "SV-102")
def test_candidates_that_came_further_are_reported_first() -> None:
    wanted = {"metric": "latency", "hardware": {"gpu": {"requests": 4, "model": "MI325X"}}}
    others = (
        template("failed", status="Failed"),
        template("plain", type_="unoptimized"),
        template("other", metric="throughput", count=2),
        template("far", gpu="MI325X", count=4),
    )
    reason, listed = reported(*others, overrides=wanted)
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
    reason, listed = reported(template("a"), template("b", count=8), template("c", precision="fp16"))
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
    _, listed = reported(*many)
    assert (len(listed), listed[-1]) == (MOST + 1, "and 12 more")
    assert max(map(len, listed)) <= LONGEST


@pytest.mark.spec("SV-282")
def test_what_contradicts_the_overrides_is_named() -> None:
    wanted = {"metric": "latency", "precision": "fp16", "hardware": {"gpu": {"requests": 2, "model": "MI300X"}}}
    others = (
        template("a", metric="throughput", count=2, precision="fp16"),
        template("b", precision="fp8", count=2),
        template("c", precision="", count=2),
        template("d", precision="fp16", count=4),
        template("e", precision="fp16", count=2, gpu="MI325X"),
    )
    _, listed = reported(*others, overrides=wanted)
    assert [one.partition(": ")[2] for one in listed] == [
        "is for throughput instead of latency",
        "is for fp8 instead of fp16",
        "is for no precision instead of fp16",
        "is for 4 GPUs instead of 2",
        "is for MI325X instead of MI300X",
    ]
