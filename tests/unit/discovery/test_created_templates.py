"""Templates that models create: names, specs, faults, expectations, sums (sections 5 and 6)."""

from collections.abc import Callable
from typing import Any

import pytest
from support.builders import condition
from support.discovery_cache import DiscoveryCluster, discovery_cluster, model, template

from aim_discovery.models.desired_templates import (
    custom_template_name,
    desired_templates,
    generated_template_name,
    recommended_template_name,
)
from aim_discovery.models.expectation import (
    DiscoveryFlags,
    Expectation,
    discovery_flags,
    expectation,
    templates_component,
)
from aim_discovery.service import PREDICATES
from aim_domain import (
    AIMModelSpec,
    AIMServiceTemplate,
    CustomTemplate,
    ImageMetadata,
    RecommendedDeployment,
    RuntimeConfigSpec,
)
from aim_domain.parts import MODELS, TEMPLATES
from controller_runtime import JsonObject, StatusValue
from controller_runtime.reconcile.child import same_status

ON = DiscoveryFlags(extract=True, create=True)
OFF = DiscoveryFlags(extract=True, create=False, suppressed=True)


def metadata(*entries: JsonObject) -> ImageMetadata:
    return ImageMetadata.model_validate({"model": {"recommendedDeployments": list(entries)}})


def spec(**values: Any) -> AIMModelSpec:
    return AIMModelSpec.model_validate({"image": "test-image", **values})


QWEN = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
LONG = "very-long-model-name-that-exceeds-kubernetes-limits-by-quite-a-lot"


@pytest.mark.spec("DI-125", "DI-126", "DI-127", "DI-128", "DI-129")
@pytest.mark.parametrize(
    ("model_name", "image", "values", "name"),
    [
        (
            "my-model",
            "llama-3-1-70b-instruct",
            ("mi300x", 2, "latency", "fp8"),
            "llama-3-1-70b-instruct-2x-mi300x-lat-fp8-27aa",
        ),
        (
            "my-model",
            LONG,
            ("mi300x", 2, "latency", "fp8"),
            "very-long-model-name-that-exceeds-kubern-2x-mi300x-lat-fp8-b546",
        ),
        (
            "qwen-qwen3-32b",
            QWEN,
            ("MI300X", 1, "latency", "fp16"),
            "amdenterpriseai-aim-qwen-qwen3-32b-0-8-1x-mi300x-lat-fp16-59b1",
        ),
        (
            "qwen-qwen3-32b",
            QWEN,
            ("MI300X", 1, "throughput", "fp8"),
            "amdenterpriseai-aim-qwen-qwen3-32b-0-8-5-1x-mi300x-thr-fp8-2cda",
        ),
        ("my-model", "test-model", (None, None, None, None), "test-model-part-452c"),
        ("my-model", "test-model", (None, 4, None, None), "test-model-x4-d55d"),
        ("my-model", "test-model", ("mi300x", None, None, None), "test-model-mi300x-affc"),
        ("model-a", "test-image", ("mi300x", 1, None, "fp8"), "test-image-1x-mi300x-fp8-a11f"),
        ("model-b", "test-image", ("mi300x", 1, None, "fp8"), "test-image-1x-mi300x-fp8-0da1"),
    ],
)
def test_names_of_recommended_deployments(
    model_name: str, image: str, values: tuple[str | None, int | None, str | None, str | None], name: str
) -> None:
    gpu, count, metric, precision = values
    deployment = RecommendedDeployment(gpu_model=gpu, gpu_count=count, metric=metric, precision=precision)
    assert recommended_template_name(model_name, image, deployment) == name


@pytest.mark.spec("DI-146", "DI-147", "DI-148", "DI-149")
@pytest.mark.parametrize(
    ("entry", "index", "name"),
    [
        ({"name": "default-hardware"}, 0, "custom-model-test-custom-default-hardware-7689ffdb"),
        (
            {"name": "multi-gpu", "hardware": {"gpu": {"requests": 2, "model": "MI300X"}}},
            1,
            "custom-model-test-custom-multi-gpu-mi300x-e999d587",
        ),
        (
            {"name": "different-gpu", "hardware": {"gpu": {"requests": 1, "model": "MI250X"}}},
            2,
            "custom-model-test-custom-different-gpu-mi250x-0edbfc23",
        ),
        (
            {"name": "latency-optimized", "profile": {"metric": "latency", "precision": "fp16"}},
            3,
            "custom-model-test-custom-latency-optimized-fp16-480af67c",
        ),
        (
            {"name": "throughput-optimized", "profile": {"metric": "throughput", "precision": "fp8"}},
            4,
            "custom-model-test-custom-throughput-optimized-fp8-01a3e255",
        ),
        ({"name": "minimal"}, 5, "custom-model-test-custom-minimal-4302f81e"),
    ],
)
def test_names_of_custom_templates(entry: JsonObject, index: int, name: str) -> None:
    assert custom_template_name("custom-model-test", CustomTemplate.model_validate(entry), index) == name


@pytest.mark.spec("DI-148")
def test_name_of_the_generated_template() -> None:
    assert generated_template_name("auto-gen-template-test") == "auto-gen-template-test-custom-60ba3f14"


@pytest.mark.spec("DI-120", "DI-121", "AC-15")
def test_only_what_a_deployment_says_is_in_its_template() -> None:
    full = {"gpuModel": "MI300X", "gpuCount": 2, "metric": "throughput", "precision": "fp16", "description": "d"}
    made = desired_templates("test-model", spec(), ON, metadata({**full, "profileId": "p"}, {}))
    first, second = [one.spec for one in made.templates.values()]
    assert first == {
        "modelName": "test-model",
        "metric": "throughput",
        "precision": "fp16",
        "profileId": "p",
        "hardware": {"gpu": {"requests": 2, "model": "MI300X"}},
    }
    assert second == {"modelName": "test-model"}


@pytest.mark.spec("DI-123", "DI-124", "DI-358", "DI-P28", "DI-P31")
def test_a_bad_or_repeated_deployment_is_left_out_with_a_warning() -> None:
    good = {"gpuModel": "MI300X", "gpuCount": 1}
    found = metadata(
        good, {**good, "profileId": "other"}, {"metric": "speed"}, {"precision": "fp7"}, {"gpuModel": "M" * 65}
    )
    made = desired_templates("m", spec(), ON, found)
    assert len(made.templates) == 1
    reasons = [event.reason for event in made.warnings]
    assert reasons == ["DuplicateRecommendedDeployment", *["InvalidRecommendedDeployment"] * 3]


@pytest.mark.spec("DI-130", "DI-131", "DI-132", "DI-143")
def test_a_custom_model_makes_one_inline_template_and_ignores_its_image() -> None:
    source = {"modelId": "a/b", "sourceUri": "hf://a/b"}
    hardware = {"gpu": {"requests": 1, "model": "MI300X"}, "cpu": {"requests": "4", "limits": "8"}}
    given = spec(
        modelSources=[source], custom={"hardware": hardware, "type": "preview"}, env=[{"name": "X", "value": "1"}]
    )
    (made,) = desired_templates("m", given, ON, metadata({"gpuModel": "MI210", "gpuCount": 1})).templates.values()
    assert made.spec == {
        "modelName": "m",
        "type": "preview",
        "env": [{"name": "X", "value": "1"}],
        "modelSources": [source],
        "hardware": hardware,
        "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "8"}},
    }


@pytest.mark.spec("DI-134", "DI-135", "DI-136", "DI-137", "DI-138", "DI-144")
def test_custom_templates_of_an_image_come_beside_the_recommended_ones() -> None:
    entry = {
        "name": "fast",
        "type": "optimized",
        "env": [{"name": "B", "value": "2"}, {"name": "C", "value": "3"}],
        "profile": {"metric": "latency", "precision": "fp8"},
    }
    given = spec(customTemplates=[entry], env=[{"name": "A", "value": "1"}, {"name": "B", "value": "1"}])
    made = list(desired_templates("m", given, ON, metadata({"gpuModel": "MI210", "gpuCount": 1})).templates.values())
    assert len(made) == 2
    assert made[1].labels["aim.eai.amd.com/template.alias"] == "fast"
    assert made[1].spec == {
        "modelName": "m",
        "type": "optimized",
        "metric": "latency",
        "precision": "fp8",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}],
    }


@pytest.mark.spec("DI-140", "DI-141", "DI-142")
@pytest.mark.parametrize(
    ("default", "override", "merged"),
    [
        ({"model": "MI300X", "requests": 2}, {"requests": 4}, {"model": "MI300X", "requests": 4}),
        ({"model": "MI300X", "requests": 2}, {"requests": 0, "model": "MI210"}, {"model": "MI210", "requests": 2}),
        ({"minVram": "64Gi", "requests": 1}, {"model": "MI210"}, {"model": "MI210", "requests": 1}),
        ({"model": "MI300X", "requests": 1}, {"minVram": "64Gi"}, {"minVram": "64Gi", "requests": 1}),
        (
            {"requests": 1, "resourceName": "amd.com/mi300x"},
            {"requests": 2, "resourceName": "amd.com/gpu"},
            {"requests": 2, "resourceName": "amd.com/mi300x"},
        ),
    ],
)
def test_hardware_merges_field_by_field(default: JsonObject, override: JsonObject, merged: JsonObject) -> None:
    source = {"modelId": "a/b", "sourceUri": "hf://a/b"}
    entry = {"name": "e", "hardware": {"gpu": override}}
    given = spec(modelSources=[source], custom={"hardware": {"gpu": default}}, customTemplates=[entry])
    (made,) = desired_templates("m", given, ON, None).templates.values()
    assert {"resourceName": "amd.com/gpu", **made.spec["hardware"]["gpu"]} == {"resourceName": "amd.com/gpu", **merged}


@pytest.mark.spec("DI-145")
def test_a_name_that_can_not_be_a_label_is_an_error_of_the_spec() -> None:
    cluster = discovery_cluster(model(customTemplates=[{"name": "white space"}], discovery={"extractMetadata": False}))
    assert cluster.run(MODELS, "qwen").children == ()
    assert cluster.value(MODELS, "qwen") == "Failed"
    assert cluster.condition(MODELS, "qwen", "ServiceTemplatesReady") == ("False", "InvalidTemplateName")


@pytest.mark.spec("DI-057", "DI-058", "DI-060", "DI-115", "DI-117", "DI-118", "DI-P33")
@pytest.mark.parametrize(
    ("values", "found", "answer"),
    [
        ({"discovery": {"createServiceTemplates": False}}, None, Expectation.NO),
        ({}, None, Expectation.UNKNOWN),
        ({"discovery": {"extractMetadata": False}}, None, Expectation.NO),
        ({}, metadata({}), Expectation.YES),
        ({}, metadata(), Expectation.NO),
        ({"customTemplates": [{}]}, None, Expectation.YES),
        ({"modelSources": [{"modelId": "a/b"}]}, None, Expectation.YES),
    ],
)
def test_whether_templates_are_expected(values: JsonObject, found: ImageMetadata | None, answer: Expectation) -> None:
    given = spec(**values)
    assert expectation(given, discovery_flags(given, RuntimeConfigSpec()), found) is answer


@pytest.mark.spec("DI-060")
def test_an_explicit_refusal_suppresses_every_template() -> None:
    given = spec(customTemplates=[{"name": "a"}])
    assert desired_templates("m", given, OFF, metadata({})).templates == {}


@pytest.mark.spec("DI-156", "DI-157")
@pytest.mark.parametrize(
    ("statuses", "state", "reason"),
    [
        (["Ready", "Ready"], "Ready", "AllTemplatesReady"),
        (["Failed", "Failed"], "Failed", "AllTemplatesFailed"),
        (["Degraded", "Degraded"], "Failed", "AllTemplatesFailed"),
        (["NotAvailable", "NotAvailable"], "NotAvailable", "NoTemplatesAvailable"),
        (["Progressing", "Degraded"], "Degraded", "SomeTemplatesDegraded"),
        (["Ready", "Failed"], "Degraded", "SomeTemplatesDegraded"),
        (["Ready", "Progressing"], "Progressing", "TemplatesProgressing"),
        (["Ready", "Pending"], "Progressing", "TemplatesProgressing"),
        (["Ready", "NotAvailable"], "Ready", "SomeTemplatesReady"),
        (["Ready", "NotAvailable", "Pending"], "Progressing", "TemplatesProgressing"),
    ],
)
def test_templates_sum_up_to_one_state(statuses: list[str], state: str, reason: str) -> None:
    component = templates_component("ServiceTemplates", [StatusValue(one) for one in statuses], Expectation.YES)
    assert (component.state, component.reason) == (state, reason)


@pytest.mark.spec("DI-156", "DI-157", "FW-013")
def test_the_model_s_status_does_not_follow_each_template() -> None:
    cluster = discovery_cluster(
        model(customTemplates=[{"name": name} for name in "abc"], discovery={"extractMetadata": False})
    )
    made = cluster.run(MODELS, "qwen").children
    created = cluster.status(MODELS, "qwen")
    assert cluster.condition(MODELS, "qwen", "ServiceTemplatesReady") == ("False", "TemplatesProgressing")
    assert len(made) > 1
    for child, value in zip(made[:-1], ("Progressing", "Ready"), strict=False):
        cluster.change(TEMPLATES, child.name, status={"status": value})
        cluster.run(MODELS, "qwen")
        assert same_status(cluster.status(MODELS, "qwen"), created)
    for child in made:
        cluster.change(TEMPLATES, child.name, status={"status": "Ready"})
    cluster.run(MODELS, "qwen")
    assert cluster.condition(MODELS, "qwen", "ServiceTemplatesReady") == ("True", "AllTemplatesReady")


@pytest.mark.spec("DI-155", "DI-158")
def test_templates_of_others_count_too() -> None:
    foreign = {**template("mine"), "status": {"status": "NotAvailable"}}
    switched_off = {"extractMetadata": False, "createServiceTemplates": False}
    cluster = discovery_cluster(model(discovery=switched_off), foreign)
    cluster.run(MODELS, "qwen")
    assert cluster.value(MODELS, "qwen") == "NotAvailable"


@pytest.mark.spec("DI-157")
@pytest.mark.parametrize(("value", "quoted"), [("NotAvailable", True), ("Failed", True), ("Ready", False)])
def test_a_model_of_which_no_template_can_be_used_quotes_the_first(value: str, quoted: bool) -> None:
    ready = condition("Ready", value == "Ready", "GPUNotAvailable", "no node has GPU MI355X")
    foreign = {**template("mine"), "status": {"status": value, "conditions": [ready]}}
    switched_off = {"extractMetadata": False, "createServiceTemplates": False}
    cluster = discovery_cluster(model(discovery=switched_off), foreign)
    cluster.run(MODELS, "qwen")
    (reported,) = (
        one for one in cluster.status(MODELS, "qwen")["conditions"] if one["type"] == "ServiceTemplatesReady"
    )
    words = "; AIMServiceTemplate mine: GPUNotAvailable: no node has GPU MI355X"
    assert reported["message"].endswith(words) is quoted


@pytest.mark.spec("DI-157")
@pytest.mark.parametrize(("value", "concerns"), [("NotAvailable", True), ("Progressing", False)])
def test_other_words_of_a_template_concern_its_model_while_they_are_quoted(value: str, concerns: bool) -> None:
    predicate: Callable[[Any], object] = next(one.of for one in PREDICATES if one.part == TEMPLATES)

    def seen(words: str) -> object:
        ready = condition("Ready", False, "GPUNotAvailable", words)
        status = {"status": value, "conditions": [ready]}
        return predicate(AIMServiceTemplate.model_validate({**template("mine"), "status": status}))

    assert (seen("no node has GPU MI355X") != seen("no node has GPU MI325X")) is concerns


def with_deployment(*others: JsonObject) -> tuple[DiscoveryCluster, str]:
    given = {"model": {"recommendedDeployments": [{"gpuModel": "MI300X", "gpuCount": 1, "metric": "latency"}]}}
    cluster = discovery_cluster(model(imageMetadata=given), *others)
    return cluster, cluster.run(MODELS, "qwen").children[0].name


@pytest.mark.spec("DI-153", "DI-154", "DI-358")
def test_a_template_of_somebody_else_or_with_other_fixed_fields_is_left_alone() -> None:
    cluster, name = with_deployment()
    own = cluster.raw(TEMPLATES, name)
    assert [child.name for child in cluster.run(MODELS, "qwen").children] == [name]
    stranger = [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": True}]
    cluster.put(TEMPLATES, {**own, "metadata": {**own["metadata"], "ownerReferences": stranger}})
    plan = cluster.run(MODELS, "qwen")
    assert plan.children == ()
    assert "TemplateNameConflict" in [event.reason for event in plan.events]
    another = {**own["metadata"], "uid": "another"}
    cluster.put(TEMPLATES, {**own, "metadata": another, "spec": {**own["spec"], "metric": "throughput"}})
    plan = cluster.run(MODELS, "qwen")
    assert plan.children == ()
    assert "TemplateImmutable" in [event.reason for event in plan.events]


@pytest.mark.spec("DI-150")
def test_defaults_that_admission_filled_in_are_no_difference() -> None:
    cluster, name = with_deployment()
    own = cluster.raw(TEMPLATES, name)
    gpu = {**own["spec"]["hardware"]["gpu"], "resourceName": "amd.com/gpu"}
    cluster.put(TEMPLATES, {**own, "spec": {**own["spec"], "hardware": {"gpu": gpu}}})
    assert [child.name for child in cluster.run(MODELS, "qwen").children] == [name]
