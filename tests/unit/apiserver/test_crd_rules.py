"""The rules in the platform's CRDs, evaluated: each row is a change that a rule lets pass or refuses."""

from functools import cache
from typing import Any

import pytest
from support.apiserver_schemas import crd_schema

from controller_runtime import JsonObject
from embedded_apiserver.objects.cel import CelRules

SERVICE, SOURCE, MODEL = "aimservices", "aimclustermodelsources", "aimmodels"
TEMPLATE, ARTIFACT = "aimservicetemplates", "aimartifacts"

HARDWARE: JsonObject = {"gpu": {"requests": 1}}
WEIGHTS: JsonObject = {"modelId": "a/b", "sourceUri": "hf://a/b"}
PROFILE: JsonObject = {"engineArgs": {}}
NAMED: JsonObject = {"name": "m"}
COMPLETE: JsonObject = {
    "modelName": "m", "aimId": "a", "modelId": "b", "hardware": HARDWARE, "metric": "latency", "precision": "fp8",
}  # fmt: skip


@cache
def rules(plural: str) -> CelRules:
    return CelRules.compile(crd_schema(plural))


def messages(plural: str, spec: JsonObject, old: JsonObject | None = None) -> str:
    """All messages of a create, or of an update from the old spec."""
    errors = rules(plural).validate({"spec": spec}, None if old is None else {"spec": old})
    return "; ".join(str(error) for error in errors)


def without(spec: JsonObject, name: str) -> JsonObject:
    return {key: value for key, value in spec.items() if key != name}


@pytest.mark.spec("CC-160", "CEL-01", "CEL-02")
@pytest.mark.parametrize(
    ("hardware", "keywords"),
    [
        (HARDWARE, ()),
        ({"cpu": {"requests": "4"}}, ()),
        ({}, ("gpu", "cpu")),
        ({"gpu": {"model": "MI300X", "minVram": "64Gi"}}, ("model", "minVram")),
        ({"gpu": {"model": "", "minVram": "64Gi"}}, ()),
        ({"gpu": {"model": "MI300X"}}, ()),
    ],
)
def test_hardware(hardware: JsonObject, keywords: tuple[str, ...]) -> None:
    found = messages(SERVICE, {"model": NAMED, "overrides": {"hardware": hardware}})
    assert bool(found) == bool(keywords)
    assert all(word in found for word in keywords)


@pytest.mark.spec("CC-160", "CEL-10", "CEL-12")
@pytest.mark.parametrize(
    ("model", "keyword"),
    [
        (NAMED, ""),
        ({"image": "i"}, ""),
        ({"name": ""}, ""),
        ({"custom": {"modelSources": [WEIGHTS], "hardware": HARDWARE}}, ""),
        ({}, "name"),
        ({"name": "", "image": "i"}, "image"),
        ({"name": "m", "custom": {"modelSources": [WEIGHTS], "hardware": HARDWARE}}, "custom"),
        ({"custom": {"modelSources": [], "hardware": HARDWARE}}, "model source"),
    ],
)
def test_the_model_of_a_service(model: JsonObject, keyword: str) -> None:
    found = messages(SERVICE, {"model": model})
    assert bool(found) == bool(keyword)
    assert keyword in found


def service(**spec: Any) -> JsonObject:
    return {"model": NAMED, **spec}


@pytest.mark.spec("CC-160", "CC-161", "CC-165", "CEL-11", "CEL-13", "CEL-14", "CEL-15", "CEL-16", "AR-601")
@pytest.mark.parametrize(
    ("old", "new", "keywords"),
    [
        (service(), {"model": {"name": "n"}}, ("model", "immutable")),
        (service(template={"name": "a"}), service(template={"name": "b"}), ("template", "immutable")),
        (service(template={"name": "a"}), service(template={"name": "a"}), ()),
        (service(), service(template={"name": "b"}), ()),
        (service(caching={"mode": "Shared"}), service(caching={"mode": "Dedicated"}), ("caching", "immutable")),
        (service(), service(caching={"mode": "Dedicated"}), ("caching", "immutable")),
        (service(), service(caching={"mode": "Shared"}), ()),
        (service(caching={"mode": "Auto"}), service(), ()),
        (service(caching={"mode": "Dedicated"}), service(), ("caching", "immutable")),
        (
            service(overrides={"metric": "latency"}),
            service(overrides={"metric": "throughput"}),
            ("metric", "immutable"),
        ),
        (service(overrides={"precision": "fp8"}), service(overrides={"precision": "fp16"}), ("precision", "immutable")),
        (
            service(overrides={"hardware": {"cpu": {"requests": "1"}}}),
            service(overrides={"hardware": {"cpu": {"requests": "1000m"}}}),
            ("hardware", "immutable"),
        ),
        (service(replicas=1), service(replicas=2), ()),
    ],
)
def test_what_is_immutable_in_a_service(old: JsonObject, new: JsonObject, keywords: tuple[str, ...]) -> None:
    found = messages(SERVICE, new, old)
    assert bool(found) == bool(keywords)
    assert all(word in found for word in keywords)


@pytest.mark.spec("CC-160", "CEL-20")
@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({"images": ["i"]}, False),
        ({"filters": [{"image": "a/*"}]}, False),
        ({}, True),
        ({"images": ["i"], "filters": []}, True),
    ],
)
def test_a_model_source_has_images_or_filters(spec: JsonObject, refused: bool) -> None:
    found = messages(SOURCE, spec)
    assert bool(found) == refused
    assert not refused or ("images" in found and "filters" in found)


@pytest.mark.spec("CC-160", "CC-162", "CEL-30")
@pytest.mark.parametrize("plural", [MODEL, "aimclustermodels"])
@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({}, False),
        ({"modelSources": []}, False),
        ({"modelSources": [WEIGHTS], "custom": {"hardware": HARDWARE}}, False),
        ({"modelSources": [WEIGHTS], "customTemplates": [{"hardware": HARDWARE}]}, False),
        ({"modelSources": [WEIGHTS]}, True),
        ({"modelSources": [WEIGHTS], "customTemplates": []}, True),
        ({"modelSources": [WEIGHTS], "customTemplates": [{"hardware": HARDWARE}, {}]}, True),
    ],
)
def test_a_model_with_weights_says_its_hardware(plural: str, spec: JsonObject, refused: bool) -> None:
    found = messages(plural, {"image": "i", **spec})
    assert bool(found) == refused
    assert not refused or "hardware" in found


@pytest.mark.spec("CC-160", "CEL-31")
@pytest.mark.parametrize("missing", [None, "aimId", "modelId", "hardware", "metric", "precision"])
def test_a_custom_profile_of_a_custom_template_needs_the_rest(missing: str | None) -> None:
    entry: JsonObject = {
        "aimId": "a", "modelId": "b", "hardware": HARDWARE, "customProfile": PROFILE,
        "profile": {"metric": "latency", "precision": "fp8"},
    }  # fmt: skip
    entry = {**without(entry, missing or ""), "profile": without(entry["profile"], missing or "")}
    found = messages(MODEL, {"image": "i", "customTemplates": [entry]})
    assert bool(found) == bool(missing)
    assert not missing or "customProfile" in found


@pytest.mark.spec("CC-160", "CEL-40", "CEL-41")
@pytest.mark.parametrize("plural", [TEMPLATE, "aimclusterservicetemplates"])
@pytest.mark.parametrize("name", ["metric", "precision", "hardware"])
def test_what_a_template_is_for_never_changes(plural: str, name: str) -> None:
    other = {"metric": "throughput", "precision": "fp16", "hardware": {"gpu": {"requests": 2}}}[name]
    for old, new in (
        (COMPLETE, {**COMPLETE, name: other}),
        (COMPLETE, without(COMPLETE, name)),
        (without(COMPLETE, name), COMPLETE),
    ):
        found = messages(plural, new, old)
        assert name in found
        assert "immutable" in found
    assert messages(plural, {**COMPLETE, "env": []}, COMPLETE) == ""


@pytest.mark.spec("CC-160", "CEL-40")
def test_the_model_of_a_template_never_changes() -> None:
    found = messages(TEMPLATE, {**COMPLETE, "modelName": "n"}, COMPLETE)
    assert "modelName" in found
    assert "immutable" in found


@pytest.mark.spec("CC-160", "CC-164", "CEL-42")
@pytest.mark.parametrize("missing", [None, "aimId", "modelId", "hardware", "metric", "precision"])
def test_a_custom_profile_of_a_template_needs_the_rest(missing: str | None) -> None:
    spec = without({**COMPLETE, "customProfile": PROFILE}, missing or "")
    found = messages(TEMPLATE, spec)
    assert bool(found) == bool(missing)
    assert not missing or "customProfile" in found
    assert messages(TEMPLATE, without(spec, "customProfile"), spec) == ""


@pytest.mark.spec("CC-160", "CEL-50", "CEL-51")
@pytest.mark.parametrize(
    ("old", "new", "keyword"),
    [
        ({"sourceUri": "hf://a"}, {"sourceUri": "hf://b"}, "sourceUri"),
        ({"sourceUri": "hf://a"}, {"sourceUri": "hf://a", "downloadFilter": {}}, "downloadFilter"),
        ({"sourceUri": "hf://a", "downloadFilter": {}}, {"sourceUri": "hf://a"}, "downloadFilter"),
        (
            {"sourceUri": "hf://a", "downloadFilter": {"include": ["a"]}},
            {"sourceUri": "hf://a", "downloadFilter": {"include": ["b"]}},
            "downloadFilter",
        ),
        ({"sourceUri": "hf://a", "downloadFilter": {}}, {"sourceUri": "hf://a", "downloadFilter": {}}, ""),
        ({"sourceUri": "hf://a"}, {"sourceUri": "hf://a", "size": "1Gi"}, ""),
    ],
)
def test_what_is_immutable_in_an_artifact(old: JsonObject, new: JsonObject, keyword: str) -> None:
    found = messages(ARTIFACT, new, old)
    assert bool(found) == bool(keyword)
    assert keyword in found
    assert not keyword or "immutable" in found
