"""Which requests a fault rule strikes: plain data in, decisions out."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from embedded_apiserver.faults import Armed, FaultRule, Faults, Latency, Refusal, Stale, Subject, pinned

LOST = Refusal(code=500)
SUBJECT = Subject(frozenset({"create", "write"}), "pods", "", "team", "p", "aim-serving")


def _strikes(rule: FaultRule, requests: int) -> list[int]:
    armed = Armed(1, rule)
    return [number for number in range(1, requests + 1) if armed.strikes(random.Random(0))]


@pytest.mark.parametrize(
    ("rule", "struck"),
    [
        (FaultRule(fault=LOST), [1, 2, 3, 4, 5, 6]),
        (FaultRule(fault=LOST, times=2), [1, 2]),
        (FaultRule(fault=LOST, every=3), [3, 6]),
        (FaultRule(fault=LOST, skip=2), [3, 4, 5, 6]),
        (FaultRule(fault=LOST, skip=3, times=1), [4]),
        (FaultRule(fault=LOST, skip=1, every=2, times=2), [3, 5]),
    ],
)
def test_the_requests_that_are_struck(rule: FaultRule, struck: list[int]) -> None:
    assert _strikes(rule, 6) == struck


@pytest.mark.parametrize(
    ("covering", "rule"),
    [
        (True, FaultRule(fault=LOST)),
        (True, FaultRule(fault=LOST, verbs=frozenset({"write"}), resources=frozenset({"pods"}), subresource="")),
        (True, FaultRule(fault=LOST, namespace="team", name="p", user_agent="aim-")),
        (False, FaultRule(fault=LOST, verbs=frozenset({"get"}))),
        (False, FaultRule(fault=LOST, resources=frozenset({"pods.metrics.k8s.io"}))),
        (False, FaultRule(fault=LOST, subresource="status")),
        (False, FaultRule(fault=LOST, namespace="other")),
        (False, FaultRule(fault=LOST, name="q")),
        (False, FaultRule(fault=LOST, user_agent="kubectl")),
    ],
)
def test_the_requests_that_are_covered(covering: bool, rule: FaultRule) -> None:
    assert rule.covers(SUBJECT) == covering


def test_chance_is_repeatable_and_about_right() -> None:
    def struck(seed: int) -> list[bool]:
        faults = Faults(seed)
        faults.add(FaultRule(fault=LOST, probability=0.3))
        return [bool(faults.due(SUBJECT)) for _ in range(1000)]

    assert struck(1) == struck(1) != struck(2)
    assert 200 < sum(struck(1)) < 400


def test_all_rules_that_strike_take_effect_in_order() -> None:
    faults, slow = Faults(), Latency(seconds=1)
    faults.add(FaultRule(fault=slow))
    second = faults.add(FaultRule(fault=LOST))
    assert faults.due(SUBJECT) == [slow, LOST]
    faults.remove(second.id)
    assert faults.due(SUBJECT) == [slow]
    faults.remove()
    assert faults.due(SUBJECT) == []


@given(st.floats(0, 5), st.floats(0, 5))
def test_a_delay_is_within_its_jitter(seconds: float, jitter: float) -> None:
    assert seconds <= Faults().delay(Latency(seconds=seconds, jitter_seconds=jitter)) <= seconds + jitter


def test_a_former_state_is_that_of_the_rules_making() -> None:
    assert pinned(FaultRule(fault=Stale()), 7).fault == Stale(revision=7)
    assert pinned(FaultRule(fault=Stale(revision=3)), 7).fault == Stale(revision=3)


@pytest.mark.parametrize("rule", [{}, {"fault": {"kind": "nope"}}, {"fault": {"kind": "reset"}, "verb": "get"}])
def test_a_rule_is_checked(rule: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        FaultRule.model_validate(rule)
