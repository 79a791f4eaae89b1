"""Admission and eviction by processes that end between any two writes, and by leaders that follow each other.

The product's executor and client write to the embedded control plane; whatever happens, no limit is exceeded and
nothing that is used, protected or without priority goes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.artifacts import TEAM, children_of, source, template, template_cache
from support.builders import make, owner
from support.eviction import Full, limited, sized, workload

from aim_domain import labels
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACTS,
    CLUSTER_RUNTIME_CONFIGS,
    INFERENCE_SERVICES,
    TEMPLATE_CACHES,
)
from controller_runtime import loads
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM

GI = 1 << 30
OLD = (
    sized("idle", age=9, retentionPriority=0),
    sized("used", age=8, retentionPriority=0),
    sized("dear", age=7, retentionPriority=1),
    sized("kept", age=6),
)
LIMIT = 40 * GI


def full() -> Full:
    """Forty of forty GiB; a cache that nobody wants lists the one that goes first, and another one is served."""
    known = Full(template(source("org/idle", "hf://org/idle")), old=OLD, quota=limited("40Gi"))
    known.add(template_cache(), workload("chat", known.claim_of("used")))
    known.settle(TEMPLATE_CACHES, "qwen")
    known.add(sized("x", size="20Gi"))
    known.later(2)
    return known


def names(known: Full) -> list[str]:
    return sorted(known.names(ARTIFACTS))


def is_settled(known: Full) -> bool:
    annotations = known.raw(ARTIFACTS, "x")["metadata"]["annotations"]
    return known.status(ARTIFACTS, "x").get("persistentVolumeClaim") is not None and (
        labels.ANNOTATION_STORAGE_CLAIM not in annotations
    )


def check(known: Full) -> None:
    assert known.allocated() <= LIMIT
    assert {"used", "kept", "x"} <= set(names(known))


def check_end(known: Full) -> None:
    assert names(known) == ["kept", "used", "x"]
    assert known.allocated() == LIMIT
    annotations = known.raw(TEMPLATE_CACHES, "qwen")["metadata"]["annotations"]
    assert loads(annotations[labels.ANNOTATION_EVICTED_SOURCES]) == {"hf://org/idle": "uid-idle"}
    assert known.condition(TEMPLATE_CACHES, "qwen", "ArtifactsReady") == ("False", "Evicted")


@pytest.mark.spec("AR-447", "AR-449", "AR-480", "AR-482", "AR-801", "AR-804")
@pytest.mark.parametrize("writes", [1, 2, 3])
def test_processes_that_end_after_a_few_writes_come_to_the_same(writes: int) -> None:
    known = full()
    for _ in range(60):
        known.listed()
        known.crash(ARTIFACTS, "x", writes=writes)
        check(known)
        known.crash(TEMPLATE_CACHES, "qwen", writes=writes)
        check(known)
        if is_settled(known):
            break
    else:
        pytest.fail("it does not come to an end")
    known.settle(TEMPLATE_CACHES, "qwen")
    check_end(known)


@pytest.mark.spec("AR-447", "AR-449", "AR-480", "AR-801")
def test_one_process_may_end_after_any_write() -> None:
    for writes in count(1):
        known = full()
        known.listed()
        crashed = known.crash(ARTIFACTS, "x", writes=writes)
        check(known)
        known.settle(TEMPLATE_CACHES, "qwen")
        for _ in range(5):
            known.listed()
            known.run(ARTIFACTS, "x")
            check(known)
            known.settle(TEMPLATE_CACHES, "qwen")
        assert is_settled(known)
        check_end(known)
        if not crashed:
            break
    assert writes > 6, "claim, cache, two artifacts, status, Events"


@pytest.mark.spec("AR-447")
def test_a_claim_outlives_the_leader_that_evicted() -> None:
    known = full()
    known.listed()
    known.crash(ARTIFACTS, "x", writes=4)
    assert names(known) == ["kept", "used", "x"]
    known.add(sized("older", age=20))
    assert not children_of(known.run(ARTIFACTS, "older"), ARTIFACT_CLAIMS)
    assert children_of(known.run(ARTIFACTS, "x"), ARTIFACT_CLAIMS)


@pytest.mark.spec("AR-447", "AR-449", "SC-073")
def test_a_volume_that_the_former_leader_made_last_counts_although_the_view_does_not_show_it() -> None:
    known = Full(sized("x"), sized("y", age=1), quota=limited("15Gi"))
    maker = known.raw(ARTIFACTS, "y")
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Gi"}}}
    marks = {labels.CACHE_NAME: "y"}
    known.change(ARTIFACTS, "y", metadata={"annotations": {labels.ANNOTATION_PAUSED: "true"}})
    known.add_unseen(
        make(PERSISTENT_VOLUME_CLAIM, "of-y", namespace=TEAM, labels=marks, owners=[owner(maker)], spec=spec)
    )
    decided = known.run(ARTIFACTS, "x")
    assert children_of(decided, ARTIFACT_CLAIMS), "the view has room for it"
    assert known.names(ARTIFACT_CLAIMS) == ["of-y"]
    known.run(ARTIFACTS, "x")
    assert known.condition(ARTIFACTS, "x", "StorageQuotaReady") == ("False", "NamespaceQuotaExceeded")


# Any order of events


@dataclass
class Story:
    """A namespace in which things happen, and what must never happen."""

    known: Full
    limit: int = 30 * GI
    numbers: Iterator[int] = field(default_factory=count)
    listed: set[str] = field(default_factory=set)

    def used(self) -> set[str]:
        """Claims that are mounted, as far as anybody knows."""
        return self.listed | {
            volume["persistentVolumeClaim"]["claimName"]
            for one in self.known.all(INFERENCE_SERVICES)
            for volume in one["spec"]["predictor"]["volumes"]
        }

    def look(self, name: str, writes: int) -> None:
        """A pass, perhaps of a process that ends in it."""
        known, before = self.known, self.known.allocated()
        sacred = self.sacred()
        if writes:
            known.crash(ARTIFACTS, name, writes=writes)
        else:
            known.run(ARTIFACTS, name)
        left = set(known.names(ARTIFACTS))
        assert sacred <= left, "somebody went who must not"
        assert known.allocated() <= max(before, self.limit), "over the limit"

    def sacred(self) -> set[str]:
        """Artifacts that no pass may delete now."""
        used = self.used()
        claims = {
            one["metadata"]["ownerReferences"][0]["name"]: one["metadata"]["name"]
            for one in self.known.all(ARTIFACT_CLAIMS)
        }
        return {
            one["metadata"]["name"]
            for one in self.known.all(ARTIFACTS)
            if one["metadata"]["name"] not in claims
            or claims[one["metadata"]["name"]] in used
            or one["spec"].get("retentionPriority") is None
            or labels.ANNOTATION_EVICTION_PROTECTED in one["metadata"]["annotations"]
        }


def arrives(story: Story, number: int) -> None:
    """An artifact; every third one is never evicted."""
    name = f"n{next(story.numbers)}"
    priority = {} if number % 3 == 0 else {"retentionPriority": number % 3}
    protected = {labels.ANNOTATION_EVICTION_PROTECTED: ""} if number % 7 == 0 else None
    story.known.add(sized(name, age=number % 5, size=f"{5 + number % 16}Gi", annotations=protected, **priority))


def with_volume(story: Story, number: int) -> str | None:
    """Some artifact that has one."""
    owners = [one["metadata"]["ownerReferences"][0]["name"] for one in story.known.all(ARTIFACT_CLAIMS)]
    living = sorted(set(owners) & set(story.known.names(ARTIFACTS)))
    return living[number % len(living)] if living else None


def downloads(story: Story, number: int) -> None:
    name = with_volume(story, number)
    if name is not None and not story.known.status(ARTIFACTS, name).get("progress"):
        story.known.ready(name)


def is_deployed(story: Story, number: int) -> None:
    name = with_volume(story, number)
    if name is not None:
        workload_name = f"w{number % 3}"
        if workload_name not in story.known.names(INFERENCE_SERVICES):
            story.known.add(workload(workload_name, story.known.claim_of(name)))


def is_undeployed(story: Story, number: int) -> None:
    running = story.known.names(INFERENCE_SERVICES)
    if running:
        story.known.remove(INFERENCE_SERVICES, running[number % len(running)])


def is_deleted(story: Story, number: int) -> None:
    present = story.known.names(ARTIFACTS)
    if present:
        story.known.remove(ARTIFACTS, present[number % len(present)])


def is_limited(story: Story, number: int) -> None:
    story.limit = (20 + number % 20) * GI
    story.known.put(CLUSTER_RUNTIME_CONFIGS, limited(f"{20 + number % 20}Gi"))


def sticks(story: Story, number: int) -> None:
    """A volume stays in Terminating until somebody lets go of it."""
    claims = story.known.all(ARTIFACT_CLAIMS)
    if claims:
        chosen = claims[number % len(claims)]["metadata"]
        held = [] if chosen.get("finalizers") else ["example.com/held"]
        story.known.change(ARTIFACT_CLAIMS, chosen["name"], metadata={"finalizers": held})


def time_passes(story: Story, number: int) -> None:
    story.known.later([1, 15, 61, 700][number % 4])


def pods_are_listed(story: Story, number: int) -> None:
    claims = story.known.names(ARTIFACT_CLAIMS)
    story.listed = {claims[number % len(claims)]} if claims and number % 3 == 0 else set()
    story.known.listed(*story.listed)


def looks(story: Story, number: int) -> None:
    present = story.known.names(ARTIFACTS)
    if present:
        story.look(present[number % len(present)], number % 5)


EVENTS: tuple[Callable[[Story, int], None], ...] = (
    arrives,
    downloads,
    is_deployed,
    is_undeployed,
    is_deleted,
    is_limited,
    sticks,
    time_passes,
    pods_are_listed,
    looks,
    looks,
    looks,
)


@pytest.mark.spec("AR-445", "AR-446", "AR-449", "AR-461", "AR-463", "AR-465", "AR-480", "SC-072")
@settings(max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 59)), min_size=20, max_size=40))
def test_in_any_order_of_events_no_limit_is_exceeded_and_nobody_goes_who_is_used(
    events: list[tuple[Callable[[Story, int], None], int]],
) -> None:
    story = Story(
        Full(
            *(sized(f"m{number}", size="9Gi", retentionPriority=number % 2) for number in range(4)),
            quota=limited("30Gi"),
        )
    )
    for number in range(3):
        story.known.ready(f"m{number}")
    for event, number in events:
        event(story, number)
