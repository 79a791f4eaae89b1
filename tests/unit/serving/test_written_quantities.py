"""Quantities in the objects that serving makes (SV-281)."""

import pytest
from support.serving import aim_service, children_of, model, node, plan_for, serving_cache, template, template_cache

from aim_serving.containers import canonical_text
from controller_runtime import JsonObject

GIVEN: JsonObject = {"requests": {"cpu": "2000m", "memory": "1024Mi", "amd.com/gpu": 1}, "limits": {"memory": "2048Mi"}}
HARDWARE: JsonObject = {"gpu": {"requests": 1, "minVram": "65536Mi"}, "cpu": {"requests": "0.5", "limits": "4000m"}}


@pytest.mark.spec("SV-281")
@pytest.mark.parametrize(
    ("given", "reported"),
    [("2000m", "2"), ("1024Mi", "1Gi"), ("0.5", "500m"), (8, "8"), ("1.5Gi", "1536Mi"), ("1e3", "1k"), ("odd", "odd")],
)
def test_one_amount(given: int | str, reported: str) -> None:
    assert canonical_text(given) == reported


@pytest.mark.spec("SV-281")
def test_resources_of_the_container() -> None:
    cache = serving_cache(
        aim_service(resources=GIVEN), template(), model(), node(), template_cache("qwen3-lat-a04542d9")
    )
    (made,) = children_of(plan_for(cache), "InferenceService")
    assert made["spec"]["predictor"]["containers"][0]["resources"] == {
        "requests": {"amd.com/gpu": "1", "cpu": "2", "memory": "1Gi"},
        "limits": {"amd.com/gpu": "1", "memory": "2Gi"},
    }


@pytest.mark.spec("SV-281", "SV-077")
def test_hardware_and_sizes_of_a_made_model() -> None:
    source = {"modelId": "a/b", "sourceUri": "hf://a/b", "size": "2048Mi"}
    described = {"custom": {"baseImage": "base:1", "modelSources": [source], "hardware": HARDWARE}}
    (made,) = children_of(plan_for(serving_cache(aim_service(model=described))), "AIMModel")
    assert made["spec"]["modelSources"][0]["size"] == "2Gi"
    hardware = made["spec"]["custom"]["hardware"]
    assert (hardware["gpu"]["minVram"], hardware["gpu"]["requests"]) == ("64Gi", 1)
    assert hardware["cpu"] == {"requests": "500m", "limits": "4"}


@pytest.mark.spec("SV-281", "SV-113")
def test_hardware_and_resources_of_a_derived_template() -> None:
    service = aim_service(template={"name": "t"}, overrides={"hardware": HARDWARE}, resources=GIVEN)
    (made,) = children_of(plan_for(serving_cache(service, model(), template("t"))), "AIMServiceTemplate")
    assert made["spec"]["hardware"]["cpu"] == {"requests": "500m", "limits": "4"}
    assert made["spec"]["hardware"]["gpu"]["minVram"] == "64Gi"
    assert made["spec"]["resources"]["requests"] == {"cpu": "2", "memory": "1Gi", "amd.com/gpu": "1"}
