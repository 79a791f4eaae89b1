"""Hardware of models, custom templates and profiles, value by value."""

import pytest
from support.discovery_cache import model, template

from aim_discovery.models.custom_merge import cpu_resources, merge_hardware
from aim_discovery.models.desired_templates import DesiredTemplate, custom_template_name, recommended_template_name
from aim_discovery.models.reconcile import conflict_with
from aim_discovery.own_schedule import on_own_schedule
from aim_discovery.templates.gpu import hardware_summary, resolved_hardware
from aim_domain import (
    AIMModel,
    AIMServiceTemplate,
    CustomTemplate,
    Hardware,
    ProfileMetadata,
    RecommendedDeployment,
    TemplateSpec,
)
from controller_runtime import Category, ClassifiedError, Component, JsonObject, Plan, State, to_json


def merged(default: JsonObject | None, override: JsonObject | None) -> JsonObject | None:
    default_, override_ = (None if one is None else Hardware.model_validate(one) for one in (default, override))
    found = merge_hardware(default_, override_)
    return None if found is None else to_json(found)


GPU = "amd.com/gpu"


@pytest.mark.spec("DI-140", "DI-141", "DI-142", "DI-P43")
@pytest.mark.parametrize(
    ("default", "override", "result"),
    [
        ({"requests": 1, "model": "A"}, {"requests": 2}, {"requests": 2, "model": "A", "resourceName": GPU}),
        ({"requests": 1, "model": "A"}, {"model": "B"}, {"requests": 1, "model": "B", "resourceName": GPU}),
        ({"model": "A"}, {"minVram": "1Gi"}, {"minVram": "1Gi", "resourceName": GPU}),
        ({"minVram": "1Gi"}, {"model": "A"}, {"model": "A", "resourceName": GPU}),
        ({"minVram": "1Gi"}, {"minVram": "2Gi"}, {"minVram": "2Gi", "resourceName": GPU}),
        ({"minVram": "1Gi"}, {"requests": 2}, {"minVram": "1Gi", "requests": 2, "resourceName": GPU}),
        ({"resourceName": "x/y"}, {"requests": 2, "resourceName": GPU}, {"requests": 2, "resourceName": "x/y"}),
        ({"resourceName": "x/y"}, {"resourceName": "a/b"}, {"resourceName": "a/b"}),
    ],
)
def test_gpus_merge_member_by_member(default: JsonObject, override: JsonObject, result: JsonObject) -> None:
    assert merged({"gpu": default}, {"gpu": override}) == {"gpu": result}


@pytest.mark.spec("DI-140")
@pytest.mark.parametrize(
    ("default", "override", "result"),
    [
        ({"requests": "1", "limits": "3"}, {"requests": "2"}, {"requests": "2", "limits": "3"}),
        ({"requests": "1", "limits": "3"}, {"requests": "2", "limits": "4"}, {"requests": "2", "limits": "4"}),
        ({"requests": "1"}, {"requests": "2"}, {"requests": "2"}),
    ],
)
def test_cpus_merge_member_by_member(default: JsonObject, override: JsonObject, result: JsonObject) -> None:
    assert merged({"cpu": default}, {"cpu": override}) == {"cpu": result}


@pytest.mark.spec("DI-140")
def test_a_side_that_only_one_has_is_kept() -> None:
    cpu, gpu = {"cpu": {"requests": "1"}}, {"gpu": {"requests": 1, "resourceName": GPU}}
    assert merged(cpu, gpu) == merged(gpu, cpu) == {**cpu, **gpu}
    assert (merged(cpu, None), merged(None, cpu), merged(None, None)) == (cpu, cpu, None)


@pytest.mark.spec("DI-143")
def test_cpus_become_resources_of_the_container() -> None:
    def resources(cpu: JsonObject | None) -> JsonObject | None:
        found = cpu_resources(Hardware.model_validate({} if cpu is None else {"cpu": cpu}))
        return None if found is None else to_json(found)

    assert resources({"requests": "2", "limits": "4"}) == {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}
    assert resources({"requests": "2"}) == {"requests": {"cpu": "2"}}
    assert resources(None) is None
    assert cpu_resources(None) is None


@pytest.mark.spec("DI-322", "DI-323", "DI-324", "DI-325", "DI-326", "DI-327", "DI-328")
@pytest.mark.parametrize(
    ("own", "found", "result"),
    [
        ({}, None, None),
        ({}, {}, None),
        ({}, {"gpuCount": 0}, None),
        ({}, {"gpuCount": 1}, {"gpu": {"requests": 1, "resourceName": GPU}}),
        ({}, {"gpu": "A"}, {"gpu": {"requests": 0, "model": "A", "resourceName": GPU}}),
        ({"gpu": {"requests": 2, "model": "A"}}, None, {"gpu": {"requests": 2, "model": "A", "resourceName": GPU}}),
        (
            {"gpu": {"requests": 2, "model": "A", "resourceName": "x/y"}},
            {"gpuCount": 0, "gpu": "B"},
            {"gpu": {"requests": 0, "model": "B", "resourceName": "x/y"}},
        ),
        (
            {"gpu": {"requests": 2, "minVram": "1Gi"}},
            {"gpu": "B"},
            {"gpu": {"requests": 2, "minVram": "1Gi", "resourceName": GPU}},
        ),
        ({"cpu": {"requests": "1", "limits": "2"}}, None, {"cpu": {"requests": "1", "limits": "2"}}),
    ],
)
def test_discovery_comes_before_the_spec(own: JsonObject, found: JsonObject | None, result: JsonObject | None) -> None:
    spec = TemplateSpec.model_validate({"modelName": "m", "hardware": own} if own else {"modelName": "m"})
    metadata = None if found is None else ProfileMetadata.model_validate(found)
    assert resolved_hardware(spec, metadata) == result


@pytest.mark.spec("DI-330")
@pytest.mark.parametrize(
    ("hardware", "text"),
    [
        (None, ""),
        ({"gpu": {"requests": 1}}, "1 x GPU"),
        ({"gpu": {"requests": 2, "model": "A"}}, "2 x A"),
        ({"gpu": {"requests": 0, "model": "A"}}, "A"),
        ({"gpu": {"requests": 0}}, "GPU"),
        ({"gpu": {"requests": 0}, "cpu": {"requests": "4"}}, "GPU"),
        ({"cpu": {"requests": "4"}}, "CPU"),
        ({"cpu": {"requests": "1"}}, "CPU"),
    ],
)
def test_hardware_in_a_few_words(hardware: JsonObject | None, text: str) -> None:
    assert hardware_summary(None if hardware is None else Hardware.model_validate(hardware)) == text


def custom(index: int = 0, **members: object) -> str:
    return custom_template_name("qwen", CustomTemplate.model_validate(members), index)


@pytest.mark.spec("DI-146", "DI-147")
def test_names_of_custom_templates_differ_where_their_values_do() -> None:
    profile = {"metric": "latency", "precision": "fp8"}
    gpu = {"gpu": {"requests": 1, "model": "MI300X"}}
    names = [
        custom(), custom(1), custom(name="a"), custom(profile=profile),
        custom(profile={**profile, "metric": "throughput"}), custom(profile={**profile, "precision": "fp16"}),
        custom(hardware=gpu), custom(profile=profile, hardware=gpu),
        custom(hardware={"gpu": {"requests": 2, "model": "MI300X"}}), custom(hardware={"gpu": {"requests": 1}}),
        custom(hardware={"gpu": {"requests": 2}}),
    ]  # fmt: skip
    assert len(set(names)) == len(names)
    assert custom(name="a", profile=profile, hardware=gpu).rsplit("-", 1)[0] == "qwen-custom-a-fp8-mi300x"


@pytest.mark.spec("DI-126", "DI-127")
@pytest.mark.parametrize(
    ("deployment", "suffix"),
    [
        ({"gpuModel": "MI300X", "gpuCount": 2, "metric": "latency"}, "2x-mi300x-lat"),
        ({"gpuModel": "MI300X", "gpuCount": 0, "metric": "throughput"}, "mi300x-thr"),
        ({"gpuCount": 1, "precision": "fp8"}, "x1-fp8"),
        ({"gpuModel": "MI300X"}, "mi300x"),
    ],
)
def test_names_of_recommended_templates_say_what_is_given(deployment: JsonObject, suffix: str) -> None:
    name = recommended_template_name("m", "img:1", RecommendedDeployment.model_validate(deployment))
    assert name.rsplit("-", 1)[0] == f"img-1-{suffix}"


SPEC: JsonObject = {
    "modelName": "m", "metric": "latency", "precision": "fp8",
    "hardware": {"gpu": {"requests": 1, "model": "A", "resourceName": GPU}, "cpu": {"requests": "1"}},
}  # fmt: skip


@pytest.mark.spec("DI-154")
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"modelName": "n"}, "modelName"),
        ({"metric": "throughput"}, "metric"),
        ({"precision": "fp16", "metric": "throughput"}, "metric, precision"),
        ({"hardware": {"gpu": {"requests": 2, "model": "A"}, "cpu": {"requests": "1"}}}, "hardware"),
        ({"hardware": {"gpu": {"requests": 1, "model": "B"}, "cpu": {"requests": "1"}}}, "hardware"),
        ({"hardware": {"gpu": {"requests": 1, "model": "A"}, "cpu": {"requests": "2"}}}, "hardware"),
        ({"hardware": {"gpu": {"requests": 1, "model": "A"}}}, "hardware"),
        ({"hardware": None}, "hardware"),
    ],
)
def test_an_immutable_change_is_named(changes: JsonObject, named: str) -> None:
    found = AIMServiceTemplate.model_validate({**template(), "spec": SPEC})
    owner = AIMModel.model_validate(model())
    wanted = {name: value for name, value in {**SPEC, **changes}.items() if value is not None}
    event = conflict_with(found, owner, DesiredTemplate(found.name, {}, wanted))
    assert event is not None
    assert (event.reason, event.type, event.standing) == ("TemplateImmutable", "Warning", True)
    assert f"would have to change {named}, which is immutable" in event.message
    assert conflict_with(found, owner, DesiredTemplate(found.name, {}, SPEC)) is None


@pytest.mark.spec("FW-095")
def test_a_schedule_of_its_own_replaces_the_general_retry() -> None:
    away = ClassifiedError(Category.INFRASTRUCTURE, "Away", "away")
    wrong = ClassifiedError(Category.INVALID_SPEC, "Wrong", "wrong")
    part = Component("Image", State.FAILED, "Away", "away", (away,))
    plan = Plan(retry=away, retry_within=5.0, requeue_after=9.0)
    quiet = on_own_schedule(plan, (part,), frozenset({"Image"}), None)
    assert (quiet.retry, quiet.retry_within, quiet.requeue_after) == (None, None, 5.0)
    assert on_own_schedule(plan, (part,), frozenset({"Image"}), wrong) == quiet
    assert on_own_schedule(plan, (part,), frozenset({"Image"}), away) is plan
    assert on_own_schedule(plan, (part,), frozenset(), None) is plan
    unhurried = Plan(requeue_after=9.0)
    assert on_own_schedule(unhurried, (part,), frozenset({"Image"}), None) is unhurried
