"""A selection waits for discoveries that could change it (SV-277…SV-279)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from support.builders import EARLIER, condition
from support.live import Live
from support.serving import (
    IMAGE,
    TEAM,
    aim_service,
    condition_of,
    living,
    message_of,
    model,
    node,
    overall,
    plan_for,
    run,
    serving_cache,
    template,
)

from aim_domain import Overrides, canonical_model
from aim_domain.parts import SERVICES as SERVICE_PART
from aim_domain.parts import TEMPLATES
from aim_serving.template import PATIENCE, Wait, wait_for
from aim_serving.template_selection import Criteria, Traits, select_template
from controller_runtime import JsonObject, StatusValue
from controller_runtime.testing import NOW

SERVICES = [f"twin-{number}" for number in range(11)]
LATER = NOW + timedelta(seconds=5)


def candidate(
    name: str, status: str = "Ready", *, since: datetime = NOW, cluster: bool = False, **known: Any
) -> Traits:
    usual: dict[str, Any] = {"type": "optimized", "metric": "latency", "precision": "fp8", "gpu_model": "MI300X"}
    values = {**usual, **known}
    return Traits(name, not cluster, StatusValue(status), since=since, **values)


def under_way(name: str = "p", status: str = "Progressing", *, since: datetime = NOW, **known: Any) -> Traits:
    return candidate(name, status, since=since, **{"type": "", **known})


def waited(
    *candidates: Traits,
    now: datetime = LATER,
    unoptimized: bool = False,
    overrides: JsonObject | None = None,
    present: Sequence[str] = ("MI300X", "MI325X"),
) -> Wait:
    criteria = Criteria(
        allow_unoptimized=unoptimized,
        overrides=None if overrides is None else Overrides.model_validate(overrides),
        gpu_present=lambda one: canonical_model(one) in present,
        normalise=canonical_model,
    )
    return wait_for(candidates, criteria, select_template(candidates, criteria), now)


def names(wait: Wait) -> set[str]:
    return {one.name for one in wait.awaited}


# Who is waited for


@pytest.mark.spec("SV-277")
@pytest.mark.parametrize(
    ("status", "is_awaited"),
    [("Pending", True), ("Progressing", True), ("NotAvailable", False), ("Degraded", False), ("Failed", False)],
)
def test_only_a_discovery_that_goes_on_is_waited_for(status: str, is_awaited: bool) -> None:
    usable = candidate("usable", metric="throughput")
    assert bool(names(waited(usable, under_way(status=status)))) is is_awaited


@pytest.mark.spec("SV-277")
@pytest.mark.parametrize(
    ("known", "is_awaited"),
    [
        ({"metric": "latency"}, True),
        ({"metric": ""}, True),
        ({"metric": "throughput", "precision": "fp4"}, True),
        ({"metric": "throughput", "precision": ""}, True),
        ({"metric": "throughput", "precision": "auto"}, True),
        ({"metric": "throughput", "gpu_model": "MI325X"}, True),
        ({"metric": "throughput", "gpu_model": "", "precision": "fp16"}, True),
        ({"metric": "throughput", "precision": "fp8"}, True),
        ({"metric": "throughput", "precision": "fp16"}, False),
        ({"metric": "latency", "type": "unoptimized"}, False),
        ({"metric": "latency", "gpu_model": "MI250X"}, False),
        ({"metric": "latency", "gpu_model": "MI210"}, False),
    ],
)
def test_only_who_could_win_or_tie_is_waited_for(known: dict[str, Any], is_awaited: bool) -> None:
    usable = candidate("usable", metric="throughput")
    wait = waited(usable, under_way(**known))
    assert bool(wait.awaited) is is_awaited
    assert wait.late == ()


@pytest.mark.spec("SV-277")
def test_an_unknown_gpu_is_at_best_one_that_the_cluster_has() -> None:
    usable = candidate("usable", precision="fp4")
    vague = under_way(gpu_model="", precision="fp8")
    assert names(waited(usable, vague)) == {"p"}
    assert names(waited(usable, vague, present=("MI300X",))) == set()


@pytest.mark.spec("SV-277")
def test_scope_comes_before_preference() -> None:
    far, near = candidate("far", cluster=True), candidate("near", metric="throughput")
    assert names(waited(far, under_way(metric="throughput", precision="fp32"))) == {"p"}, "the namespace's wins"
    assert names(waited(near, under_way(cluster=True, precision="fp4"))) == set(), "it is kept out by scope"


@pytest.mark.spec("SV-277")
@pytest.mark.parametrize(
    ("overrides", "known", "is_awaited"),
    [
        ({"metric": "throughput"}, {"metric": "latency", "precision": "fp4"}, False),
        ({"metric": "throughput"}, {"metric": "", "precision": "fp4"}, True),
        ({"precision": "fp16"}, {"precision": "auto"}, True),
        ({"precision": "fp16"}, {"precision": "fp8"}, False),
        ({"hardware": {"gpu": {"model": "MI300X"}}}, {"gpu_model": "", "precision": "fp4"}, True),
        ({"hardware": {"gpu": {"model": "MI300X"}}}, {"gpu_model": "MI325X"}, False),
    ],
)
def test_overrides_count(overrides: JsonObject, known: dict[str, Any], is_awaited: bool) -> None:
    usable = candidate("usable", metric="throughput", precision="fp16")
    assert bool(waited(usable, under_way(**known), overrides=overrides).awaited) is is_awaited


@pytest.mark.spec("SV-277")
def test_a_tie_is_waited_out_only_for_who_can_end_it() -> None:
    tied = (candidate("a"), candidate("b"))
    assert names(waited(*tied, under_way(precision="fp4"))) == {"p"}
    assert names(waited(*tied, under_way(precision="fp8"))) == set()


@pytest.mark.spec("SV-277")
def test_without_a_usable_template_there_is_nothing_to_hold_back() -> None:
    assert waited(under_way()) == Wait()
    assert waited(candidate("u", type="unoptimized"), under_way()) == Wait()


# For how long


@pytest.mark.spec("SV-278")
def test_the_wait_counts_from_the_cluster_s_moments() -> None:
    usable = candidate("usable", metric="throughput", since=NOW + timedelta(seconds=60))
    first = candidate("first", metric="throughput", precision="fp16", since=NOW)
    older, younger = (
        under_way("older", since=NOW - timedelta(hours=1)),
        under_way("younger", since=NOW + timedelta(seconds=100)),
    )
    wait = waited(usable, first, older, younger)
    assert (names(wait), wait.until) == ({"older", "younger"}, NOW + PATIENCE), "since the first one was Ready"
    wait = waited(usable, first, older, younger, now=NOW + PATIENCE)
    assert names(wait) == {"younger"}
    assert [one.name for one in wait.late] == ["older"]
    assert wait.until == NOW + timedelta(seconds=100) + PATIENCE
    over = waited(usable, first, older, younger, now=NOW + timedelta(seconds=100) + PATIENCE)
    assert (over.awaited, over.until, len(over.late)) == ((), None, 2)


@pytest.mark.spec("SV-278")
def test_a_clock_that_is_behind() -> None:
    both = candidate("usable", metric="throughput"), under_way()
    assert names(waited(*both, now=NOW - timedelta(seconds=3))) == {"p"}, "a little, as clocks are"
    assert names(waited(*both, now=NOW - timedelta(hours=1))) == set()


# Eleven identical services


LATENCY = template("latency", metric="latency", status="Progressing")
THROUGHPUT = template("throughput", metric="throughput", status="Progressing")


def twins() -> Live:
    services = [aim_service(name, model={"image": IMAGE}) for name in SERVICES]
    return living(*services, model(), node(), LATENCY, THROUGHPUT)


def ends(cache: Live, name: str, status: str, at: datetime) -> None:
    """Let a discovery end."""
    ready = condition("Ready", status == "Ready", "AllComponentsReady" if status == "Ready" else status, since=at)
    metric = template(name, metric=name, status=status, more_status={"conditions": [ready]})
    cache.put(TEMPLATES, metric)


def everybody(cache: Live, now: datetime) -> set[tuple[str, str]]:
    """One pass of each service, carried out; which templates they have, and what they say of it."""
    cache.until(now)
    reported = set()
    for name in SERVICES:
        plan = run(cache, name)
        reason = condition_of(plan, "TemplateReady")
        assert plan.status is not None
        reported.add(((plan.status.get("resolvedTemplate") or {}).get("name", ""), reason[1] if reason else ""))
    return reported


@pytest.mark.spec("SV-277", "AT-164")
@pytest.mark.parametrize("order", list(permutations(["latency", "throughput"])))
def test_identical_services_get_the_same_template_whichever_discovery_ends_first(order: tuple[str, str]) -> None:
    cache = twins()
    assert everybody(cache, NOW) == {("", "TemplateNotReady")}
    ends(cache, order[0], "Ready", LATER)
    between = everybody(cache, LATER)
    assert between == ({("", "TemplateSelectionPending")} if order[0] == "throughput" else {("latency", "Resolved")})
    ends(cache, order[1], "Ready", LATER + timedelta(seconds=5))
    assert everybody(cache, LATER + timedelta(seconds=5)) == {("latency", "Resolved")}


@pytest.mark.spec("SV-277", "AT-164")
def test_who_waits_says_for_whom_and_until_when() -> None:
    cache = twins()
    ends(cache, "throughput", "Ready", LATER)
    plan = plan_for(cache, SERVICES[0], now=LATER + timedelta(seconds=10))
    message = message_of(plan, "TemplateReady")
    assert overall(plan) == "Pending"
    assert f"AIMServiceTemplate {TEAM}/throughput is ready" in message
    assert f"AIMServiceTemplate {TEAM}/latency" in message
    assert f"{LATER + PATIENCE:%H:%M:%SZ}" in message
    assert plan.requeue_after == PATIENCE.total_seconds() - 10, "it looks again when the wait is over, not before"
    assert plan.children == ()


@pytest.mark.spec("SV-277")
@pytest.mark.parametrize("status", ["Failed", "NotAvailable", "Degraded"])
def test_a_discovery_that_fails_ends_the_wait(status: str) -> None:
    cache = twins()
    ends(cache, "throughput", "Ready", LATER)
    assert everybody(cache, LATER) == {("", "TemplateSelectionPending")}
    ends(cache, "latency", status, LATER)
    assert everybody(cache, LATER) == {("throughput", "Resolved")}


@pytest.mark.spec("SV-278", "SV-279", "AT-165")
def test_a_discovery_that_never_ends_is_waited_for_once() -> None:
    cache = twins()
    ends(cache, "throughput", "Ready", LATER)
    assert everybody(cache, LATER + PATIENCE - timedelta(seconds=1)) == {("", "TemplateSelectionPending")}
    over = LATER + PATIENCE
    assert everybody(cache, over) == {("throughput", "ResolvedAfterWait")}
    plan = plan_for(cache, SERVICES[0], now=over)
    assert f"AIMServiceTemplate {TEAM}/latency" in message_of(plan, "TemplateReady")
    assert condition_of(plan, "TemplateReady") == ("True", "ResolvedAfterWait"), "it is told as long as that is used"
    ends(cache, "latency", "Ready", over)
    assert everybody(cache, over) == {("throughput", "ResolvedAfterWait")}


def reference(name: str, uid: str) -> JsonObject:
    return {"name": name, "namespace": TEAM, "scope": "Namespace", "kind": "k", "uid": uid}


@pytest.mark.spec("SV-279")
@pytest.mark.parametrize("status", ["Ready", "Degraded"])
def test_with_a_stored_template_nothing_is_waited_for(status: str) -> None:
    former = template("stored", precision="fp32", status=status)
    service = aim_service(status={"resolvedTemplate": reference("stored", former["metadata"]["uid"])})
    usable = template("usable", metric="throughput", precision="fp4")
    plan = plan_for(serving_cache(service, model(), node(), LATENCY, usable, former))
    assert plan.status is not None
    assert plan.status["resolvedTemplate"]["name"] == ("stored" if status == "Ready" else "usable")
    assert plan.requeue_after is None


@pytest.mark.spec("SV-277", "SV-279")
@pytest.mark.parametrize("of", [None, "another-model"])
def test_a_reference_to_nothing_of_this_model_is_no_choice(of: str | None) -> None:
    former = template("stored", of or "qwen")
    service = aim_service(status={"resolvedTemplate": reference("stored", former["metadata"]["uid"])})
    usable = template("usable", metric="throughput", precision="fp4")
    there = [] if of is None else [former]
    plan = plan_for(
        serving_cache(service, model(), node(), LATENCY, usable, *there), now=EARLIER + timedelta(seconds=5)
    )
    assert condition_of(plan, "TemplateReady") == ("False", "TemplateSelectionPending")


@pytest.mark.spec("SV-279")
def test_messages_name_a_few_of_many() -> None:
    many = [template(f"late-{number:03}", status="Progressing") for number in range(30)]
    usable = template("usable", metric="throughput", precision="fp4")
    cache = serving_cache(aim_service(), model(), node(), usable, *many)
    said = message_of(plan_for(cache), "TemplateReady")
    assert "late-007 and 22 more" in said
    assert "late-008" not in said


@pytest.mark.spec("SV-279")
def test_who_names_the_template_that_is_used_is_reported_no_more_of_the_wait() -> None:
    cache = twins()
    ends(cache, "throughput", "Ready", LATER)
    assert everybody(cache, LATER + PATIENCE) == {("throughput", "ResolvedAfterWait")}
    named = aim_service(model={"image": IMAGE}, template={"name": "throughput"})["spec"]
    cache.change(SERVICE_PART, SERVICES[0], spec=named)
    assert condition_of(plan_for(cache, SERVICES[0]), "TemplateReady") == ("True", "Resolved")


@pytest.mark.spec("SV-279")
def test_a_named_template_is_not_waited_for() -> None:
    cache = serving_cache(
        aim_service(template={"name": "named"}), model(), node(), LATENCY, template("named", metric="throughput")
    )
    assert condition_of(plan_for(cache), "TemplateReady") == ("True", "Resolved")
