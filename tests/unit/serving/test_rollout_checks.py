"""Queries of Prometheus that decide about a rollout (SV-349)."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import fact, make
from support.serving import TEAM, aim_service, serving_cache

from aim_domain import AIMService, RolloutPhase, RolloutStatus
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG
from aim_domain.naming import inference_service_name
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, SERVICES
from aim_serving import SERVICE_NAME
from aim_serving.rollout_checks import ROLLOUT_CHECK, Checked, QueryResult, read_checks
from controller_runtime import FACTS, Category, ClassifiedError, JsonObject, to_json
from controller_runtime.testing import NOW, BuiltCache

CHECKS = {
    "prometheusUrl": "http://prometheus.example:9090",
    "checks": [{"name": "errors", "query": 'e{ns="$namespace",is="$inferenceservice"}', "max": "0.05"}],
}
STEP = RolloutStatus(phase=RolloutPhase.PROGRESSING, revision="v2", candidate="chat-next", since=NOW, step=1, weight=10)
BODY = aim_service()
SERVICE = AIMService.model_validate(BODY)
KEY = f"{SERVICE.uid}/v2/errors"


def cache(rollouts: JsonObject | None = None) -> BuiltCache:
    spec = {"rollouts": CHECKS if rollouts is None else rollouts}
    return serving_cache(make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec=spec))


def answered(value: float | None, seconds: int = 1) -> BuiltCache:
    """Prometheus has answered that long after the step began."""
    known = cache()
    moment, outcome = NOW + timedelta(seconds=seconds), to_json(QueryResult(value=value))
    known.put(FACTS, fact(SERVICE_NAME, ROLLOUT_CHECK.name, KEY, BODY, SERVICES, outcome=outcome, observed=moment))
    return known


def checked(known: BuiltCache, state: RolloutStatus | None = STEP) -> Checked:
    return read_checks(known.view(), SERVICE, state)


@pytest.mark.spec("SV-349")
def test_a_query_names_the_new_version_and_is_asked_again_half_a_minute_later() -> None:
    [effect] = checked(cache()).effects
    beside = inference_service_name("chat-next", TEAM)
    assert effect.params == {"url": CHECKS["prometheusUrl"], "query": f'e{{ns="{TEAM}",is="{beside}"}}'}
    assert (effect.key, effect.not_before) == (KEY, NOW + timedelta(seconds=1))
    [again] = checked(answered(0.0)).effects
    assert again.not_before == NOW + timedelta(seconds=31)


@pytest.mark.spec("SV-349")
@pytest.mark.parametrize(
    ("value", "exceeded"),
    [(0.0, ""), (0.05, ""), (0.0501, "check errors is 0.0501, above 0.05"), (None, ""), (1e308, "check errors")],
)
def test_above_its_limit_a_check_is_exceeded(value: float | None, exceeded: str) -> None:
    found = checked(answered(value))
    assert found.exceeded.startswith(exceeded)
    assert bool(found.exceeded) is bool(exceeded)
    assert found.unread == ""


@pytest.mark.spec("SV-349")
def test_an_answer_of_a_former_step_and_a_failure_are_no_answer() -> None:
    for seconds in (-1, 0):
        found = checked(answered(9.0, seconds=seconds))
        assert (found.exceeded, found.unread) == ("", "check errors has no answer in this step yet")
    failed = cache()
    refused = ClassifiedError(Category.INFRASTRUCTURE, "CheckNotRead", "Prometheus has not answered")
    moment = NOW + timedelta(seconds=1)
    failed.put(FACTS, fact(SERVICE_NAME, ROLLOUT_CHECK.name, KEY, BODY, SERVICES, failure=refused, observed=moment))
    assert checked(failed).unread == "check errors: Prometheus has not answered"
    assert checked(serving_cache()) == Checked()
    unknown = serving_cache()
    unknown.make_stale(CLUSTER_RUNTIME_CONFIGS)
    assert checked(unknown).unread.startswith("AIMClusterRuntimeConfig default: ")


@pytest.mark.spec("SV-349", "CC-310")
def test_a_limit_that_is_no_number_lets_no_step_end() -> None:
    known = answered(0.01)
    check = {"name": "errors", "query": "x", "max": "few"}
    bad = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"rollouts": {**CHECKS, "checks": [check]}})
    known.put(CLUSTER_RUNTIME_CONFIGS, bad)
    assert checked(known).unread == "check errors: max is 'few', which is no number"


@pytest.mark.spec("SV-349", "SV-340")
@pytest.mark.parametrize("phase", [one for one in RolloutPhase if one not in ("Progressing", "Paused")])
def test_nothing_is_asked_while_no_step_is_under_way(phase: Any) -> None:
    assert checked(cache(), STEP.model_copy(update={"phase": phase})) == Checked()
    assert checked(cache(), None) == Checked()
