"""Bad input gives a state, a condition and a reason that a person can act on; nothing hangs, and a repair heals."""

from collections.abc import Callable
from functools import partial

import pytest
from support.stack import OWN, Platform, status_of

from controller_runtime import JsonObject

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


def refused(type_: str, reason: str) -> Callable[[JsonObject], bool]:
    """Whether an object has the condition that tells it."""
    return lambda obj: condition(obj, type_) == ("False", reason)


def of_kind(kind: str, name: str, spec: JsonObject, namespace: str = "") -> tuple[str, JsonObject]:
    """Path of the collection, and the object."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    body = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    return f"{OWN}/{f'namespaces/{namespace}/' if namespace else ''}{kind.lower()}s", body


TOO_LONG = "9" * 19 + "h"
NOT_A_PORT = "registry.example.com:99999/a:b"
UNRENDERABLE = {
    "enabled": True,
    "gatewayRef": {"name": "public", "namespace": "gateways"},
    "pathTemplate": "/{.spec.x}",
}
ADMITTED = (
    (of_kind("AIMClusterModelSource", "bad-interval", {"filters": [{"image": "org/a"}], "syncInterval": TOO_LONG}),
     "ConfigValid", "InvalidSpec", "spec.syncInterval"),
    (of_kind("AIMModel", "bad-image", {"image": NOT_A_PORT}, "bad-values"), "ConfigValid", "InvalidSpec", "spec.image"),
    (of_kind("AIMArtifact", "bad-source", {"sourceUri": "hf:///", "size": "1Gi"}, "bad-values"),
     "ConfigValid", "InvalidSpec", "spec.sourceUri"),
    (of_kind("AIMService", "bad-count", {"model": {"image": IMAGE}, "maxReplicas": 2**63 - 1}, "bad-values"),
     "ConfigValid", "InvalidSpec", "spec.maxReplicas"),
    (of_kind("AIMService", "bad-path", {"model": {"image": IMAGE}, "routing": UNRENDERABLE}, "bad-values"),
     "HTTPRouteReady", "PathTemplateInvalid", "pathTemplate"),
)  # fmt: skip
"""For each service a value that the API server admits: the object; condition, reason and words that tell it."""

MOST_TRIES = 12
"""Within the first minute."""


def _warnings_about(name: str, words: str, page: JsonObject) -> list[JsonObject]:
    about = (one for one in page["items"] if one["involvedObject"]["name"] == name and one["type"] == "Warning")
    return [one for one in about if words in one["message"]]


def _any_about(name: str, words: str, page: JsonObject) -> bool:
    return bool(_warnings_about(name, words, page))


@pytest.mark.spec("FW-474", "FW-478", "SV-186")
async def test_what_is_admitted_and_cannot_be_served_is_reported_once(platform: Platform) -> None:
    await platform.namespace("bad-values")
    for (path, body), *_ in ADMITTED:
        await platform.api.created(path, body)
    await platform.running(await platform.service("bad-values", "good", model={"image": IMAGE}))

    for (path, body), type_, reason, words in ADMITTED:
        name = body["metadata"]["name"]
        reported = await platform.until(f"{path}/{name}", refused(type_, reason))
        assert words in message(reported, type_)
        space = body["metadata"].get("namespace", "default")
        # The status is written first, the Event follows.
        page = await platform.until(f"/api/v1/namespaces/{space}/events", partial(_any_about, name, words))
        about = _warnings_about(name, words, page)
        assert len(about) == 1, about
        assert all(one.get("count", 1) <= MOST_TRIES for one in about), about
