"""The CEL rules of the CRDs, evaluated on objects as the API server stores them."""

from __future__ import annotations

from typing import Any

import cel
import pytest
from support.crd_tables import nodes, schema

from aim_domain.kinds import (
    AIM_ARTIFACT,
    AIM_CLUSTER_MODEL_SOURCE,
    AIM_CLUSTER_PROFILE,
    AIM_MODEL,
    AIM_PROFILE,
    AIM_PROFILE_SET,
    AIM_SERVICE,
    AIM_SERVICE_TEMPLATE,
    OWN_KINDS,
)
from controller_runtime import Kind

GPU = {"gpu": {"requests": 1}}
SOURCE = {"modelId": "a/b", "sourceUri": "hf://a/b"}
PROFILE: dict[str, Any] = {"engineArgs": {}}
COMPLETE = {"modelName": "m", "aimId": "a", "modelId": "b/c", "hardware": GPU, "metric": "latency", "precision": "fp8"}


def _violations(node: dict[str, Any], new: Any, old: Any = None, *, update: bool = False) -> list[str]:
    """Messages of all violated rules; transition rules count only where both objects have the node (CC-161)."""
    found = []
    for rule in node.get("x-kubernetes-validations", []):
        transition = "oldSelf" in rule["rule"]
        if transition and not (update and old is not None):
            continue
        if not cel.compile(rule["rule"]).execute({"self": new, "oldSelf": old} if transition else {"self": new}):
            found.append(rule["message"])
    for name, child in node.get("properties", {}).items():
        if isinstance(new, dict) and name in new:
            before = old.get(name) if isinstance(old, dict) else None
            found += _violations(child, new[name], before, update=update)
    if "items" in node and isinstance(new, list):
        for item in new:
            found += _violations(node["items"], item)
    return found


def _spec(kind: Kind[Any]) -> dict[str, Any]:
    spec: dict[str, Any] = schema(kind)["properties"]["spec"]
    return spec


def created(kind: Kind[Any], spec: dict[str, Any]) -> list[str]:
    return _violations(_spec(kind), spec)


def updated(kind: Kind[Any], old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return _violations(_spec(kind), new, old, update=True)


def _service(**spec: object) -> dict[str, Any]:
    return {"model": {"name": "a"}, **spec}


@pytest.mark.spec("CC-P14", "CEL-10", "CC-S04", "SV-019", "SV-027", "AT-001")
@pytest.mark.parametrize("model", [{}, {"name": "a", "image": "b"}, {"name": "", "image": "b"}])
def test_a_service_names_exactly_one_model(model: dict[str, Any]) -> None:
    [message] = created(AIM_SERVICE, {"model": model})
    assert all(word in message for word in ("name", "image", "custom"))
    assert created(AIM_SERVICE, {"model": {"image": "b"}}) == []


@pytest.mark.spec(
    "CEL-01",
    "CEL-02",
    "CEL-12",
    "CC-S05",
    "CC-S10",
    "DI-016",
    "DI-017",
    "AC-72",
    "SV-023",
    "SV-025",
    "SV-026",
    "AT-005",
    "AT-006",
)
@pytest.mark.parametrize(
    ("hardware", "words"),
    [
        ({}, ("gpu", "cpu")),
        ({"gpu": {"model": "MI300X", "minVram": "64Gi"}}, ("model", "minVram")),
        ({"gpu": {"model": "", "minVram": "64Gi"}}, ()),
        ({"gpu": {"minVram": "64Gi"}}, ()),
        ({"gpu": {"requests": 0}}, ()),
        ({"cpu": {"requests": "4"}}, ()),
    ],
)
def test_hardware(hardware: dict[str, Any], words: tuple[str, ...]) -> None:
    custom = {"baseImage": "i", "modelSources": [SOURCE], "hardware": hardware}
    messages = created(AIM_SERVICE, {"model": {"custom": custom}})
    assert len(messages) == (1 if words else 0)
    assert all(word in messages[0] for word in words)
    overridden = created(AIM_SERVICE, _service(overrides={"hardware": hardware}))
    assert len(overridden) == len(messages)
    custom["modelSources"] = []
    assert any("model source" in message for message in created(AIM_SERVICE, {"model": {"custom": custom}}))


@pytest.mark.spec(
    "CEL-11", "CEL-13", "CEL-15", "CC-S06", "CC-S09", "CC-140", "SV-020", "SV-021", "SV-024", "AT-002", "AT-004"
)
@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ({"model": {"name": "a"}}, {"model": {"name": "b"}}, "model"),
        (_service(template={"name": "a"}), _service(template={"name": "b"}), "template"),
        (_service(overrides={"metric": "latency"}), _service(overrides={"metric": "throughput"}), "metric"),
        (_service(overrides={"precision": "fp8"}), _service(overrides={"precision": "fp16"}), "precision"),
        (_service(overrides={"hardware": GPU}), _service(overrides={"hardware": {"gpu": {}}}), "hardware"),
        (_service(), _service(template={"name": "b"}), None),
        (_service(overrides={"metric": "latency"}), _service(), None),
        (
            _service(overrides={"metric": "latency"}),
            _service(overrides={"metric": "latency", "precision": "fp8"}),
            None,
        ),
        (_service(replicas=1), _service(replicas=3), None),
    ],
)
def test_what_a_service_may_change(old: dict[str, Any], new: dict[str, Any], word: str | None) -> None:
    messages = updated(AIM_SERVICE, old, new)
    assert len(messages) == (1 if word else 0)
    assert all(word in message and "immutable" in message for message in messages if word)


@pytest.mark.spec("CEL-14", "CEL-16", "CC-S07", "SV-022", "SV-028", "AT-003")
@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ("Dedicated", "Shared", True),
        ("Shared", "Dedicated", True),
        ("Dedicated", None, True),
        (None, "Dedicated", True),
        (None, "Never", True),
        ("Never", None, True),
        (None, "Shared", False),
        (None, "Auto", False),
        ("Shared", None, False),
        ("Always", None, False),
        ("Dedicated", "Dedicated", False),
        ("Shared", "Auto", True),
    ],
)
def test_caching_keeps_its_effective_mode(before: str | None, after: str | None, refused: bool) -> None:
    old, new = (_service(caching={"mode": mode}) if mode else _service() for mode in (before, after))
    messages = updated(AIM_SERVICE, old, new)
    assert len(messages) == (1 if refused else 0)
    assert all("caching" in message and "immutable" in message for message in messages)


@pytest.mark.spec("CEL-20", "CC-S24")
@pytest.mark.parametrize(
    ("spec", "refused"),
    [({}, True), ({"images": ["a"], "filters": [{"image": "a"}]}, True), ({"images": ["a"]}, False)],
)
def test_a_source_has_images_or_filters(spec: dict[str, Any], refused: bool) -> None:
    messages = created(AIM_CLUSTER_MODEL_SOURCE, spec)
    assert len(messages) == (1 if refused else 0)
    assert all("images" in message and "filters" in message for message in messages)


@pytest.mark.spec("CEL-30", "CC-162", "CC-S18", "DI-018", "DI-019")
@pytest.mark.parametrize(
    ("extra", "refused"),
    [
        ({}, True),
        ({"custom": {}}, True),
        ({"customTemplates": []}, True),
        ({"customTemplates": [{"hardware": GPU}, {}]}, True),
        ({"customTemplates": [{"hardware": GPU}, {"hardware": GPU}]}, False),
        ({"custom": {"hardware": GPU}}, False),
        ({"modelSources": []}, False),
    ],
)
def test_custom_models_state_their_hardware(extra: dict[str, Any], refused: bool) -> None:
    messages = created(AIM_MODEL, {"image": "i", "modelSources": [SOURCE]} | extra)
    assert len(messages) == (1 if refused else 0)
    assert all("hardware" in message for message in messages)


@pytest.mark.spec("CEL-31", "CC-304", "CC-S19", "DI-020")
def test_a_custom_profile_of_a_custom_template_is_complete() -> None:
    template: dict[str, Any] = {
        "aimId": "a",
        "modelId": "b",
        "hardware": GPU,
        "profile": {"metric": "latency", "precision": "fp8"},
        "customProfile": PROFILE | {"envVars": {"VLLM_X1": "1"}},
    }
    assert created(AIM_MODEL, {"image": "i", "customTemplates": [template]}) == []
    for missing in ("aimId", "modelId", "hardware", "profile"):
        partial = {key: value for key, value in template.items() if key != missing}
        [message] = created(AIM_MODEL, {"image": "i", "customTemplates": [partial]})
        assert "customProfile" in message
    template["customProfile"] = PROFILE | {"envVars": {"lower": "1"}}
    [message] = created(AIM_MODEL, {"image": "i", "customTemplates": [template]})
    assert "envVars" in message


@pytest.mark.spec("CEL-40", "CEL-41", "CC-S21", "DI-027", "DI-028", "AC-72", "DI-P42")
@pytest.mark.parametrize("field", ["modelName", "metric", "precision", "hardware"])
def test_what_a_template_may_not_change(field: str) -> None:
    other = {"gpu": {"requests": 2}} if field == "hardware" else "other"
    [message] = updated(AIM_SERVICE_TEMPLATE, COMPLETE, COMPLETE | {field: other})
    assert field in message
    assert "immutable" in message
    if field != "modelName":
        without = {key: value for key, value in COMPLETE.items() if key != field}
        for old, new in ((COMPLETE, without), (without, COMPLETE)):
            [message] = updated(AIM_SERVICE_TEMPLATE, old, new)
            assert field in message
            assert "immutable" in message


@pytest.mark.spec("CC-S21")
def test_what_a_template_may_change() -> None:
    changed = COMPLETE | {"env": [{"name": "A"}], "profileId": "p", "type": "preview", "modelSources": [SOURCE]}
    assert updated(AIM_SERVICE_TEMPLATE, COMPLETE, changed) == []


@pytest.mark.spec("CEL-42", "CC-164", "CC-S22", "DI-029", "AC-68")
def test_a_custom_profile_of_a_template_is_complete() -> None:
    assert created(AIM_SERVICE_TEMPLATE, COMPLETE | {"customProfile": PROFILE}) == []
    assert updated(AIM_SERVICE_TEMPLATE, COMPLETE | {"customProfile": PROFILE}, COMPLETE) == []
    for missing in ("aimId", "modelId", "hardware", "metric", "precision"):
        partial = {key: value for key, value in COMPLETE.items() if key != missing}
        [message] = created(AIM_SERVICE_TEMPLATE, partial | {"customProfile": PROFILE})
        assert "customProfile" in message


@pytest.mark.spec("CEL-50", "CEL-51", "CC-S25", "CC-S26")
@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ({"sourceUri": "hf://a/b"}, {"sourceUri": "hf://a/c"}, "sourceUri"),
        ({"downloadFilter": {}}, {"downloadFilter": {"include": ["*.json"]}}, "downloadFilter"),
        ({"downloadFilter": {}}, {}, "downloadFilter"),
        ({}, {"downloadFilter": {}}, "downloadFilter"),
        ({"downloadFilter": {"include": ["a"]}}, {"downloadFilter": {"include": ["a"]}}, None),
        ({"retentionPriority": 0}, {"retentionPriority": 5}, None),
    ],
)
def test_what_an_artifact_may_change(old: dict[str, Any], new: dict[str, Any], word: str | None) -> None:
    base = {"sourceUri": "hf://a/b"}
    messages = updated(AIM_ARTIFACT, base | old, base | new)
    assert len(messages) == (1 if word else 0)
    assert all(word in message and "immutable" in message for message in messages if word)


@pytest.mark.spec("CEL-52", "CEL-53", "CEL-54", "LA-002")
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"sourceUri": "hf://a/b"}, ""),
        ({"sourceUri": "hf://a/b", "type": "model"}, ""),
        ({}, "sourceUri is required"),
        ({"type": "model"}, "sourceUri is required"),
        ({"type": "adapterDisk", "size": "1Gi"}, ""),
        ({"type": "adapterDisk"}, "size is required for an adapterDisk"),
        ({"type": "adapter", "sourceUri": "hf://a/b", "disk": "d"}, ""),
        ({"type": "adapter", "sourceUri": "hf://a/b"}, "disk is required for an adapter"),
        ({"type": "adapter", "disk": "d"}, "sourceUri is required"),
        ({"sourceUri": "hf://a/b", "disk": "d"}, "disk is required for an adapter, and for nothing else"),
    ],
)
def test_what_an_artifact_of_a_type_has(spec: dict[str, Any], words: str) -> None:
    found = created(AIM_ARTIFACT, spec)
    assert [one for one in found if words in one] == found
    assert bool(found) == bool(words)


@pytest.mark.spec("CEL-55", "CEL-56", "LA-002")
def test_type_and_disk_of_an_artifact_stay() -> None:
    adapter = {"type": "adapter", "sourceUri": "hf://a/b", "disk": "d"}
    assert updated(AIM_ARTIFACT, adapter, adapter | {"retentionPriority": 1}) == []
    assert updated(AIM_ARTIFACT, adapter, adapter | {"disk": "e"}) == ["disk is immutable"]
    assert "type is immutable" in updated(AIM_ARTIFACT, adapter, adapter | {"type": "model"})
    assert "type is immutable" in updated(AIM_ARTIFACT, {"sourceUri": "hf://a/b"}, adapter)


@pytest.mark.spec("CEL-18")
@pytest.mark.parametrize(("rank", "bad"), [(8, False), (16, False), (512, False), (12, True), (0, True), (1024, True)])
def test_ranks_of_adapters_are_those_of_vllm(rank: int, bad: bool) -> None:
    found = created(AIM_SERVICE, {"model": {"name": "m"}, "adapterRuntime": {"maxRank": rank}})
    assert bool(found) == bad


WEIGHTS = {"aimId": "a", "modelSources": [SOURCE], "image": "i", "acceleratorPartitioningMode": "unpartitioned"}


@pytest.mark.spec("CEL-60", "CEL-61", "PR-003")
@pytest.mark.parametrize(
    ("extra", "word"),
    [
        ({}, None),
        ({"aimId": None, "modelSources": None}, None),
        ({"aimId": None}, "aimId"),
        ({"modelSources": None}, "modelSources"),
        ({"modelSources": []}, "modelSources"),
        ({"acceleratorType": "cpu"}, None),
        ({"acceleratorType": "cpu", "acceleratorPartitioningMode": "CPX-NPS4"}, "acceleratorPartitioningMode"),
    ],
)
def test_what_a_profile_has(extra: dict[str, Any], word: str | None) -> None:
    spec = {name: value for name, value in {**WEIGHTS, **extra}.items() if value is not None}
    for kind in (AIM_PROFILE, AIM_CLUSTER_PROFILE):
        found = created(kind, spec)
        assert len(found) == (0 if word is None else 1)
        assert all((word or "") in message for message in found)


@pytest.mark.spec("CEL-66", "PR-003")
@pytest.mark.parametrize(("before", "after", "bad"), [(None, "a", False), ("a", "a", False), ("a", "b", True)])
def test_the_identity_of_a_profile_stays(before: str | None, after: str, bad: bool) -> None:
    old = {name: value for name, value in {**WEIGHTS, "aimId": before}.items() if value is not None}
    assert bool(updated(AIM_PROFILE, old, {**WEIGHTS, "aimId": after})) == bad
    assert updated(AIM_PROFILE, WEIGHTS, {**WEIGHTS, "engine": "x"}) == []


_DERIVED = {"versionPolicy": "all"}


@pytest.mark.spec("CEL-63", "CEL-64", "CEL-65", "PR-111")
@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"selector": {"aimId": "a"}}, None),
        ({"sourceRef": {"name": "x"}}, None),
        ({}, "selector"),
        ({"selector": {}}, "selector"),
        ({"selector": {"minimumType": "any", "acceleratorPartitioningMode": "CPX"}}, "selector"),
        ({"selector": {"aimId": "a"}, "versionPolicy": "pinned"}, "version"),
        ({"selector": {"aimId": "a"}, "versionPolicy": "pinned", "version": "1"}, None),
        ({"selector": {"aimId": "a"}, "version": "1"}, "version"),
        ({"selector": {"role": "base", "engine": "vllm"}}, "overrides"),
        ({"selector": {"role": "base", "engine": "vllm"}, "overrides": {"aimId": "a", "modelId": "b/c"}}, None),
        ({"selector": {"role": "base", "aimId": "x"}, "overrides": {"aimId": "a", "modelId": "b/c"}}, "role"),
        (
            {"selector": {"aimId": "a"}, "overrides": {"acceleratorPartitioningMode": "CPX-NPS4"}},
            "acceleratorCount",
        ),
    ],
)
def test_what_a_set_derives_from(spec: dict[str, Any], word: str | None) -> None:
    found = created(AIM_PROFILE_SET, {**_DERIVED, **spec})
    assert len(found) == (0 if word is None else 1)
    assert all((word or "") in message for message in found)
    derived_from = {name: spec[name] for name in ("selector", "sourceRef") if name in spec}
    rest = {name: value for name, value in {**_DERIVED, **spec}.items() if name not in derived_from}
    of_model = created(AIM_MODEL, {"profiles": {"derivedFrom": derived_from, **rest}})
    assert len(of_model) == len(found), "the same holds in a model"


@pytest.mark.spec("CEL-17", "CEL-62", "CEL-70", "CEL-71", "PR-010")
@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"profile": {"name": "p"}}, None),
        ({"profile": {"name": "p", "selector": {"aimId": "a"}}}, "selector"),
        ({"profile": {}, "model": {"name": "m"}}, "selector"),
        ({"profile": {"selector": {"aimId": "a", "role": "base"}}}, "role"),
        ({"profile": {"selector": {"metric": "latency"}}, "model": {"name": "m"}}, None),
        ({"profile": {"selector": {"modelRef": {"name": "m"}}}}, None),
        ({"profile": {"name": "p"}, "profileOverrides": {"acceleratorPartitioningMode": "CPX"}}, "acceleratorCount"),
    ],
)
def test_how_a_service_names_a_profile(spec: dict[str, Any], word: str | None) -> None:
    found = created(AIM_SERVICE, spec)
    assert len(found) == (0 if word is None else 1)
    assert all((word or "") in message for message in found)


@pytest.mark.spec("CC-032", "CC-092")
def test_hardware_rules_hold_everywhere() -> None:
    for kind in OWN_KINDS:
        for path, node in nodes(schema(kind)):
            properties = set(node.get("properties", {}))
            if properties in ({"gpu", "cpu"}, {"requests", "model", "minVram", "resourceName"}):
                assert node.get("x-kubernetes-validations"), path


@pytest.mark.spec("CC-015", "CC-161")
def test_rules_fit_old_servers() -> None:
    """No library of newer servers, no comparison with the old value inside lists, bounds where a rule iterates."""
    for kind in OWN_KINDS:
        for path, node in nodes(schema(kind)):
            for rule in node.get("x-kubernetes-validations", []):
                text = rule["rule"]
                assert "quantity(" not in text
                assert "?." not in text
                assert "[]" not in path or "oldSelf" not in text, path
                if "self.all(" in text:
                    assert node["maxProperties"] <= 64
                if "customTemplates.all(" in text:
                    assert node["properties"]["customTemplates"]["maxItems"] <= 16
                if "fieldPath" in rule:
                    assert rule["fieldPath"].lstrip(".") in node["properties"]
