"""What the matrix holds against the platform: writes without a Lease, versions that fall back, plans with a memory."""

import random
from dataclasses import replace
from typing import Any

import pytest
from matrix.api_proxy import Written, acting_without_lease
from matrix.case import Case, Outcome, Scenario, UnknownCaseError, rounds, selected
from matrix.mirror import Seen
from matrix.oracle import ObjectKey, key_of
from matrix.r01_crashes import nth
from matrix.r03_stale_reads import regressions
from matrix.r06_pauses import most_seconds
from matrix.r09_poison import restless
from matrix.r10_soak import Usage, grown, shared_beyond
from matrix.r12_replicas import late, led_after

from aim_domain import labels
from controller_runtime import JsonObject
from controller_runtime.shard import shard_of

NAMES = {"serving": "aim-serving-0", "serving-1": "aim-serving-1"}


def lease(at: float, client: str, holder: str) -> Written:
    return Written(at, client, "patch", "leases.coordination.k8s.io", "", "aim-system", "aim-serving", 200, holder)


def write(at: float, client: str, status: int = 200) -> Written:
    return Written(at, client, "patch", "pods", "", "ns", "p", status)


@pytest.mark.spec("FW-473")
def test_a_write_of_a_process_that_does_not_hold_the_lease_is_reported() -> None:
    taken_over = [lease(0, "serving", "aim-serving-0"), lease(20, "serving-1", "aim-serving-1_x")]
    good = [write(1, "serving"), write(21, "serving-1"), write(22, "serving", status=409), write(23, "routing")]
    assert acting_without_lease([*good, *taken_over], NAMES) == []
    [reported] = acting_without_lease([*good, *taken_over, write(24, "serving")], NAMES)
    assert "serving patch pods ns/p 200 while aim-serving-1_x led" in reported


@pytest.mark.spec("FW-473", "FW-890")
def test_a_write_needs_the_lease_of_the_shard_of_its_namespace() -> None:
    index = shard_of("ns", 2)
    first, second = NAMES.values() if index == 0 else reversed(NAMES.values())
    leases = [
        replace(lease(0, "serving", holder), name=name, shards=2)
        for name, holder in (("aim-serving", first), ("aim-serving-1", second))
    ]
    assert acting_without_lease([*leases, write(1, "serving")], NAMES) == []
    [reported] = acting_without_lease([*leases, write(1, "serving-1")], NAMES)
    assert "serving-1 patch pods ns/p 200 while aim-serving-0, aim-serving-1 led" in reported


@pytest.mark.spec("FW-661")
def test_a_successor_leads_from_its_first_lease_on_and_is_reported_when_it_comes_late() -> None:
    before = [lease(1, "serving", "aim-serving-0_x"), lease(2, "serving-1", "aim-serving-0_x")]
    taken = [lease(18, "serving-1", "aim-serving-1_y"), lease(20, "serving-1", "aim-serving-1_y")]
    assert led_after([*before, *taken], "serving-1", 3) == 15
    assert led_after([lease(2, "serving-1", "aim-serving-1_y"), *taken], "serving-1", 3) == 15, "of an earlier term"
    never = led_after(before, "serving-1", 3)
    assert late({"routing": 15.0, "serving": never}, 20) == ["serving had no leader for inf s"]


@pytest.mark.spec("FW-890")
def test_a_successor_in_one_shard_does_not_lead_another() -> None:
    own, taken = lease(4, "serving-1", "aim-serving-1_y"), lease(18, "serving-1", "aim-serving-1_y")
    written = [replace(own, name="aim-serving"), replace(taken, name="aim-serving-1")]
    assert led_after(written, "serving-1", 3, "aim-serving-1") == 15


def test_every_case_of_a_crash_has_a_write_to_die_of() -> None:
    assert [nth(write, 3) for write in range(1, 8)] == [1, 2, 3, 1, 2, 3, 1]
    assert nth(5, 0) == 1, "who writes nothing is not asked for more"


def seen(kind: str, generation: int, *, deleted: bool = False, uid: str = "u") -> Seen:
    obj = {"metadata": {"uid": uid}, "status": {"observedGeneration": generation}}
    return Seen(ObjectKey(kind, "ns", "x"), obj, deleted)


@pytest.mark.spec("FW-473")
def test_a_status_that_falls_back_and_a_child_that_is_deleted_are_reported() -> None:
    assert regressions([seen("AIMService", 1), seen("AIMService", 2), seen("Pod", 0, deleted=True)]) == []
    assert regressions([seen("AIMService", 2), seen("AIMService", 1, uid="another")]) == []
    assert regressions([seen("AIMService", 2), seen("AIMService", 1)]) == [
        "AIMService ns/x observed generation 2, then 1"
    ]
    assert regressions([seen("HTTPRoute", 0, deleted=True)]) == ["deleted while wanted: HTTPRoute ns/x"]


@pytest.mark.parametrize(
    ("after", "reported"),
    [
        (Usage(7, 57.0, 40), []),
        (Usage(7, 59.0, 30), ["serving grew by 9.0 MiB, to 59"]),
        (Usage(7, 40.0, 43), ["serving has 13 more open files"]),
        (Usage(8, 40.0, 20), ["serving died: process 7 is now 8"]),
    ],
)
def test_a_process_that_holds_more_than_before_or_is_another_one_is_reported(after: Usage, reported: list[str]) -> None:
    assert grown({"serving": Usage(7, 50.0, 30)}, {"serving": after}) == reported


def child(kind: str, name: str, *, mode: str = "Shared", owned: bool = False, maker: str = "chat") -> JsonObject:
    metadata = {"name": name, "namespace": "ns", "labels": {labels.SERVICE_NAME: maker}}
    return {"kind": kind, "metadata": metadata | ({"ownerReferences": [{"uid": "u"}]} if owned else {}),
            "spec": {"mode": mode} if kind == "AIMTemplateCache" else {}}  # fmt: skip


def test_a_soak_discards_what_is_shared_and_leaves_what_is_dedicated_to_the_comparison() -> None:
    expected = {ObjectKey("AIMTemplateCache", "ns", name) for name in ("chat", "first")}
    kept = [
        child("AIMTemplateCache", "chat"),
        child("AIMTemplateCache", "leaked", mode="Dedicated", owned=True, maker="soak-1"),
        child("AIMTemplateCache", "leaked-ownerless", mode="Dedicated", maker="soak-1"),
        child("AIMArtifact", "leaked", owned=True),
        child("InferenceService", "leaked"),
    ]
    discarded = [
        child("AIMTemplateCache", "other"),
        child("AIMTemplateCache", "first", maker="soak-1"),
        child("AIMArtifact", "other"),
    ]
    assert shared_beyond([*kept, *discarded], expected) == [key_of(obj) for obj in discarded]


@pytest.mark.parametrize(
    ("clean", "resumed", "most"),
    [(4.0, 31.0, 5.0), (4.0, 6.0, 5.0), (4.0, 1.0, 8.0), (8.0, 31.0, 8.0)],
    ids=["all due", "all due after a short one", "a part not due yet", "a slow machine"],
)
def test_after_a_pause_what_was_due_has_five_seconds(clean: float, resumed: float, most: float) -> None:
    assert most_seconds(clean, resumed, 1.0) == most


async def _nothing(_: Any, __: random.Random) -> Outcome:
    return Outcome()


def scenario(name: str, count: int) -> Scenario:
    cases = [Case(name, f"c{number}", _nothing) for number in range(count)]
    more = [Case(name, "long", _nothing, needs=1000), Case(name, "single", _nothing, on_request=True)]
    return Scenario(name, name, "nothing", lambda: [*cases, *more])


SCENARIOS = [scenario("A", 2), scenario("B", 5)]


def test_a_seed_decides_order_and_randomness_of_a_case_whatever_else_runs() -> None:
    every = selected(SCENARIOS, "", 600)
    assert [list(map(str, some)) for some in rounds(every, 7)] == [list(map(str, some)) for some in rounds(every, 7)]
    assert [len(some) for some in rounds(every, 7)] == [2, 2, 1, 1, 1]
    case, again = every["B"][3], selected(SCENARIOS, "B/c3", 600)["B"][0]
    assert case.chance(7).random() == again.chance(7).random() != case.chance(8).random()


@pytest.mark.parametrize(
    ("only", "seconds", "names"),
    [
        ("A", 600, ["A/c0", "A/c1"]),
        ("A", 2000, ["A/c0", "A/c1", "A/long"]),
        ("A/long,B/single", 600, ["A/long", "B/single"]),
        ("B/c1, A/c0", 600, ["A/c0", "B/c1"]),
    ],
)
def test_only_names_scenarios_or_cases(only: str, seconds: float, names: list[str]) -> None:
    found = [str(case) for some in selected(SCENARIOS, only, seconds).values() for case in some]
    assert sorted(found) == names


def test_only_names_nothing_that_does_not_exist() -> None:
    with pytest.raises(UnknownCaseError, match="there is no R99; there are A, B"):
        selected(SCENARIOS, "A,R99", 600)


@pytest.mark.spec("FW-474")
def test_a_poison_that_is_written_at_rest_or_tried_too_often_is_reported() -> None:
    before = [write(1, "serving"), *(write(2, "serving", status=409) for _ in range(12))]
    quiet = [*before, lease(20, "serving", "aim-serving-0"), write(21, "kserve")]
    assert restless({"serving": 12, "routing": 0}, quiet, len(before)) == []
    [reported] = restless({"serving": 0, "routing": 0}, [*quiet, write(22, "routing")], len(before))
    assert reported.startswith("written at rest: ")
    assert "routing patch pods" in reported
    assert restless({"serving": 13}, before, len(before)) == ["serving tried 13 times in the first minute"]
    assert restless({"serving": 0}, [*before[:5], write(30, "serving", status=422)], 5) == []
    refused = [*before, write(3, "serving", status=409)]
    assert restless({"serving": 0}, refused, len(refused)) == ["serving tried 13 times in the first minute"]
