"""Resources of the predictor, from several layers."""

import pytest
from support.serving import (
    aim_service,
    children_of,
    condition_of,
    message_of,
    model,
    node,
    overall,
    plan_for,
    serving_cache,
    template,
    template_cache,
)

from aim_domain import Hardware
from aim_serving.containers import container_resources
from controller_runtime import JsonObject
from controller_runtime.core import ResourceRequirements


def resources(count: int, *layers: JsonObject | None, **gpu: object) -> JsonObject:
    hardware = Hardware.model_validate({"gpu": {"requests": count, **gpu}})
    return container_resources(hardware, [ResourceRequirements.model_validate(one) if one else None for one in layers])


@pytest.mark.spec("SV-161", "SV-164", "AT-090")
@pytest.mark.parametrize(
    ("count", "cpu", "memory", "limit"),
    [(1, "4", "32Gi", "48Gi"), (4, "16", "128Gi", "192Gi"), (8, "32", "256Gi", "384Gi")],
)
def test_defaults_by_gpu(count: int, cpu: str, memory: str, limit: str) -> None:
    gpus = {"amd.com/gpu": str(count)}
    assert resources(count) == {"requests": {"cpu": cpu, "memory": memory, **gpus}, "limits": {"memory": limit, **gpus}}
    assert resources(0) == {}


@pytest.mark.spec("SV-161", "SV-162", "SV-163", "SV-165", "SV-166", "SV-P23")
@pytest.mark.parametrize(
    ("count", "layers", "side", "expected"),
    [
        (4, ({"requests": {"memory": "64Gi"}},), "requests", {"memory": "64Gi", "cpu": "16", "amd.com/gpu": "4"}),
        (1, ({"limits": {"amd.com/gpu": 8}},), "requests", {"memory": "32Gi", "cpu": "4", "amd.com/gpu": "8"}),
        (1, ({"requests": {"amd.com/gpu": 8}},), "limits", {"memory": "48Gi", "amd.com/gpu": "8"}),
        (4, ({"requests": {"memory": "256Gi"}},), "limits", {"memory": "256Gi", "amd.com/gpu": "4"}),
        (1, ({"limits": {"memory": "1Gi"}},), "requests", {"memory": "1Gi", "cpu": "4", "amd.com/gpu": "1"}),
        (
            1,
            ({"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "100Mi"}},),
            "requests",
            {"cpu": "100m", "memory": "100Mi", "amd.com/gpu": "1"},
        ),
        (
            1,
            ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}),
            "requests",
            {"memory": "32Gi", "cpu": "2", "amd.com/gpu": "1"},
        ),
    ],
)
def test_layers_of_resources(count: int, layers: tuple[JsonObject, ...], side: str, expected: JsonObject) -> None:
    assert resources(count, *layers)[side] == expected


@pytest.mark.spec("SV-309", "SV-166")
@pytest.mark.parametrize(
    ("of_model", "of_template", "of_service", "parts"),
    [
        (
            {"limits": {"memory": "2Gi"}},
            None,
            {"requests": {"memory": "3Gi"}},
            ("memory", "request of 3Gi from AIMService ml-team/qwen-chat", "limit of 2Gi from AIMModel ml-team/qwen"),
        ),
        (
            None,
            {"requests": {"cpu": "4"}},
            {"limits": {"cpu": "500m"}},
            ("cpu", "request of 4 from AIMServiceTemplate ml-team/qwen3-lat", "limit of 500m from AIMService"),
        ),
        (None, None, {"requests": {"memory": "8Gi"}, "limits": {"memory": "4Gi"}}, ("memory", "8Gi", "4Gi")),
        ({"limits": {"memory": "2Gi"}}, {"limits": {"memory": "8Gi"}}, {"requests": {"memory": "3Gi"}}, ()),
        ({"limits": {"memory": "1Gi"}}, None, None, ()),
        (None, None, {"requests": {"memory": "64Gi", "amd.com/gpu": 8}}, ()),
    ],
)
def test_a_request_above_its_limit_is_reported_with_both_origins(
    of_model: JsonObject | None, of_template: JsonObject | None, of_service: JsonObject | None, parts: tuple[str, ...]
) -> None:
    def layer(given: JsonObject | None) -> JsonObject:
        return {} if given is None else {"resources": given}

    service = aim_service(**layer(of_service))
    around = [model(**layer(of_model)), template(**layer(of_template)), node(), template_cache("qwen3-lat-a04542d9")]
    plan = plan_for(serving_cache(service, *around))
    if not parts:
        assert len(children_of(plan, "InferenceService")) == 1
        return
    assert children_of(plan, "InferenceService") == []
    assert (condition_of(plan, "InferenceServiceReady"), overall(plan)) == (("False", "InvalidSpec"), "Failed")
    for part in (*parts, "spec.resources"):
        assert part in message_of(plan, "InferenceServiceReady")


@pytest.mark.spec("SV-161")
def test_other_gpu_resource_and_cpu_hardware() -> None:
    assert resources(2, resourceName="amd.com/gpu-x")["limits"]["amd.com/gpu-x"] == "2"
    cpu = Hardware.model_validate({"cpu": {"requests": "500m", "limits": "2"}})
    assert container_resources(cpu, []) == {"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}}


@pytest.mark.spec("SV-165")
@pytest.mark.parametrize(
    ("layers", "amount"),
    [
        (({"requests": {"amd.com/x": "2"}},), "2"),
        (({"limits": {"amd.com/x": "2"}},), "2"),
        (({"limits": {"amd.com/x": "4"}}, {"requests": {"amd.com/x": "1"}}), "1"),
        (({"requests": {"amd.com/x": "1"}}, {"limits": {"amd.com/x": "4"}}), "4"),
    ],
)
def test_of_what_cannot_be_overcommitted_the_nearest_word_counts(layers: tuple[JsonObject, ...], amount: str) -> None:
    found = resources(0, *layers)
    assert (found["requests"]["amd.com/x"], found["limits"]["amd.com/x"]) == (amount, amount)


@pytest.mark.spec("SV-165", "RC-157")
def test_gpus_of_another_name_cannot_be_overcommitted_either() -> None:
    found = resources(1, {"limits": {"example.com/gpu": 2}}, resourceName="example.com/gpu")
    assert (found["requests"]["example.com/gpu"], found["limits"]["example.com/gpu"]) == ("2", "2")
    other = resources(1, {"limits": {"example.com/nic": 2}})
    assert "example.com/nic" not in other["requests"]
