"""Amounts that the API server lets in and that make no sense: one condition names the field, and nothing is made."""

from copy import deepcopy
from typing import Any

import pytest
from support.whole_platform import Pass, own_passes, variants

from controller_runtime import JsonObject

_CPU: JsonObject = {"cpu": {"requests": "0"}}
_VRAM: JsonObject = {"gpu": {"requests": 1, "minVram": "-1Gi"}}


def changed(name: str, path: str, value: Any) -> tuple[JsonObject, JsonObject]:
    """A variant of the platform before and after a change."""
    before = variants()[name]
    after = deepcopy(before)
    *folders, last = path.split(".")
    place = after["spec"]
    for folder in folders:
        place = place[int(folder)] if folder.isdecimal() else place.setdefault(folder, {})
    place[last] = value
    after["metadata"]["generation"] = 2
    return before, after


def says(one: Pass) -> JsonObject | None:
    conditions = (one.plan.status or {}).get("conditions", ())
    return next((found for found in conditions if found["type"] == "ConfigValid"), None)


@pytest.mark.spec("CC-301", "CC-310", "CC-S11", "CC-P11", "AR-P06")
@pytest.mark.parametrize(
    ("name", "path", "value", "field"),
    [
        ("AIMService of its own", "model.custom.hardware", _CPU, "spec.model.custom.hardware.cpu.requests is 0"),
        ("AIMService of its own", "model.custom.hardware", _VRAM, "spec.model.custom.hardware.gpu.minVram is -1Gi"),
        ("AIMService of its own", "model.custom.modelSources.0.size", "-5", "spec.model.custom.modelSources[0].size"),
        ("AIMService", "overrides", {"hardware": _CPU}, "spec.overrides.hardware.cpu.requests is 0"),
        ("AIMModel of its own", "custom.hardware", _CPU, "spec.custom.hardware.cpu.requests is 0"),
        ("AIMModel of its own", "customTemplates.0.hardware", _VRAM, "spec.customTemplates[0].hardware.gpu.minVram"),
        ("AIMModel of its own", "modelSources.0.size", "-1Gi", "spec.modelSources[0].size is -1Gi"),
        ("AIMServiceTemplate", "hardware", {"cpu": {"requests": "-1"}}, "spec.hardware.cpu.requests is -1"),
        ("AIMServiceTemplate", "hardware", {"cpu": {"requests": 1, "limits": -2}}, "spec.hardware.cpu.limits is -2"),
        ("AIMServiceTemplate", "modelSources", [{"modelId": "a/b", "sourceUri": "hf://a/b", "size": -1}],
         "spec.modelSources[0].size is -1"),
        ("AIMClusterServiceTemplate", "hardware", _CPU, "spec.hardware.cpu.requests is 0"),
        ("AIMArtifact", "size", "-1Gi", "spec.size is -1Gi"),
        ("AIMArtifact", "sourceUri", "hf:///", "spec.sourceUri 'hf:///' names nothing to download"),
        ("AIMArtifact", "size", "1e1.5", "spec.size is 1e1.5, which is no quantity"),
        ("AIMServiceTemplate", "hardware", {"cpu": {"requests": "1e1.5"}}, "spec.hardware.cpu.requests is 1e1.5"),
        ("AIMTemplateCache", "modelSources", [{"modelId": "a/b", "sourceUri": "hf://a/b", "size": -1}],
         "spec.modelSources[0].size is -1"),
        ("AIMService", "resources", {"limits": {"memory": "-1Gi"}}, "spec.resources.limits[memory] is -1Gi"),
        ("AIMService", "resources", {"requests": {"cpus": 1}}, "spec.resources.requests[cpus] is no resource"),
        ("AIMModel", "resources", {"requests": {"cpu": "1e1.5"}}, "spec.resources.requests[cpu] is 1e1.5, which is no"),
        ("AIMServiceTemplate", "resources", {"limits": {"a b/c": 1}}, "spec.resources.limits[a b/c] is no resource"),
    ],
)  # fmt: skip
def test_an_amount_that_makes_no_sense_is_one_condition(name: str, path: str, value: Any, field: str) -> None:
    found = own_passes(*changed(name, path, value))[0]
    condition = says(found)
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "InvalidSpec")
    assert condition["message"].startswith(field)
    assert found.plan.status is not None
    assert found.plan.status["status"] == "Failed"
    assert found.plan.children == ()
    assert found.plan.retry is None, "only a change of the spec helps"


@pytest.mark.spec("CC-301", "CC-310", "CC-S11")
@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("AIMServiceTemplate", "hardware", {"cpu": {"requests": "500m"}}),
        ("AIMServiceTemplate", "hardware", {"gpu": {"requests": 1, "minVram": "0"}}),
        ("AIMModel of its own", "modelSources.0.size", 0),
        ("AIMArtifact", "size", "0"),
    ],
)
def test_an_amount_of_nothing_means_that_none_is_given(name: str, path: str, value: Any) -> None:
    found = own_passes(*changed(name, path, value))[0]
    assert found.plan.status is not None
    assert says(found) is None
