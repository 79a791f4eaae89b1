"""What a service makes of a model and a template that stay as somebody set them (FW-S60 to FW-S63)."""

import pytest
from support.predictors import USUAL
from support.serving import (
    aim_service,
    condition_of,
    model,
    node,
    overall,
    plan_for,
    pod_events,
    predictor_pod,
    serving_cache,
    template,
    template_cache,
    workload,
)

from controller_runtime import JsonObject

BY_NAME: JsonObject = {"name": "qwen"}


@pytest.mark.spec("FW-S60")
def test_both_are_ready() -> None:
    plan = plan_for(serving_cache(aim_service(model=BY_NAME), model(), template(), node()))
    assert condition_of(plan, "ModelReady") == ("True", "ModelResolved")
    assert condition_of(plan, "TemplateReady") == ("True", "Resolved")
    assert overall(plan) == "Starting"


@pytest.mark.spec("FW-S61")
@pytest.mark.parametrize(
    ("known", "reason", "value"),
    [
        ([], "ModelNotFound", "Failed"),
        ([model(status="Progressing")], "ModelNotReady", "Pending"),
        ([model(status="Failed")], "ModelNotReady", "Failed"),
    ],
)
def test_the_named_model_is_not_ready(known: list[JsonObject], reason: str, value: str) -> None:
    plan = plan_for(serving_cache(aim_service(model=BY_NAME), *known, template(), node()))
    assert (condition_of(plan, "ModelReady"), overall(plan)) == (("False", reason), value)


@pytest.mark.spec("FW-S62")
@pytest.mark.parametrize(
    ("service", "known", "reason", "value"),
    [
        (aim_service(model=BY_NAME, template={"name": "gone"}), [], "TemplateNotFound", "Failed"),
        (aim_service(model=BY_NAME), [], "TemplateNotFound", "Pending"),
        (aim_service(model=BY_NAME), [template(status="Failed")], "TemplateNotReady", "Pending"),
    ],
)
def test_there_is_no_ready_template(service: JsonObject, known: list[JsonObject], reason: str, value: str) -> None:
    plan = plan_for(serving_cache(service, model(), *known, node()))
    assert (condition_of(plan, "TemplateReady"), overall(plan)) == (("False", reason), value)


@pytest.mark.spec("FW-S63")
def test_a_predictor_pod_has_no_place() -> None:
    service = aim_service(template={"name": "qwen3-lat"})
    pod = predictor_pod("Pending")
    around = (template(), model(), node(), template_cache(USUAL), workload(service))
    plan = plan_for(serving_cache(service, *around, pod, pod_events(service, pod, ("FailedScheduling", "no GPU"))))
    assert condition_of(plan, "InferenceServicePodsReady") == ("False", "FailedScheduling")
    assert overall(plan) == "Pending"
