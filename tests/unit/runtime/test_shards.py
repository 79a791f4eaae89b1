"""Which namespace belongs to which shard, and which shard a replica asks another one for."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aim_domain import DivisibleSettings
from aim_routing.service import definition
from controller_runtime.kube.lease import LeaseClaim
from controller_runtime.manager.leadership import choose_shard
from controller_runtime.shard import MOST_SHARDS, Shard, noted_count, shard_of, shards

COUNTS = st.integers(1, MOST_SHARDS)


@pytest.mark.spec("FW-890")
@given(st.text(min_size=1, max_size=63), COUNTS)
def test_each_namespace_belongs_to_one_shard(namespace: str, count: int) -> None:
    owners = [one for one in shards(count) if one.owns(namespace)]
    assert [one.index for one in owners] == [shard_of(namespace, count)]


@pytest.mark.spec("FW-890")
def test_the_shard_of_a_namespace_is_the_same_in_every_release() -> None:
    names = ["default", "team-a", "team-b", "ml-platform", "inference"]
    assert [shard_of(name, 4) for name in names] == [3, 1, 3, 3, 1]


@pytest.mark.spec("FW-890")
@pytest.mark.parametrize("count", [1, 2, 4, 16])
def test_cluster_scoped_objects_belong_to_the_shard_that_publishes(count: int) -> None:
    assert [one.index for one in shards(count) if one.owns("")] == [0]


@pytest.mark.spec("FW-890")
def test_a_thousand_namespaces_are_spread_evenly() -> None:
    counts = Counter(shard_of(f"team-{number}", 8) for number in range(1000))
    assert min(counts.values()) > 100


@pytest.mark.spec("FW-890")
def test_shard_0_has_the_lease_of_a_service_that_is_not_divided() -> None:
    assert [one.lease("aim-serving") for one in shards(3)] == ["aim-serving", "aim-serving-1", "aim-serving-2"]
    assert Shard().lease("aim-serving") == "aim-serving"


@pytest.mark.spec("FW-890")
@pytest.mark.parametrize(("divisible", "count"), [(False, 2), (True, 17), (True, 0)])
def test_a_service_that_counts_across_namespaces_is_not_divided(divisible: bool, count: int) -> None:
    declared = definition(DivisibleSettings())
    with pytest.raises(ValueError, match=f"routing cannot be divided into {count} shards"):
        replace(declared, divisible=divisible, shards=count)


@pytest.mark.spec("FW-891")
@pytest.mark.parametrize(
    ("noted", "expected"),
    [("4", 4), ("16", 16), ("", 1), ("0", 1), ("-2", 1), ("four", 1), ("٤", 1), ("²", 1), ("9" * 5000, 1)],
)
def test_an_annotation_that_is_no_number_of_shards_counts_as_one(noted: str, expected: int) -> None:
    assert noted_count({"aim.eai.amd.com/shards": noted}) == expected
    assert noted_count({}) == 1


def claims(own: str, holders: str, asked: str = "") -> list[LeaseClaim]:
    """One letter for each Lease's holder, and for who asks for it; a dot stands for none."""
    asked = asked.ljust(len(holders), ".")
    return [LeaseClaim(own, one.strip("."), other.strip(".")) for one, other in zip(holders, asked, strict=True)]


@pytest.mark.spec("FW-892")
@pytest.mark.parametrize(
    ("holders", "asked", "expected"),
    [
        ("AAAA", "", 3),
        ("AAAA", "...B", 2),
        ("AAAA", "..BB", None),
        ("AABB", "", None),
        ("AAB", "", None),
        ("AA", "", 1),
        ("A", "", None),
        ("AAA.", "", 2),
        ("....", "", None),
        ("CCCA", "", 2),
        ("AAAC", "..C.", 3),
    ],
)
def test_a_replica_asks_the_busiest_one_while_that_leads_two_more(
    holders: str, asked: str, expected: int | None
) -> None:
    assert choose_shard(claims("B", holders, asked)) == expected


@pytest.mark.spec("FW-892")
@given(COUNTS, st.integers(1, 6), st.integers(0, 10_000))
def test_any_distribution_comes_into_balance_and_stays_there(count: int, replicas: int, seed: int) -> None:
    chance = random.Random(seed)
    names = [str(number) for number in range(replicas)]
    holders = [chance.choice(names) for _ in range(count)]
    moves = 0
    for _ in range(count * replicas + 1):
        chance.shuffle(names)
        before = list(holders)
        for own in names:
            index = choose_shard([LeaseClaim(own, holder, "") for holder in holders])
            if index is not None:
                holders[index], moves = own, moves + 1
        if holders == before:
            break
    led = [Counter(holders)[name] for name in names]
    assert max(led) - min(led) <= 1
    assert moves <= count
