"""Bad input gives a state, a condition and a reason that a person can act on; nothing hangs, and a repair heals."""

import pytest
from support.stack import OWN, Platform, status_of

from aim_shared.json import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


def condition(obj: JsonObject, type_: str) -> tuple[str, str]:
    conditions = (obj.get("status") or {}).get("conditions") or []
    found = next((one for one in conditions if one["type"] == type_), None)
    return ("", "") if found is None else (found["status"], found["reason"])


def message(obj: JsonObject, type_: str) -> str:
    return next(str(one["message"]) for one in obj["status"]["conditions"] if one["type"] == type_)


@pytest.mark.spec("DI-093", "SV-216", "SV-219")
async def test_an_image_that_the_registry_does_not_have(platform: Platform) -> None:
    await platform.namespace("no-image")
    missing = "amdenterpriseai/aim-qwen-qwen3-32b:7.7.7"
    path = await platform.service("no-image", "chat", model={"image": missing})

    service = await platform.until(path, lambda obj: condition(obj, "ModelReady")[1] == "ModelNotReady")
    assert status_of(service) in ("Pending", "Failed")
    models = (await platform.api.get(f"{OWN}/namespaces/no-image/aimmodels")).body["items"]
    model = f"{OWN}/namespaces/no-image/aimmodels/{models[0]['metadata']['name']}"
    found = await platform.until(model, lambda obj: condition(obj, "ImageMetadataReady") == ("False", "ImageNotFound"))
    assert missing.rpartition(":")[2] in message(found, "ImageMetadataReady")
    failed = await platform.until(path, lambda obj: status_of(obj) == "Failed", seconds=45)
    assert "ImageNotFound" in message(failed, "ModelReady")


@pytest.mark.spec("MS-092", "MS-307", "MS-335")
async def test_a_bad_version_constraint(platform: Platform) -> None:
    path = f"{OWN}/aimclustermodelsources/bad-constraint"
    body = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMClusterModelSource",
        "metadata": {"name": "bad-constraint"},
        "spec": {"images": ["amdenterpriseai/aim-qwen-qwen3-32b"], "versions": ["=>1.0"]},
    }
    await platform.api.created(f"{OWN}/aimclustermodelsources", body)

    source = await platform.until(path, lambda obj: status_of(obj) == "Failed")

    assert condition(source, "Ready") == ("False", "AllFiltersFailed")
    assert condition(source, "ConfigValid") == ("False", "InvalidSpec")
    assert "=>1.0" in message(source, "FiltersReady")
    assert "InvalidVersionConstraint" in message(source, "FiltersReady")


@pytest.mark.spec("SV-060", "FW-076", "FW-095")
async def test_a_missing_model_heals_when_it_appears(platform: Platform) -> None:
    await platform.namespace("no-model")
    path = await platform.service("no-model", "chat", model={"name": "not-there"})

    service = await platform.until(path, lambda obj: status_of(obj) == "Failed")
    assert condition(service, "ModelReady") == ("False", "ModelNotFound")
    assert condition(service, "ConfigValid")[0] == "False"
    assert "not-there" in message(service, "ModelReady")

    model = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMModel",
        "metadata": {"name": "not-there", "namespace": "no-model"},
        "spec": {"image": IMAGE},
    }
    await platform.api.created(f"{OWN}/namespaces/no-model/aimmodels", model)
    await platform.running(path)


@pytest.mark.spec("RC-060", "RC-061", "RC-064", "SV-049")
async def test_a_missing_runtime_config_heals_when_it_appears(platform: Platform) -> None:
    await platform.namespace("no-config")
    path = await platform.service("no-config", "chat", model={"image": IMAGE}, runtimeConfigName="special")

    service = await platform.until(path, lambda obj: status_of(obj) == "Failed")
    assert condition(service, "RuntimeConfigReady") == ("False", "ReferenceNotFound")
    assert "special" in message(service, "RuntimeConfigReady")

    config = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMRuntimeConfig",
        "metadata": {"name": "special", "namespace": "no-config"},
        "spec": {},
    }
    await platform.api.created(f"{OWN}/namespaces/no-config/aimruntimeconfigs", config)
    await platform.running(path)


@pytest.mark.spec("CEL-10", "CEL-02", "FW-288")
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"model": {"image": IMAGE, "name": "both"}}, "spec.model"),
        ({"model": {}}, "spec.model"),
        (
            {"model": {"image": IMAGE}, "overrides": {"hardware": {"gpu": {"model": "MI300X", "minVram": "64Gi"}}}},
            "spec.overrides.hardware.gpu",
        ),
    ],
)
async def test_what_breaks_a_rule_is_refused_with_its_field(platform: Platform, spec: JsonObject, field: str) -> None:
    body = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMService",
        "metadata": {"name": "refused", "namespace": "default"},
        "spec": spec,
    }
    answer = await platform.api.post(f"{OWN}/namespaces/default/aimservices", body)

    assert answer.status == 422
    assert field in answer.body["message"]
    assert any(cause["field"] == field for cause in answer.body["details"]["causes"])
