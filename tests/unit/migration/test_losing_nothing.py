"""What `aim migrate` must not lose without a word, mix, or show."""

import pytest
from support.old_objects import migrated, old, remarks

from aim_cli.migration.command import Deed, as_yaml, difference, settle
from aim_cli.migration.draft import Weight, completed
from aim_cli.migration.mapping import migrate
from controller_runtime import JsonObject


@pytest.mark.spec("RC-133", "RC-146")
@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("AIMService", {"model": {"ref": "old", "name": "new"}}, "spec.model.ref"),
        ("AIMService", {"model": {"name": "m"}, "templateRef": "fast", "template": "text"}, "spec.templateRef"),
        (
            "AIMServiceTemplate",
            {"modelName": "m", "gpuSelector": {"count": 1}, "hardware": {"gpu": {"requests": 4}}},
            "spec.gpuSelector.count",
        ),
    ],
)
def test_an_old_value_that_another_one_keeps_out_is_named(kind: str, spec: JsonObject, field: str) -> None:
    _, reported = migrated(kind, spec)
    assert (Weight.CONFLICT, field) in reported


@pytest.mark.spec("RC-146", "RC-147")
def test_empty_blocks_lose_nothing() -> None:
    result = migrate([old("AIMNamespaceConfig", "a", {"gateway": {}, "credentials": {}, "images": {}})])
    assert remarks(result) == set()


@pytest.mark.spec("RC-148")
def test_two_versions_of_one_service_are_not_mixed() -> None:
    first = old("AIMService", "x", {"model": {"ref": "a"}})
    second = old("AIMService", "x", {"model": {"ref": "b"}, "replicas": 3})
    result = migrate([first, second])
    (new,) = result.objects
    assert new.body["spec"] == {"model": {"name": "a"}}
    assert remarks(result) == {(Weight.CONFLICT, "")}


@pytest.mark.spec("RC-141", "RC-148", "RC-013")
def test_a_difference_shows_no_credentials() -> None:
    secret = "hf_secret"
    (new,) = migrate([old("AIMRuntimeConfig", "default", {"routing": {"enabled": True}})]).objects
    there = {
        **new.body,
        "metadata": {
            **new.body["metadata"],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": f'{{"value":"{secret}"}}'},
        },
        "spec": {"env": [{"name": "HF_TOKEN", "value": secret}, {"name": "PLACE", "valueFrom": {"fieldRef": {}}}]},
    }
    reported = difference(settle(new, there))
    assert "HF_TOKEN" in reported
    assert "fieldRef" in reported
    assert "+  routing:" in reported
    assert secret not in reported


@pytest.mark.spec("RC-141")
@pytest.mark.parametrize("text", ["1e3", "08", "0o7", "-1.5E2", ".5", "+1", "123"])
def test_texts_that_look_like_numbers_are_quoted(text: str) -> None:
    assert as_yaml({"value": text}) == f"value: '{text}'\n"
    assert as_yaml({"value": f"v{text}"}) == f"value: v{text}\n"


@pytest.mark.spec("RC-141", "RC-143", "CC-009")
@pytest.mark.parametrize(
    "spec",
    [
        {"env": None},
        {"routing": {"pathTemplate": None}},
        {"storage": None, "routing": {"enabled": True, "gatewayRef": None}},
        {"env": [{"name": "A", "value": "1", "valueFrom": None}], "routing": {"enabled": True}},
    ],
)
def test_a_null_says_nothing(spec: JsonObject) -> None:
    (new,) = migrate([old("AIMRuntimeConfig", "default", spec)]).objects
    stored = {"routing": {"enabled": True}, "env": [{"name": "A", "value": "1"}]}
    there = {**new.body, "spec": stored}
    step = settle(new, there)
    assert (step.deed, step.findings, step.body["spec"]) == (Deed.KEEP, (), stored)
    kept, conflicts = completed({"spec": {"env": None}}, {"spec": {"env": [{"name": "A"}]}})
    assert (kept["spec"], conflicts) == ({"env": [{"name": "A"}]}, [])
