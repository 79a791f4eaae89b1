"""Rules of serving that need no story of their own."""

from typing import Any

import pytest
from support.builders import condition
from support.predictors import USUAL, applied, env, predictor
from support.serving import (
    aim_service,
    children_of,
    condition_of,
    config,
    model,
    node,
    plan_for,
    serving_cache,
    template,
    template_cache,
    workload,
)

from aim_domain import canonical_model
from aim_domain.naming import HASH_LENGTH, derive_name, optional_label_value
from controller_runtime import JsonObject, Plan


def plan_of(*objects: JsonObject, **spec: Any) -> Plan:
    return plan_for(serving_cache(aim_service(**spec), template(), model(), node(), template_cache(USUAL), *objects))


@pytest.mark.spec("SV-003", "SV-047")
def test_the_order_of_what_came_does_not_matter() -> None:
    objects = [aim_service(), template(), model(), node(), template_cache(USUAL), workload(aim_service(), ready=True)]
    first = plan_for(serving_cache(*objects))
    again = plan_for(serving_cache(*reversed(objects)))
    assert (first.children, first.status) == (again.children, again.status)


@pytest.mark.spec("SV-007", "SV-050")
@pytest.mark.parametrize(
    ("own", "configured", "enabled"),
    [
        (None, None, False),
        (None, True, True),
        (True, False, True),
        (False, True, False),
        (None, False, False),
    ],
)
def test_where_routing_is_enabled(own: bool | None, configured: bool | None, enabled: bool) -> None:
    """Only enabled routing has a gateway to miss."""
    spec: dict[str, Any] = {} if own is None else {"routing": {"enabled": own}}
    others = [] if configured is None else [config(routing={"enabled": configured})]
    assert (condition_of(plan_of(*others, **spec), "ConfigValid") == ("False", "InvalidSpec")) is enabled


@pytest.mark.spec("SV-016")
@pytest.mark.parametrize("value", [True, False])
def test_cache_model_has_no_effect(value: bool) -> None:
    assert plan_of(cacheModel=value).children == plan_of().children


@pytest.mark.spec("SV-010")
def test_hardware_and_affinity_are_taken_as_discovered() -> None:
    affinity: JsonObject = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": []}]}
    }
    of = template(count=1, more_status={"resolvedHardware": {"gpu": {"requests": 3}}, "resolvedNodeAffinity": affinity})
    of["spec"]["hardware"] = {"gpu": {"requests": 8, "model": "MI300X"}}
    found = predictor(aim_service(), of=of)
    assert found["containers"][0]["resources"]["limits"]["amd.com/gpu"] == "3"
    assert found["affinity"] == {"nodeAffinity": affinity}


@pytest.mark.spec("SV-035")
def test_names_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="part"):
        derive_name([], ["x"], hash_length=HASH_LENGTH)
    for length in (0, 64):
        with pytest.raises(ValueError, match=str(length)):
            derive_name(["a"], ["x"], max_length=length)


@pytest.mark.spec("SV-036")
@pytest.mark.parametrize(
    ("text", "value"),
    [("Qwen/Qwen3 32B!", "qwen_qwen3_32b"), ("__a.", "a"), ("!!!", None), ("", None), ("a" * 62 + "--b", "a" * 62)],
)
def test_values_of_labels(text: str, value: str | None) -> None:
    assert optional_label_value(text) == value


@pytest.mark.spec("SV-041")
@pytest.mark.parametrize(
    ("text", "name"),
    [("MI300X (rev 2)", "MI300X"), ("Instinct-MI325X", "MI325X"), ("mi300x", "MI300X"), ("RX7900-XTX", "RX7900")],
)
def test_names_of_gpus(text: str, name: str) -> None:
    assert canonical_model(text) == name


@pytest.mark.spec("SV-040")
def test_no_env_is_no_field() -> None:
    (made,) = children_of(plan_for(serving_cache(aim_service(), template(), model(), node())), "AIMTemplateCache")
    assert "env" not in made["spec"]


@pytest.mark.spec("SV-048")
def test_which_config_counts() -> None:
    def value(*configs: JsonObject, **spec: Any) -> object:
        return env(aim_service(**spec), *configs).get("A")

    near = config(env=[{"name": "A", "value": "near"}])
    far = config(cluster=True, env=[{"name": "A", "value": "far"}])
    named = config("rc", env=[{"name": "A", "value": "named"}])
    assert value(near, far, named) == "near"
    assert value(far, named, runtimeConfigName="") == "far"
    assert value(near, far, named, runtimeConfigName="rc") == "named"


@pytest.mark.spec("SV-179", "SV-184")
def test_what_serving_never_sets() -> None:
    body = applied(
        aim_service(
            minReplicas=1,
            autoScaling={
                "metrics": [
                    {
                        "type": "PodMetric",
                        "podmetric": {"metric": {"query": "q"}, "target": {"type": "Value", "value": "1"}},
                    }
                ]
            },
        )
    )
    assert set(body["metadata"]) == {"name", "namespace", "labels", "annotations"}
    assert set(body["spec"]) == {"predictor"}
    (metric,) = body["spec"]["predictor"]["autoScaling"]["metrics"]
    assert metric["podmetric"]["metric"] == {"backend": "opentelemetry", "query": "q"}


@pytest.mark.spec("SV-215")
def test_parent_conditions_appear_with_a_problem_and_stay() -> None:
    assert condition_of(plan_of(), "ConfigValid") is None
    stored = {"conditions": [condition("ConfigValid", False, "InvalidSpec")]}
    assert condition_of(plan_of(), "AuthValid") is None
    healed = plan_for(serving_cache(aim_service(status=stored), template(), model(), node(), template_cache(USUAL)))
    assert condition_of(healed, "ConfigValid") == ("True", "ConfigurationValid")


@pytest.mark.spec("SV-232", "SV-001")
def test_the_route_is_nobody_elses_business() -> None:
    own = aim_service(status={"routing": {"path": "/x"}})
    plan = plan_for(serving_cache(own, template(), model(), node(), template_cache(USUAL)))
    assert "routing" not in (plan.status or {})


@pytest.mark.spec("SV-242")
def test_what_is_wrong_is_a_warning() -> None:
    bad = plan_for(serving_cache(aim_service(model={"name": "gone"})))
    types = {event.reason: event.type.value for event in bad.events}
    assert types["ModelNotFound"] == "Warning"
    assert types["ReferenceNotFound"] == "Warning"
    good = plan_of()
    assert {event.type.value for event in good.events} == {"Normal"}
