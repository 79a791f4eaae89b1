"""What the Go operator runs is left alone until somebody asks for something else (SV-302)."""

from typing import Any, Final

import pytest
from support.live import Live
from support.predictors import USUAL
from support.serving import IMAGE, WORKLOAD, aim_service, config, living, model, node, run, template, template_cache

from aim_domain import AIMModel, AIMService, AIMServiceTemplate, ResolvedConfig, RuntimeConfigSpec, labels
from aim_domain.parts import INFERENCE_SERVICES, MODELS, RUNTIME_CONFIGS, SERVICES, TEMPLATES
from aim_serving.inference_service import asked_for
from controller_runtime import JsonObject

GO: Final = "aim-service-controller"
DISCOVERED: Final[JsonObject] = {
    "profile": {
        "metadata": {"type": "optimized", "metric": "latency", "precision": "fp8", "gpu": "MI300X", "gpuCount": 1},
        "env_vars": {"VLLM_USE_TRITON": "1"},
    }
}


def left_by_go(live: Live, **predictor: Any) -> None:
    """Its InferenceService, without the variables of the profile and without annotations of ours."""
    service = live.raw(SERVICES, "qwen-chat")
    controller = {"apiVersion": service["apiVersion"], "kind": "AIMService", "name": "qwen-chat", "controller": True}
    container = {
        "name": "kserve-container",
        "image": IMAGE,
        "env": [{"name": "AIM_CACHE_PATH", "value": "/workspace/cache"}],
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
    }
    spec = {"predictor": {"minReplicas": 1, "maxReplicas": 1, "containers": [container], **predictor}}
    metadata = {
        "labels": {labels.SERVICE: "qwen-chat", labels.TEMPLATE: "qwen3-lat"},
        "ownerReferences": [{**controller, "uid": service["metadata"]["uid"]}],
    }
    live.apply(INFERENCE_SERVICES, WORKLOAD, {"metadata": metadata, "spec": spec}, GO)


def cluster_of_go() -> Live:
    live = living(aim_service(), node(), model(), template(more_status=DISCOVERED), template_cache(USUAL))
    left_by_go(live)
    return live


def workload(live: Live) -> JsonObject:
    return live.raw(INFERENCE_SERVICES, WORKLOAD)


def noted(live: Live) -> str | None:
    found: str | None = (live.raw(SERVICES, "qwen-chat")["metadata"].get("annotations") or {}).get(
        labels.ANNOTATION_KEPT_WORKLOAD
    )
    return found


@pytest.mark.spec("SV-302", "FW-209")
def test_a_running_model_of_the_go_operator_is_not_started_anew() -> None:
    live = cluster_of_go()
    before = workload(live)
    live.settle(SERVICES, "qwen-chat")
    assert workload(live) == before
    assert noted(live)
    # Also not by what discovery reads again, by a restart of the service, or by what it says of routes.
    live.change(TEMPLATES, "qwen3-lat", status={"profile": {**DISCOVERED["profile"], "engine_args": {"a": 1}}})
    service = live.raw(SERVICES, "qwen-chat")
    live.change(SERVICES, "qwen-chat", spec={**service["spec"], "routing": {"enabled": False}})
    live.settle(SERVICES, "qwen-chat")
    assert workload(live) == before


def new_variable(live: Live) -> None:
    spec = live.raw(SERVICES, "qwen-chat")["spec"]
    live.change(SERVICES, "qwen-chat", spec={**spec, "env": [{"name": "A", "value": "b"}]})


def new_replicas(live: Live) -> None:
    live.change(SERVICES, "qwen-chat", spec={**live.raw(SERVICES, "qwen-chat")["spec"], "replicas": 2})


def new_image(live: Live) -> None:
    live.put(MODELS, model(image=f"{IMAGE}-1"))


def new_defaults(live: Live) -> None:
    live.put(RUNTIME_CONFIGS, config(env=[{"name": "A", "value": "b"}]))


def new_template(live: Live) -> None:
    spec = live.raw(TEMPLATES, "qwen3-lat")["spec"]
    live.change(TEMPLATES, "qwen3-lat", spec={**spec, "env": [{"name": "A", "value": "b"}]})


def asked_by_hand(live: Live) -> None:
    live.change(SERVICES, "qwen-chat", metadata={"annotations": {labels.ANNOTATION_KEPT_WORKLOAD: "no"}})


@pytest.mark.spec("SV-302")
@pytest.mark.parametrize("asks", [new_variable, new_replicas, new_image, new_defaults, new_template, asked_by_hand])
def test_it_is_brought_up_to_date_as_soon_as_somebody_asks_for_something_else(asks: Any) -> None:
    live = cluster_of_go()
    live.settle(SERVICES, "qwen-chat")
    asks(live)
    live.settle(SERVICES, "qwen-chat")
    predictor = workload(live)["spec"]["predictor"]
    assert {"name": "VLLM_USE_TRITON", "value": "1"} in predictor["containers"][0]["env"]
    assert {one["manager"] for one in workload(live)["metadata"]["managedFields"]} == {"aim-serving"}
    assert noted(live) is None


@pytest.mark.spec("SV-302")
def test_what_is_deleted_is_made_anew_and_what_was_made_here_has_no_note() -> None:
    live = cluster_of_go()
    live.settle(SERVICES, "qwen-chat")
    live.remove(INFERENCE_SERVICES, WORKLOAD)
    live.settle(SERVICES, "qwen-chat")
    assert {one["manager"] for one in workload(live)["metadata"]["managedFields"]} == {"aim-serving"}
    assert noted(live) is None
    ours = living(aim_service(), node(), model(), template(), template_cache(USUAL))
    run(ours)
    ours.settle(SERVICES, "qwen-chat")
    assert noted(ours) is None


@pytest.mark.spec("SV-302")
def test_what_is_asked_for_is_the_same_to_every_release() -> None:
    """A release that makes another digest of the same starts every model anew that was left alone."""
    asked = asked_for(
        AIMService.model_validate(aim_service()),
        AIMServiceTemplate.model_validate(template()),
        AIMModel.model_validate(model()),
        ResolvedConfig("default", RuntimeConfigSpec()),
    )
    assert asked == "9b5ce8eaa081675b"
