"""Overrides, hardware and names of images, value by value; and what the smaller components say."""

from typing import Any

import pytest
from support.builders import condition
from support.serving import TEAM, aim_service, template

from aim_domain import AIMService, AIMServiceTemplate, Hardware, Overrides
from aim_serving.autoscaling import autoscaler_component
from aim_serving.containers import canonical_hardware
from aim_serving.derived_template import derived_spec
from aim_serving.model import ImageName, ImageNameError, parse_image_name
from aim_serving.status import route_component
from aim_serving.template_selection import Declared, declares, effective_overrides, traits_of
from controller_runtime import Category, ClassifiedError, Condition, Dependency, JsonObject, Lookup, State
from controller_runtime.core import HorizontalPodAutoscaler

GPU = "amd.com/gpu"


@pytest.mark.spec("SV-264")
@pytest.mark.parametrize(
    ("hardware", "canonical"),
    [
        (None, {}),
        ({"gpu": {}}, {"gpu": {"requests": 0, "resourceName": GPU}}),
        ({"gpu": {"requests": 2, "model": "A"}}, {"gpu": {"requests": 2, "resourceName": GPU, "model": "A"}}),
        ({"gpu": {"resourceName": "x/y"}}, {"gpu": {"requests": 0, "resourceName": "x/y"}}),
        ({"gpu": {"minVram": "1Ki"}}, {"gpu": {"requests": 0, "resourceName": GPU, "minVram": "1024"}}),
        ({"gpu": {"minVram": "0"}}, {"gpu": {"requests": 0, "resourceName": GPU}}),
        ({"cpu": {"requests": "500m"}}, {"cpu": {"requests": "0.5"}}),
        ({"cpu": {"requests": "10", "limits": "1.50"}}, {"cpu": {"requests": "10", "limits": "1.5"}}),
    ],
)
def test_hardware_has_one_form(hardware: JsonObject | None, canonical: JsonObject) -> None:
    assert canonical_hardware(None if hardware is None else Hardware.model_validate(hardware)) == canonical


def is_declared(wanted: JsonObject, **of_template: Any) -> bool:
    own = AIMServiceTemplate.model_validate(template(gpu="MI300X", count=2, **of_template))
    declared = Declared(traits_of(own), canonical_hardware(own.spec.hardware))
    return declares(declared, Overrides.model_validate(wanted), str)


@pytest.mark.spec("SV-106")
@pytest.mark.parametrize(
    ("wanted", "is_so"),
    [
        ({"metric": "latency"}, True),
        ({"metric": "throughput"}, False),
        ({"precision": "fp8", "metric": "latency"}, True),
        ({"hardware": {"gpu": {"model": "MI300X"}}}, True),
        ({"hardware": {"gpu": {"model": "MI325X"}}}, False),
        ({"hardware": {"gpu": {"requests": 2}}}, True),
        ({"hardware": {"gpu": {"requests": 3}}}, False),
        ({"hardware": {"gpu": {"minVram": "1Gi"}}}, True),
        ({"hardware": {"gpu": {"minVram": "1024Mi", "resourceName": "x/y"}}}, True),
        ({"hardware": {"gpu": {"minVram": "2Gi"}}}, False),
        ({"hardware": {"gpu": {"resourceName": "a/b"}}}, False),
        ({"hardware": {"cpu": {"requests": "1"}}}, True),
        ({"hardware": {"cpu": {"requests": "2"}}}, False),
    ],
)
def test_a_template_declares_what_is_overridden(wanted: JsonObject, is_so: bool) -> None:
    hardware = {"gpu": {"requests": 2, "minVram": "1Gi", "resourceName": "x/y"}, "cpu": {"requests": "1000m"}}
    assert is_declared(wanted, hardware=hardware) is is_so


@pytest.mark.spec("SV-106")
@pytest.mark.parametrize(("wanted"), [{"model": "MI300X"}, {"requests": 1}])
def test_a_template_that_names_no_gpu_declares_none(wanted: JsonObject) -> None:
    own = AIMServiceTemplate.model_validate(template(gpu="", count=0))
    overrides = Overrides.model_validate({"hardware": {"gpu": wanted}})
    assert declares(Declared(traits_of(own), {}), overrides, str) is False


@pytest.mark.spec("SV-107")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, False),
        ({}, False),
        ({"hardware": {"gpu": {"requests": 0, "resourceName": GPU}}}, False),
        ({"hardware": {"gpu": {"requests": 1}}}, True),
        ({"hardware": {"gpu": {"model": "A"}}}, True),
        ({"hardware": {"gpu": {"minVram": "1Gi"}}}, True),
        ({"hardware": {"gpu": {"resourceName": "x/y"}}}, True),
        ({"hardware": {"cpu": {"requests": "1"}}}, True),
        ({"metric": "latency"}, True),
        ({"precision": "fp8"}, True),
    ],
)
def test_overrides_that_ask_for_nothing_are_none(given: JsonObject | None, says: bool) -> None:
    overrides = None if given is None else Overrides.model_validate(given)
    assert effective_overrides(overrides) == (overrides if says else None)


def derived(wanted: JsonObject, base: JsonObject | None = None, **of_service: Any) -> JsonObject:
    own = AIMServiceTemplate.model_validate(base or template(count=2, profileId="pinned"))
    service = AIMService.model_validate(aim_service(**of_service))
    return derived_spec(own, service, Overrides.model_validate(wanted), "other")


@pytest.mark.spec("SV-113")
@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ({"metric": "latency"}, True),
        ({"metric": "throughput"}, False),
        ({"precision": "fp8"}, True),
        ({"precision": "fp16"}, False),
        ({"hardware": {"gpu": {"model": "MI300X"}}}, True),
        ({"hardware": {"gpu": {"model": "MI325X"}}}, False),
        ({"hardware": {"gpu": {"requests": 2}}}, True),
        ({"hardware": {"gpu": {"requests": 1}}}, False),
        ({"hardware": {"cpu": {"requests": "1"}}}, True),
    ],
)
def test_a_pinned_profile_stays_while_it_can_be_meant(wanted: JsonObject, kept: bool) -> None:
    assert derived(wanted).get("profileId") == ("pinned" if kept else None)


@pytest.mark.spec("SV-113")
def test_of_the_caching_only_the_variables_stay() -> None:
    env = [{"name": "A", "value": "b"}]
    with_env = template(caching={"enabled": True, "env": env})
    assert derived({"metric": "latency"}, with_env)["caching"] == {"enabled": False, "env": env}
    assert "caching" not in derived({"metric": "latency"}, template(caching={"enabled": True}))
    assert "caching" not in derived({"metric": "latency"}, template())


@pytest.mark.spec("RC-026", "SV-113")
def test_values_of_the_service_come_before_those_of_the_base() -> None:
    assert derived({"metric": "latency"})["runtimeConfigName"] == "default"
    of_base = template(runtimeConfigName="base")
    assert derived({"metric": "latency"}, of_base)["runtimeConfigName"] == "base"
    assert derived({"metric": "latency"}, of_base, runtimeConfigName=" own ")["runtimeConfigName"] == "own"


@pytest.mark.spec("SV-037")
@pytest.mark.parametrize(
    ("uri", "name", "tag"),
    [
        ("registry.example.com:5000/models/mistral:latest", "mistral", "latest"),
        ("ghcr.io/amd/llama-3-8b:v1.0.0", "llama-3-8b", "v1-0-0"),
        ("localhost/x:1", "x", "1"),
        ("host:5000/x", "x", "latest"),
        ("a/b:1", "b", "1"),
        ("Big__Name:1", "big-name", "1"),
        ("a/b@sha256:0123456789", "b", "012345"),
        ("__/b:1", "b", "1"),
        ("_:5000/a/b", "b", "latest"),
    ],
)
def test_names_and_tags_of_images(uri: str, name: str, tag: str) -> None:
    assert parse_image_name(uri) == ImageName(name, tag)


@pytest.mark.spec("SV-037")
@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("", "the image URI is empty"),
        (":::invalid", "no usable name"),
        ("a/b:", "no tag after"),
        ("a/b@sha256:", "no digest after"),
        (".../b:1", "no usable registry"),
        (":/b:1", "no usable registry"),
        ("a/b:_", "no usable tag"),
    ],
)
def test_an_image_that_names_no_model_is_refused(uri: str, why: str) -> None:
    with pytest.raises(ImageNameError, match=why):
        parse_image_name(uri)


def stored(type_: str, status: bool | str, reason: str = "Why", message: str = "so it is") -> Condition:
    return Condition.model_validate(condition(type_, status, reason, message))


@pytest.mark.spec("FW-374", "FW-375")
@pytest.mark.parametrize(
    ("reason", "state", "category"),
    [
        ("HTTPRouteCreating", State.PROGRESSING, None),
        ("HTTPRoutePending", State.PROGRESSING, None),
        ("BackendNotFound", State.PROGRESSING, Category.MISSING_DOWNSTREAM),
        ("RouteRefsUnresolved", State.PROGRESSING, Category.MISSING_DOWNSTREAM),
        ("PathTemplateInvalid", State.DEGRADED, None),
        ("HTTPRouteFetchError", State.DEGRADED, None),
        ("NotAllowedByListeners", State.FAILED, Category.INVALID_SPEC),
    ],
)
def test_an_untrue_route_condition_becomes_a_component(reason: str, state: State, category: Category | None) -> None:
    part = route_component(stored("HTTPRouteReady", False, reason), None)
    assert (part.state, part.reason, part.message) == (state, reason, "so it is")
    assert [(one.category, one.reason) for one in part.errors] == ([] if category is None else [(category, reason)])
    assert (part.dependency, part.is_input, part.counted_only) == (Dependency.DOWNSTREAM, False, True)


@pytest.mark.spec("FW-374", "FW-376", "RT-140")
def test_a_route_that_is_there_missing_or_cannot_be() -> None:
    ready = route_component(stored("HTTPRouteReady", True, "HTTPRouteAccepted"), None)
    assert (ready.state, ready.reason, ready.errors) == (State.READY, "HTTPRouteAccepted", ())
    silent = route_component(None, None)
    assert (silent.state, silent.reason) == (State.PROGRESSING, "HTTPRouteCreating")
    fault = ClassifiedError(Category.INVALID_SPEC, "GatewayNotConfigured", "no gateway")
    wrong = route_component(stored("HTTPRouteReady", True), fault)
    assert (wrong.state, wrong.reason, wrong.errors, wrong.is_input) == (State.FAILED, fault.reason, (fault,), True)


@pytest.mark.spec("SV-207", "SV-208", "SV-224")
@pytest.mark.parametrize(
    ("conditions", "ready", "state", "reason"),
    [
        ([], False, State.PROGRESSING, "WaitingForMetrics"),
        ([], True, State.DEGRADED, "MetricsFailed"),
        ([condition("ScalingActive", False)], True, State.DEGRADED, "MetricsFailed"),
        ([condition("ScalingActive", False)], False, State.PROGRESSING, "WaitingForMetrics"),
        ([condition("ScalingActive", True)], True, State.READY, "HPAOperational"),
        ([condition("ScalingActive", True), condition("AbleToScale", True)], True, State.READY, "HPAOperational"),
        (
            [condition("ScalingActive", True), condition("AbleToScale", False)],
            True,
            State.PROGRESSING,
            "ScaleTargetNotReady",
        ),
    ],
)
def test_what_the_autoscaler_says(conditions: list[JsonObject], ready: bool, state: State, reason: str) -> None:
    metadata = {"name": "h", "namespace": TEAM, "uid": "u", "resourceVersion": "1"}
    found = HorizontalPodAutoscaler.model_validate({"metadata": metadata, "status": {"conditions": conditions}})
    part = autoscaler_component("h", Lookup(found), workload_ready=ready)
    assert (part.state, part.reason, part.dependency) == (state, reason, Dependency.DOWNSTREAM)


@pytest.mark.spec("SV-207", "SV-224")
def test_an_autoscaler_that_cannot_be_read_blocks_nothing() -> None:
    error = ClassifiedError(Category.INFRASTRUCTURE, "Away", "away")
    part = autoscaler_component("h", Lookup(None, error), workload_ready=True)
    assert (part.state, part.reason, part.errors) == (State.FAILED, "HPAFetchError", (error,))
    assert part.dependency is Dependency.DOWNSTREAM
    missing = autoscaler_component("h", Lookup(None), workload_ready=True)
    assert (missing.state, missing.reason) == (State.PROGRESSING, "HPANotFound")
