"""Eviction: who goes, for whom, in which order, and when."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.artifacts import (
    SERVICE,
    TEAM,
    Cluster,
    artifact,
    children_of,
    conditions_of,
    message_of,
    source,
    template,
    template_cache,
    value_of,
)
from support.builders import condition, make, owner
from support.eviction import SMALL, Full, limited, listing, predictor, sized, user, workload
from support.woken import woken as all_woken

from aim_artifacts.limits.eviction import Candidate, Choice, Evictables, Requester
from aim_artifacts.limits.mounts import MOUNTED_CLAIMS
from aim_artifacts.limits.quota import Refusal, Request, Volume, admit, on_their_way
from aim_domain import labels
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACT_JOBS,
    ARTIFACT_PODS,
    ARTIFACTS,
    CLUSTER_RUNTIME_CONFIGS,
    INFERENCE_SERVICES,
    PREDICTOR_PODS,
    RUNTIME_CONFIGS,
    SERVICES,
    TEMPLATE_CACHES,
)
from aim_domain.storage_limits import StorageLimits
from controller_runtime import Category, ClassifiedError, Effect, JsonObject, Part, canonical, loads
from controller_runtime.testing import NOW

GI = 1 << 30
MINE, OTHER = "a", "b"


def candidate(name: str, size: int = 1, priority: int = 0, used: str = "2026-01-01", space: str = MINE) -> Candidate:
    return Candidate(f"uid-{name}", space, name, f"claim-{name}", size, priority, used)


def requester(priority: int | None = None, *, demanded: bool = False, uid: str = "uid-x") -> Requester:
    return Requester(uid, MINE, priority, lambda: demanded)


def names(choice: Choice) -> list[str]:
    return [one.name for one in choice.victims]


# The choice


CANDIDATES = st.lists(
    st.builds(
        candidate,
        st.uuids().map(str),
        st.integers(1, 20),
        st.integers(0, 3),
        st.sampled_from(["2026-01-01", "2026-01-02", "2026-01-03"]),
        st.sampled_from([MINE, OTHER]),
    ),
    max_size=12,
    unique_by=lambda one: one.name,
)


@pytest.mark.spec("AR-462", "AR-463", "AR-466", "AR-467", "AR-468", "AR-470", "SC-063", "SC-064")
@given(
    CANDIDATES,
    st.tuples(st.integers(0, 60), st.integers(0, 80)),
    st.tuples(st.sampled_from([None, 0, 1, 2, 3]), st.booleans()),
    st.sets(st.integers(0, 11)),
)
def test_enough_is_freed_and_nobody_goes_in_vain(
    candidates: list[Candidate], needed: tuple[int, int], rank: tuple[int | None, bool], busy: set[int]
) -> None:
    (here, everywhere), (priority, demanded) = needed, rank
    used = {one.uid for number, one in enumerate(candidates) if number in busy}
    for_whom = requester(priority, demanded=demanded, uid=candidates[0].uid if candidates else "uid-x")
    evictables = Evictables(lambda: candidates, lambda one: one.uid in used)
    choice = evictables.choose(for_whom, here, everywhere)
    may_go = [
        one
        for one in candidates
        if one.uid not in used and one.uid != for_whom.uid and (demanded or priority is None or one.priority < priority)
    ]
    near, total = sum(one.size for one in may_go if one.namespace == MINE), sum(one.size for one in may_go)
    victims = choice.victims
    assert set(victims) <= set(may_go)
    if near < here or total < everywhere:
        assert not victims
        assert (choice.lacks_here, choice.lacks_everywhere) == (near < here, near >= here and total < everywhere)
        return
    assert (choice.lacks_here, choice.lacks_everywhere) == (False, False)
    assert sum(one.size for one in victims if one.namespace == MINE) >= here
    assert sum(one.size for one in victims) >= everywhere
    if victims:
        left = victims[:-1]
        spared = sum(one.size for one in left if one.namespace == MINE) >= here
        assert not (spared and sum(one.size for one in left) >= everywhere), "the last one went in vain"
    # Of those that would have helped, whoever stays comes later in the order than whoever goes.
    stays = [one for one in may_go if one not in victims]
    helping = victims if everywhere > sum(one.size for one in victims if one.namespace == MINE) else ()
    assert all(goes.order < stay.order or goes.namespace == MINE for goes in helping for stay in stays)
    near_going = [one for one in victims if one.namespace == MINE]
    assert all(goes.order < stay.order for goes in near_going for stay in stays if stay.namespace == MINE), (
        "somebody nearer to the end went first"
    )


@pytest.mark.spec("AR-467")
def test_the_order_is_priority_then_last_use_then_names() -> None:
    wanted = [
        candidate("old", priority=0, used="2026-01-01", space="z"),
        candidate("b", priority=0, used="2026-01-02", space="a"),
        candidate("c", priority=0, used="2026-01-02", space="a"),
        candidate("a", priority=0, used="2026-01-02", space="b"),
        candidate("dear", priority=1, used="2025-01-01", space="a"),
    ]
    evictables = Evictables(lambda: reversed(wanted))
    assert list(evictables.choose(requester(), 0, 5).victims) == wanted


@pytest.mark.spec("AR-463")
def test_nobody_is_asked_about_beyond_what_is_needed() -> None:
    asked: list[str] = []

    def is_in_use(one: Candidate) -> bool:
        asked.append(one.name)
        return one.name == "1"

    evictables = Evictables(lambda: [candidate(str(number)) for number in range(9)], is_in_use)
    assert names(evictables.choose(requester(), 2, 2)) == ["0", "2"]
    assert asked == ["0", "1", "2"]
    assert names(evictables.choose(requester(), 1, 1)) == ["3"], "and none is given away twice"
    assert asked == ["0", "1", "2", "3"]
    assert evictables.choose(requester(), 9, 9).lacks_here
    assert asked == ["0", "1", "2", "3"], "what is left cannot be enough"


@pytest.mark.spec("AR-466", "SC-070")
@pytest.mark.parametrize(
    ("priority", "demanded", "goes"), [(1, False, False), (2, False, True), (None, False, True), (1, True, True)]
)
def test_the_requester_rule(priority: int | None, demanded: bool, goes: bool) -> None:
    evictables = Evictables(lambda: [candidate("p", priority=1)])
    assert bool(evictables.choose(requester(priority, demanded=demanded), 1, 1).victims) is goes


# Who is served


def request(size: int, name: str = "x", space: str = MINE, created: str = "2026-01-02", **more: Any) -> Request:
    return Request(created, space, name, size * GI, uid=f"uid-{name}", **more)


def volume(size: int, space: str = MINE, *, leaving: bool = False) -> Volume:
    return Volume(space, size * GI, leaving)


def evictable(*sizes: int, space: str = MINE) -> Evictables:
    found = [candidate(str(number), size * GI, space=space) for number, size in enumerate(sizes)]
    return Evictables(lambda: found)


@pytest.mark.spec("AR-470", "SC-063", "SC-064", "SC-068")
def test_victims_are_chosen_for_what_is_missing_and_nothing_else() -> None:
    limits = StorageLimits(namespace=10 * GI)
    blocked = admit(request(5), (), [volume(8)], lambda _: limits, evictable(2, 2, 2))
    assert blocked is not None
    assert (blocked.reason, [one.name for one in blocked.victims]) == (Refusal.WAITING, ["0", "1"])
    elsewhere = admit(request(5), (), [volume(8), volume(6, OTHER)], lambda _: limits, evictable(6, space=OTHER))
    assert elsewhere is not None
    assert (elsewhere.reason, elsewhere.victims) == (Refusal.NAMESPACE, ())
    too_little = admit(request(5), (), [volume(8)], lambda _: StorageLimits(cluster=10 * GI), evictable(2))
    assert too_little is not None
    assert (too_little.reason, too_little.victims) == (Refusal.CLUSTER, ())
    too_large = admit(request(11), (), [volume(8)], lambda _: limits, evictable(8))
    assert too_large is not None
    assert (too_large.reason, too_large.victims) == (Refusal.TOO_LARGE, ())


@pytest.mark.spec("AR-448", "AR-470", "AR-481")
def test_what_is_leaving_is_waited_for_before_anybody_goes() -> None:
    limits = StorageLimits(namespace=10 * GI)
    waits = admit(request(5), (), [volume(4), volume(4, leaving=True)], lambda _: limits, evictable(4))
    assert waits is not None
    assert (waits.reason, waits.victims) == (Refusal.WAITING, ())
    more = admit(request(8), (), [volume(4), volume(4, leaving=True)], lambda _: limits, evictable(4))
    assert more is not None
    assert (more.reason, len(more.victims)) == (Refusal.WAITING, 1)


@pytest.mark.spec("AR-449", "AR-805")
def test_two_that_wait_do_not_count_on_the_same_bytes_nor_on_the_same_victims() -> None:
    limits = StorageLimits(namespace=10 * GI)
    first, second = request(4, "first", created="2026-01-01"), request(4, "second")
    volumes = [volume(10)]
    one = admit(first, (first, second), volumes, lambda _: limits, evictable(4, 4))
    other = admit(second, (first, second), volumes, lambda _: limits, evictable(4, 4))
    assert one is not None
    assert other is not None
    assert ([v.name for v in one.victims], [v.name for v in other.victims]) == (["0"], ["1"])
    volumes = [volume(6), volume(4, leaving=True)]
    other = admit(second, (first, second), volumes, lambda _: limits, evictable(4))
    assert other is not None
    assert [v.name for v in other.victims] == ["0"], "what leaves already is for the first"


@pytest.mark.spec("AR-447", "AR-471", "SC-071")
def test_what_was_freed_for_somebody_is_kept_for_it() -> None:
    limits = StorageLimits(namespace=10 * GI)
    holder = request(6, "holder", created="2026-01-05", claims=True)
    older = request(5, "older", created="2026-01-01")
    volumes = [volume(4)]
    assert admit(holder, (older, holder), volumes, lambda _: limits, Evictables()) is None
    refused = admit(older, (older, holder), volumes, lambda _: limits, Evictables())
    assert refused is not None
    assert refused.reason is Refusal.NAMESPACE
    assert on_their_way([older, holder], volumes, lambda _: limits, Evictables()) == [holder]
    # Also while its volumes have not gone yet, and from one that holds as well.
    small = request(2, "small", created="2026-01-01")
    full = [volume(4), volume(4, leaving=True)]
    kept = admit(small, (small, holder), full, lambda _: limits, Evictables())
    assert kept is not None
    assert "6 GiB are kept for artifacts that wait already" in kept.message
    assert admit(small, (small,), full, lambda _: limits, Evictables()) is None
    senior = request(5, "senior", created="2026-01-01", claims=True)
    assert admit(senior, (senior, holder), volumes, lambda _: limits, Evictables()) is not None


@pytest.mark.spec("AR-447", "AR-471")
def test_who_holds_a_claim_chooses_first_and_keeps_nothing_once_it_is_served() -> None:
    limits = StorageLimits(namespace=10 * GI)
    holder = request(4, "holder", created="2026-01-05", claims=True)
    older = request(4, "older", created="2026-01-01")
    both = (older, holder)
    found = [admit(one, both, [volume(10)], lambda _: limits, evictable(4, 4)) for one in (holder, older)]
    assert [[victim.name for victim in one.victims] for one in found if one is not None] == [["0"], ["1"]]
    assert admit(older, both, [volume(2)], lambda _: limits, Evictables()) is None


@pytest.mark.spec("AR-471", "AR-805")
def test_a_plan_to_evict_holds_up_nobody_who_fits() -> None:
    limits = StorageLimits(namespace=10 * GI)
    large, small = request(6, "large", created="2026-01-01"), request(2, "small")
    assert admit(small, (large, small), [volume(8)], lambda _: limits, evictable(8)) is None


REQUESTS = st.lists(
    st.builds(
        request,
        st.integers(1, 12),
        st.uuids().map(str),
        st.sampled_from([MINE, OTHER]),
        st.sampled_from(["2026-01-01", "2026-01-02"]),
        claims=st.booleans(),
        priority=st.sampled_from([None, 0, 2]),
    ),
    max_size=6,
    unique_by=lambda one: one.name,
)
VOLUMES = st.lists(
    st.builds(volume, st.integers(1, 8), st.sampled_from([MINE, OTHER]), leaving=st.booleans()), max_size=5
)
LIMITS = st.builds(
    StorageLimits,
    st.none() | st.integers(0, 30).map(lambda size: size * GI),
    st.none() | st.integers(0, 40).map(lambda s: s * GI),
)


@pytest.mark.spec("AR-449", "AR-445", "AR-470")
@given(REQUESTS, VOLUMES, LIMITS, CANDIDATES)
def test_decisions_over_one_cache_fit_together(
    requests: list[Request], volumes: list[Volume], limits: StorageLimits, candidates: list[Candidate]
) -> None:
    found = {
        one.key: admit(one, requests, volumes, lambda _: limits, Evictables(lambda: candidates)) for one in requests
    }
    made = [one for one in requests if found[one.key] is None]
    after = [*volumes, *(Volume(one.namespace, one.size) for one in made)]
    if made:
        assert limits.cluster is None or sum(one.size for one in after) <= limits.cluster
    for space in {one.namespace for one in made}:
        used = sum(one.size for one in after if one.namespace == space)
        assert limits.namespace is None or used <= limits.namespace
    victims = [victim.uid for blocked in found.values() if blocked is not None for victim in blocked.victims]
    assert len(victims) == len(set(victims)), "evicted twice"
    served = {one.key for one in on_their_way(requests, volumes, lambda _: limits, Evictables(lambda: candidates))}
    can_go_on = {one.key for one in requests if (blocked := found[one.key]) is None or blocked.victims}
    assert served == can_go_on, "those are worth a pass"


# Lives


IDLE = (sized("a", age=3, retentionPriority=0), sized("b", age=2))


@pytest.mark.spec("AR-460", "AR-461", "AR-470", "AR-480", "AR-481", "AR-482", "AR-485", "AR-486")
def test_an_idle_artifact_goes_and_its_room_is_used() -> None:
    known = Full(sized("x"), old=IDLE)
    waits = known.run(ARTIFACTS, "x")
    assert conditions_of(waits)["StorageQuotaReady"] == conditions_of(waits)["Ready"] == ("False", "WaitingForEviction")
    assert not waits.deletes, "not before pods were listed"
    known.listed()
    plan = known.run(ARTIFACTS, "x")
    assert [(delete.part, delete.name, delete.uid) for delete in plan.deletes] == [(ARTIFACTS, "a", "uid-a")]
    assert value_of(plan) == "Pending"
    assert message_of(plan, "StorageQuotaReady").endswith(
        "namespace ml-team uses 20 GiB of 20 GiB; 10 GiB must be freed"
    )
    assert not children_of(plan, ARTIFACT_CLAIMS)
    assert known.names(ARTIFACTS) == ["b", "x"]
    made = known.run(ARTIFACTS, "x")
    assert children_of(made, ARTIFACT_CLAIMS)
    assert conditions_of(made)["StorageQuotaReady"] == ("True", "QuotaAvailable")


@pytest.mark.spec("AR-447", "AR-480")
def test_the_claim_is_written_before_and_dropped_when_the_volume_is_there() -> None:
    known = Full(sized("x"), sized("older", age=1), old=IDLE)
    known.put(ARTIFACTS, sized("x", age=5))
    plan = known.evict_for("x")
    assert plan.patches[0].name == "x"
    assert (
        known.raw(ARTIFACTS, "x")["metadata"]["annotations"][labels.ANNOTATION_STORAGE_CLAIM] == "2026-11-21T12:00:00Z"
    )
    assert not children_of(known.run(ARTIFACTS, "older"), ARTIFACT_CLAIMS)
    known.settle(ARTIFACTS, "x")
    assert labels.ANNOTATION_STORAGE_CLAIM not in known.raw(ARTIFACTS, "x")["metadata"]["annotations"]


@pytest.mark.spec("AR-447", "AR-471", "SC-071")
def test_a_claim_is_kept_for_ten_minutes() -> None:
    known = Full(sized("x"), old=IDLE)
    known.evict_for("x")
    known.add(sized("older", age=9))
    assert not children_of(known.run(ARTIFACTS, "older"), ARTIFACT_CLAIMS)
    known.later(599)
    assert not children_of(known.run(ARTIFACTS, "older"), ARTIFACT_CLAIMS)
    known.later(1)
    assert children_of(known.run(ARTIFACTS, "older"), ARTIFACT_CLAIMS)


@pytest.mark.spec("AR-480", "AR-802")
def test_nobody_is_evicted_on_an_old_list_of_pods() -> None:
    known = Full(sized("x"), old=IDLE)
    assert known.run(ARTIFACTS, "x").effects
    known.listed()
    known.later(10)
    plan = known.run(ARTIFACTS, "x")
    assert (plan.deletes, [effect.kind for effect in plan.effects]) == ((), [MOUNTED_CLAIMS.name])
    known.listed()
    known.later(9)
    assert known.run(ARTIFACTS, "x").deletes


@pytest.mark.spec("AR-463", "AR-480")
def test_what_a_pod_of_others_mounts_stays_until_it_lets_go() -> None:
    known = Full(sized("x"), old=IDLE)
    known.run(ARTIFACTS, "x")
    known.listed(known.claim_of("a"))
    plan = known.run(ARTIFACTS, "x")
    assert conditions_of(plan)["StorageQuotaReady"] == ("False", "NamespaceQuotaExceeded")
    (again,) = plan.effects
    assert (again.key, again.not_before) == (TEAM, NOW + timedelta(seconds=60))
    known.later(60)
    known.listed()
    assert known.run(ARTIFACTS, "x").deletes


@pytest.mark.spec("AR-480", "AR-485")
def test_without_a_list_of_pods_nobody_goes_and_the_message_says_why() -> None:
    known = Full(sized("x"), old=IDLE)
    known.run(ARTIFACTS, "x")
    known.answer(
        Effect(MOUNTED_CLAIMS.name, TEAM), failure=ClassifiedError(Category.AUTH, "Forbidden", "pods cannot be listed")
    )
    plan = known.run(ARTIFACTS, "x")
    assert not plan.deletes
    assert message_of(plan, "StorageQuotaReady").endswith("; pods cannot be listed")
    (again,) = plan.effects
    assert again.not_before == NOW + timedelta(seconds=10)


@pytest.mark.spec("AR-480", "FW-120", "FW-130")
def test_the_evicted_and_the_one_it_goes_for_are_reported() -> None:
    known = Full(sized("x"), old=IDLE)
    plan = known.evict_for("x")
    evicted, triggered = (event for event in plan.events if event.of_deletes)
    assert evicted.about is not None
    assert (evicted.type, evicted.reason, evicted.about.name) == ("Warning", "Evicted", "a")
    assert evicted.message == (
        "evicted with retention priority 0, last used 2026-11-21T09:00:00Z: its 10 GiB are for AIMArtifact ml-team/x"
    )
    assert (triggered.type, triggered.reason, triggered.about) == ("Normal", "EvictionTriggered", None)
    assert triggered.message == "evicting ml-team/a frees 10 GiB"


@pytest.mark.spec("AR-460", "RC-116", "SC-065", "SC-066")
@pytest.mark.parametrize(
    ("a", "b", "default", "goes"),
    [
        ({}, {}, None, []),
        ({}, {}, 3, ["a"]),
        ({}, {"retentionPriority": 1}, 3, ["b"]),
        ({"annotations": {labels.ANNOTATION_EVICTION_PROTECTED: ""}}, {}, 3, ["b"]),
        ({"annotations": {labels.ANNOTATION_EVICTION_PROTECTED: "False"}}, {}, 3, ["a"]),
        ({"annotations": {labels.ANNOTATION_PAUSED: "true"}}, {}, 3, ["b"]),
    ],
    ids=["no priority", "default", "own beats default", "protected", "not protected", "paused"],
)
def test_who_may_be_evicted_at_all(a: JsonObject, b: JsonObject, default: int | None, goes: list[str]) -> None:
    known = Full(sized("x", retentionPriority=9), old=(sized("a", age=3), sized("b", age=2)))
    for name, members in (("a", a), ("b", b)):
        annotations = members.pop("annotations", {}) if "annotations" in members else {}
        spec = {**known.raw(ARTIFACTS, name)["spec"], **members}
        known.change(ARTIFACTS, name, spec=spec, metadata={"annotations": {**SMALL, **annotations}})
    if default is not None:
        local = make(
            AIM_RUNTIME_CONFIG, "default", namespace=TEAM, spec={"artifact": {"defaultRetentionPriority": default}}
        )
        known.put(RUNTIME_CONFIGS, local)
    assert known.victims() == goes


@pytest.mark.spec("AR-463", "AR-472", "SC-067")
@pytest.mark.parametrize("use", ["workload", "predictor pod", "artifact pod", "download", "cache"])
def test_who_is_used_stays_and_wakes_the_waiting_when_that_ends(use: str) -> None:
    known = Full(sized("x"), old=IDLE)
    claim, job = known.claim_of("a"), known.all(ARTIFACT_JOBS)[0]["metadata"]["name"]
    of_job = predictor(claim)
    of_job["metadata"]["labels"] = {labels.CACHE_TYPE: labels.CACHE_TYPE_ARTIFACT}
    begin: dict[str, Callable[[], object]] = {
        "workload": lambda: known.put(INFERENCE_SERVICES, workload("chat", claim)),
        "predictor pod": lambda: known.put(PREDICTOR_PODS, predictor(claim)),
        "artifact pod": lambda: known.put(ARTIFACT_PODS, of_job),
        "download": lambda: known.change(ARTIFACT_JOBS, job, status={"conditions": None}),
        "cache": lambda: (known.put(TEMPLATE_CACHES, listing("uid-a")), known.put(SERVICES, user())),
    }
    before: dict[str, tuple[Part[Any], JsonObject | None, JsonObject | None]] = {
        "workload": (INFERENCE_SERVICES, workload("chat", claim), None),
        "predictor pod": (PREDICTOR_PODS, predictor(claim), predictor(claim, "Succeeded")),
        "artifact pod": (ARTIFACT_PODS, of_job, {**of_job, "status": {"phase": "Failed"}}),
        "download": (ARTIFACT_JOBS, None, None),
        "cache": (SERVICES, user(), None),
    }
    begin[use]()
    assert known.victims() == []
    assert known.condition(ARTIFACTS, "x", "StorageQuotaReady") == ("False", "NamespaceQuotaExceeded")
    part, was, now = before[use]
    if use == "download":
        was = known.raw(ARTIFACT_JOBS, job)
        now = {**was, "status": {"conditions": [condition("Complete", True)]}}
    assert f"artifact:{TEAM}/x" in all_woken(SERVICE, known, part, was, now)


@pytest.mark.spec("AR-448", "AR-462")
def test_whose_volume_leaves_already_is_not_evicted() -> None:
    known = Full(sized("x", size="20Gi"), old=IDLE)
    known.change(ARTIFACT_CLAIMS, known.claim_of("a"), metadata={"finalizers": ["example.com/held"]})
    known.remove(ARTIFACT_CLAIMS, known.claim_of("a"))
    assert known.victims() == []
    assert known.condition(ARTIFACTS, "x", "StorageQuotaReady") == ("False", "NamespaceQuotaExceeded")
    known.change(ARTIFACTS, "b", spec={**known.raw(ARTIFACTS, "b")["spec"], "retentionPriority": 0})
    assert known.victims() == ["b"], "the rest is there already"


@pytest.mark.spec("AR-464")
@pytest.mark.parametrize(
    ("of_cache", "service", "demanded"),
    [
        ({}, user(), True),
        ({}, user(scope="Cluster"), False),
        ({"spec": {"templateScope": "Cluster"}}, user(scope="Cluster"), True),
        ({}, user(resolved="other"), False),
        ({}, user(mode="Dedicated"), False),
        ({}, user(deleting=NOW, finalizers=["f/f"]), False),
        ({"spec": {"mode": "Dedicated"}}, user(mode="Dedicated"), False),
        ({"spec": {"mode": "Dedicated"}, "owners": [owner(user())]}, user(mode="Dedicated"), True),
        ({"spec": {"mode": "Dedicated"}, "owners": [owner(user())]}, user(uid="another"), False),
        (
            {"spec": {"mode": "Dedicated"}, "owners": [owner(user())]},
            user(mode="Dedicated", deleting=NOW, finalizers=["f/f"]),
            False,
        ),
    ],
)
def test_which_caches_services_want(of_cache: JsonObject, service: JsonObject, demanded: bool) -> None:
    known = Full(sized("x"), old=IDLE)
    known.add(listing("uid-a", **of_cache), service)
    assert known.victims() == ([] if demanded else ["a"])


@pytest.mark.spec("AR-466", "SC-070")
@pytest.mark.parametrize("belongs", ["listed", "made", ""])
def test_for_a_cache_that_is_wanted_an_equal_goes(belongs: str) -> None:
    made = {"labels": {labels.TEMPLATE_CACHE_NAME: "qwen"}} if belongs == "made" else {}
    known = Full(old=(sized("p", retentionPriority=1), sized("b", age=2)))
    known.add({**sized("x", retentionPriority=1), "metadata": {**sized("x")["metadata"], **made}})
    known.add(listing("uid-x" if belongs == "listed" else "uid-z"), user())
    assert known.victims() == (["p"] if belongs else [])


@pytest.mark.spec("AR-472")
@pytest.mark.parametrize("change", ["priority", "protection", "last use", "default", "cluster default", "cache"])
def test_what_makes_somebody_evictable_wakes_the_waiting(change: str) -> None:
    known = Full(sized("x", retentionPriority=1), old=(sized("a", age=3), sized("b", age=2)))
    known.run(ARTIFACTS, "x")
    was = known.raw(ARTIFACTS, "a")
    if change in {"priority", "last use"}:
        now = {**was, "spec": {**was["spec"], "retentionPriority": 0}}
        if change == "last use":
            was = {**now, "status": {**now["status"], "lastUsed": "2026-11-21T08:00:00Z"}}
        found = all_woken(SERVICE, known, ARTIFACTS, was, now)
    elif change == "protection":
        now = {**was, "spec": {**was["spec"], "retentionPriority": 0}}
        annotations = {**was["metadata"]["annotations"], labels.ANNOTATION_EVICTION_PROTECTED: "true"}
        was = {**now, "metadata": {**now["metadata"], "annotations": annotations}}
        found = all_woken(SERVICE, known, ARTIFACTS, was, now)
    elif change == "cache":
        known.change(ARTIFACTS, "a", spec={**was["spec"], "retentionPriority": 0})
        known.put(SERVICES, user())
        empty = {**listing("uid-a"), "status": {}}
        found = all_woken(SERVICE, known, TEMPLATE_CACHES, listing("uid-a"), empty)
    else:
        part, kind = (
            (RUNTIME_CONFIGS, AIM_RUNTIME_CONFIG)
            if change == "default"
            else (CLUSTER_RUNTIME_CONFIGS, AIM_CLUSTER_RUNTIME_CONFIG)
        )
        for name in ("a", "b"):
            spec = {**known.raw(ARTIFACTS, name)["spec"], "runtimeConfigName": "own"}
            known.change(ARTIFACTS, name, spec=spec)
        own = make(kind, "own", namespace=TEAM, spec={})
        known.put(part, own)
        found = all_woken(SERVICE, known, part, own, {**own, "spec": {"artifact": {"defaultRetentionPriority": 0}}})
    assert f"artifact:{TEAM}/x" in found


@pytest.mark.spec("AR-472")
def test_nobody_is_woken_by_use_where_nothing_is_limited_or_nobody_could_go_on() -> None:
    known = Full(sized("x", size="30Gi"), old=IDLE)
    claim = known.claim_of("a")
    assert not all_woken(SERVICE, known, PREDICTOR_PODS, predictor(claim), None)
    known.remove(CLUSTER_RUNTIME_CONFIGS, "default")
    assert not all_woken(SERVICE, known, PREDICTOR_PODS, predictor(claim), None)


# Caches whose artifacts were evicted


SHARED = {labels.TEMPLATE_CACHE_NAME: "qwen"}


def idle_cache() -> Full:
    """A cache that nobody wants, whose artifact is evicted for another one."""
    known = Full(template(source("org/a", "hf://org/a")), old=IDLE)
    known.add(template_cache())
    known.settle(TEMPLATE_CACHES, "qwen")
    known.add(sized("x"))
    assert known.evict_for("x").deletes
    return known


@pytest.mark.spec("AR-480", "AR-482", "AR-490", "AR-570", "SC-069")
def test_an_idle_cache_does_not_make_an_evicted_artifact_again() -> None:
    known = idle_cache()
    plan = known.run(TEMPLATE_CACHES, "qwen")
    assert not plan.children
    assert conditions_of(plan)["ArtifactsReady"] == ("False", "Evicted")
    assert message_of(plan, "ArtifactsReady").endswith("hf://org/a")
    assert value_of(plan) == "Pending"
    assert "artifacts" not in (plan.status or {})
    assert known.names(ARTIFACTS) == ["b", "x"]
    assert not known.settle(TEMPLATE_CACHES, "qwen").patches


def noted(known: Cluster) -> JsonObject:
    """What the cache remembers of evictions."""
    annotations = known.raw(TEMPLATE_CACHES, "qwen")["metadata"].get("annotations") or {}
    return loads(str(annotations.get(labels.ANNOTATION_EVICTED_SOURCES, "{}")))


@pytest.mark.spec("AR-490", "AR-491")
def test_the_very_artifact_that_is_to_go_does_not_count_as_another() -> None:
    """A cache may look between the write to it and the deletion."""
    known = Full(template(source("org/a", "hf://org/a")), old=IDLE)
    evicted = canonical({"hf://org/a": "uid-a"}).decode()
    known.add(template_cache(annotations={labels.ANNOTATION_EVICTED_SOURCES: evicted}, generation=1))
    known.settle(TEMPLATE_CACHES, "qwen")
    known.change(TEMPLATE_CACHES, "qwen", metadata={"annotations": {labels.ANNOTATION_EVICTED_SOURCES: evicted}})
    known.settle(TEMPLATE_CACHES, "qwen")
    assert noted(known) == {"hf://org/a": "uid-a"}
    known.remove(ARTIFACTS, "a")
    known.settle(TEMPLATE_CACHES, "qwen")
    assert noted(known) == {"hf://org/a": "uid-a"}
    another = artifact("c", uid="uid-c", uri="hf://org/a", status={"status": "Pending"})
    known.add(another)
    plan = known.settle(TEMPLATE_CACHES, "qwen")
    assert noted(known) == {}
    assert conditions_of(plan)["ArtifactsReady"][1] != "Evicted"


@pytest.mark.spec("AR-491", "SC-069")
@pytest.mark.parametrize("why", ["service", "generation"])
def test_who_is_wanted_again_is_made_again(why: str) -> None:
    known = idle_cache()
    known.settle(TEMPLATE_CACHES, "qwen")
    assert noted(known) == {"hf://org/a": "uid-a"}
    if why == "service":
        assert f"template-cache:{TEAM}/qwen" in all_woken(SERVICE, known, SERVICES, None, user())
        known.put(SERVICES, user())
    else:
        known.apply(TEMPLATE_CACHES, "qwen", {"spec": {"runtimeConfigName": "default"}}, "user")
    plan = known.run(TEMPLATE_CACHES, "qwen")
    assert [body["spec"]["sourceUri"] for body in children_of(plan, ARTIFACTS)] == ["hf://org/a"]
    assert noted(known) == {}


@pytest.mark.spec("AR-490", "FW-019")
def test_while_services_cannot_be_looked_up_nothing_goes_and_nothing_is_made_again() -> None:
    known = idle_cache()
    known.make_stale(SERVICES)
    plan = known.run(TEMPLATE_CACHES, "qwen")
    assert not plan.children
    for mode in ("Shared", "Dedicated"):
        other = Full(sized("x"), listing("uid-a", spec={"mode": mode}, owners=[owner(user())]), old=IDLE)
        other.make_stale(SERVICES)
        assert other.victims() == []


@pytest.mark.spec("AR-487")
def test_a_cache_tells_why_its_artifact_is_blocked() -> None:
    known = Full(template(source("org/x", "hf://org/x")), sized("x"), old=(sized("a"), sized("b")))
    known.add(template_cache())
    known.run(ARTIFACTS, "x")
    plan = known.settle(TEMPLATE_CACHES, "qwen")
    assert value_of(plan) == "Pending"
    assert conditions_of(plan)["ArtifactsReady"] == ("False", "NamespaceQuotaExceeded")
    assert "needs 10 GiB" in message_of(plan, "ArtifactsReady")


# Last use


@pytest.mark.spec("AR-425", "AR-426", "AR-427")
def test_the_last_use_moves_with_the_generation_of_what_mounts_it() -> None:
    known = Full(old=IDLE)
    assert "lastUsed" not in known.status(ARTIFACTS, "a")
    claim = known.claim_of("a")
    known.later(60)
    known.put(INFERENCE_SERVICES, workload("chat", claim, created=NOW + timedelta(seconds=30)))
    known.settle(ARTIFACTS, "a")
    assert known.status(ARTIFACTS, "a")["lastUsed"] == "2026-11-21T12:00:30Z"
    assert labels.ANNOTATION_WORKLOAD_GENERATIONS not in known.raw(ARTIFACTS, "a")["metadata"]["annotations"]
    known.later(60)
    stored = known.raw(INFERENCE_SERVICES, "chat")
    predictor_spec = {**stored["spec"]["predictor"], "minReplicas": 2}
    known.change(INFERENCE_SERVICES, "chat", spec={"predictor": predictor_spec})
    assert known.raw(INFERENCE_SERVICES, "chat")["metadata"]["generation"] == 2
    known.settle(ARTIFACTS, "a")
    assert known.status(ARTIFACTS, "a")["lastUsed"] == "2026-11-21T12:02:00Z"
    known.later(60)
    known.settle(ARTIFACTS, "a")
    known.remove(INFERENCE_SERVICES, "chat")
    known.settle(ARTIFACTS, "a")
    assert known.status(ARTIFACTS, "a")["lastUsed"] == "2026-11-21T12:02:00Z", "it only moves forward"


@pytest.mark.spec("AR-426")
def test_a_change_that_cannot_be_written_down_is_seen_later_and_once() -> None:
    known = Full(old=IDLE)
    known.put(INFERENCE_SERVICES, workload("chat", known.claim_of("a"), created=NOW, generation=3))
    spec = known.raw(ARTIFACTS, "a")["spec"]
    known.change(ARTIFACTS, "a", spec={**spec, "runtimeConfigName": "absent"})
    known.settle(ARTIFACTS, "a")
    known.later(60)
    known.settle(ARTIFACTS, "a")
    assert known.status(ARTIFACTS, "a")["lastUsed"] == "2026-11-21T12:00:00Z"
    known.change(ARTIFACTS, "a", spec=spec)
    known.settle(ARTIFACTS, "a")
    assert known.status(ARTIFACTS, "a")["lastUsed"] == "2026-11-21T12:01:00Z"


@pytest.mark.spec("AR-426", "AR-472")
def test_a_change_of_generation_wakes_the_artifact_and_another_change_does_not() -> None:
    known = Full(old=IDLE)
    before = workload("chat", known.claim_of("a"))
    assert f"artifact:{TEAM}/a" in all_woken(
        SERVICE, known, INFERENCE_SERVICES, before, {**before, "metadata": {**before["metadata"], "generation": 2}}
    )
    assert not all_woken(SERVICE, known, INFERENCE_SERVICES, before, {**before, "status": {"url": "http://x"}})


@pytest.mark.spec("AR-443")
def test_a_limit_that_is_lowered_costs_nobody_anything_until_somebody_waits() -> None:
    known = Full(old=IDLE)
    known.put(CLUSTER_RUNTIME_CONFIGS, limited("15Gi"))
    for name in ("a", "b"):
        plan = known.run(ARTIFACTS, name)
        assert (plan.deletes, value_of(plan)) == ((), "Ready")
    known.add(sized("x", size="1Gi"))
    assert known.victims() == ["a"]
