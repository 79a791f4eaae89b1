"""Which failure an object is to have, and what it looks like, from plain data."""

import pytest

from aim_local.actors.failures import (
    ENDINGS,
    POD_FAILURES,
    Failure,
    Role,
    RuleError,
    WantedFailure,
    failure_for,
    first_match,
    parse_rule,
)
from aim_local.actors.gateways import gateway_status, route_parents
from aim_local.actors.kubelet import PULL_ERRORS, Past, back_off, crash_looping
from aim_local.actors.settings import EVERY_ACTOR, HARDWARE_ACTORS, Actor, UnknownActorError, parse_actors
from controller_runtime import JsonObject

NOW = "2026-01-01T12:00:00Z"


def pod(name: str = "chat-1", **labels: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": "u-9", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "docker.io/a/b:1"}]},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("crash:3", WantedFailure(Failure.CRASH, "3")),
        ("download=auth, predictor=slow-start:60", WantedFailure(Failure.SLOW_START, "60")),
        ("route:NotAllowedByListeners", None),
        ("pvc", None),
    ],
)
def test_an_annotation_names_failure_and_argument(text: str, expected: WantedFailure | None) -> None:
    assert failure_for(text, Role.PREDICTOR) == expected


def test_an_ending_takes_exit_code_log_and_message() -> None:
    ending = WantedFailure(Failure.CRASH, "42", "all is lost", "why").ending

    assert ending is not None
    assert (ending.code, ending.log, ending.message) == (42, "all is lost\n", "why")
    assert WantedFailure(Failure.OOM).ending == ENDINGS[Failure.OOM]
    assert WantedFailure(Failure.SLOW_START, "5").ending is None
    assert WantedFailure(Failure.SLOW_START, "5").seconds(30) == 5


@pytest.mark.parametrize(
    ("described", "holds"),
    [
        ({}, True),
        ({"kind": "Pod", "name": "chat-*"}, True),
        ({"kind": "Job"}, False),
        ({"namespace": "other"}, False),
        ({"labels": {"tier": "gold"}}, True),
        ({"labels": {"tier": "tin"}}, False),
        ({"role": "download"}, False),
    ],
)
def test_a_rule_holds_for_what_it_describes(described: JsonObject, holds: bool) -> None:
    rule = parse_rule({"failure": "oom", **described})

    found = first_match([rule], [pod(tier="gold")], Role.PREDICTOR, POD_FAILURES)

    assert found == (WantedFailure(Failure.OOM) if holds else None)
    assert parse_rule(rule.to_json()) == rule


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ({"failure": "rain"}, "failure: 'rain' is none; there are image-pull"),
        ({"failure": "oom", "role": "king"}, "role: 'king' is none"),
        ({"failure": "oom", "pod": "x"}, "pod: no such member"),
        ({"failure": "oom", "name": ["x"]}, "name: must be text"),
        ({"failure": "oom", "labels": "x"}, "labels: must be text"),
    ],
)
def test_a_wrong_rule_is_answered_with_what_is_wrong(body: JsonObject, reported: str) -> None:
    with pytest.raises(RuleError) as problem:
        parse_rule(body)

    assert reported in str(problem.value)


def test_actors_are_chosen_by_name_or_as_a_set() -> None:
    assert parse_actors("all") == EVERY_ACTOR
    assert parse_actors("hardware, keda") == HARDWARE_ACTORS | {Actor.KEDA}
    for wrong in ("cooks", "", ","):
        with pytest.raises(UnknownActorError, match="choose from all, hardware, nodes"):
            parse_actors(wrong)


@pytest.mark.parametrize(
    ("failure", "reported"),
    [
        (Failure.IMAGE_PULL, "rpc error: code = NotFound desc = failed to pull and unpack image"),
        (Failure.IMAGE_AUTH, "pull access denied"),
        (Failure.IMAGE_RATE_LIMIT, "429 Too Many Requests: toomanyrequests"),
    ],
)
def test_a_pull_error_reads_as_the_kubelets(failure: Failure, reported: str) -> None:
    assert reported in PULL_ERRORS[failure]("docker.io/a/b:1")


def test_the_back_off_names_the_real_seconds_and_the_last_end_is_kept() -> None:
    assert back_off(pod(), 1) == "back-off 10s restarting failed container=main pod=chat-1_ns(u-9)"
    assert "back-off 40s" in back_off(pod(), 3)
    assert "back-off 5m0s" in back_off(pod(), 9)

    status = crash_looping(pod(), NOW, Past(2, {"exitCode": 137, "reason": "OOMKilled"}))["containerStatuses"][0]

    assert status["restartCount"] == 2
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["reason"] == "OOMKilled"


ROUTE: JsonObject = {
    "metadata": {"name": "r", "namespace": "ns", "generation": 2},
    "spec": {"parentRefs": [{"name": "gw"}]},
}
GATEWAY: JsonObject = {"metadata": {"name": "gw", "namespace": "ns"}, "spec": {"listeners": [{"name": "http"}]}}


@pytest.mark.parametrize(
    ("reason", "refused", "holds"),
    [
        ("NotAllowedByListeners", "Accepted", "ResolvedRefs"),
        ("NoMatchingListenerHostname", "Accepted", "ResolvedRefs"),
        ("RefNotPermitted", "ResolvedRefs", "Accepted"),
    ],
)
def test_a_route_fails_for_the_reason_that_is_asked_for(reason: str, refused: str, holds: str) -> None:
    wanted = WantedFailure(Failure.ROUTE, reason)
    (entry,) = route_parents(ROUTE, lambda _: GATEWAY, lambda _: None, NOW, wanted)
    found = {one["type"]: (one["status"], one["reason"]) for one in entry["conditions"]}

    assert found == {refused: ("False", reason), holds: ("True", holds)}


def test_a_gateway_can_be_accepted_and_not_programmed() -> None:
    status = gateway_status(GATEWAY, NOW, WantedFailure(Failure.GATEWAY, "NoResources"))
    found = {one["type"]: one["reason"] for one in status["conditions"] if one["status"] == "False"}

    assert found == {"Programmed": "NoResources"}
    assert "addresses" not in status
