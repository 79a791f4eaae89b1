"""Discovery without a registry, behind a mirror, after a corrected Secret, and with nodes that come and go."""

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cluster import NAMESPACE, path
from support.controlplane import RawApi, Reply
from support.discovery_service import (
    CLUSTER_MODELS,
    CLUSTER_TEMPLATES,
    MODELS,
    TEMPLATES,
    body,
    condition,
    has_status,
    model,
    running_discovery,
    template,
)
from support.nats import eventually

from aim_domain import labels
from aim_local.registry import DEMO_AUTH, LocalRegistry
from controller_runtime import JsonObject, dumps
from embedded_apiserver import ControlPlane

pytestmark = pytest.mark.usefixtures("backends")

DUMMY = "amdenterpriseai/aim-dummy:0.1.0"
SOURCES = [{"modelId": "a/b", "sourceUri": "hf://a/b"}]
NODES = "/api/v1/nodes"


def gone(reply: Reply) -> bool:
    return reply.status == 404


@pytest.mark.spec("AC-13", "AC-19", "AC-46", "DI-119", "DI-151", "DI-208")
async def test_a_cluster_model_has_templates_of_the_cluster_and_jobs_with_the_operator(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    async with running_discovery(controlplane, tmp_path):
        image = f"{registry.host}/{DUMMY}"
        flags = {"extractMetadata": True, "createServiceTemplates": True}
        spec = {"image": image, "discovery": flags}
        await api.created(CLUSTER_MODELS, body("AIMClusterModel", "dummy", spec))

        done = (await api.until(f"{CLUSTER_MODELS}/dummy", has_status("Ready"))).body
        (made,) = (await api.get(CLUSTER_TEMPLATES)).body["items"]

        assert condition(done, "ClusterServiceTemplatesReady") == ("True", "AllTemplatesReady")
        assert made["metadata"]["labels"]["aim.eai.amd.com/origin"] == "auto-generated"
        assert made["metadata"]["labels"]["aim.eai.amd.com/model"] == "dummy"
        assert condition(made, "ClusterModelReady") == ("True", "ClusterModelFound")
        assert made["status"]["discoveryJob"]["namespace"] == NAMESPACE
        assert made["status"]["modelSources"][0]["modelId"] == "HuggingFaceTB/SmolLM2-135M"
        assert (await api.get(path(TEMPLATES))).body["items"] == []
        await api.delete(f"{CLUSTER_MODELS}/dummy")
        await api.until(f"{CLUSTER_TEMPLATES}/{made['metadata']['name']}", gone)


@pytest.mark.spec("AC-14", "AC-27", "AC-28", "DI-059", "DI-064", "DI-065")
async def test_nothing_is_asked_of_any_registry_where_metadata_is_given(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    deployment = {"gpuModel": "MI300X", "gpuCount": 1, "metric": "latency", "precision": "fp8"}
    given = {"model": {"canonicalName": "given", "recommendedDeployments": [deployment]}}
    entry = {"name": "mine", "hardware": {"gpu": {"requests": 1, "model": "MI300X"}}}
    image = f"{registry.host}/{DUMMY}"
    secrets = [{"name": "this-secret-does-not-exist"}]
    async with running_discovery(controlplane, tmp_path):
        await api.created(path(MODELS), model(image, imageMetadata=given, imagePullSecrets=secrets))
        off = {"extractMetadata": False}
        await api.created(path(MODELS), model(image, "entries", customTemplates=[entry], discovery=off))
        processors = {"hardware": {"cpu": {"requests": "500m", "limits": "2"}}}
        own = {"modelSources": SOURCES, "custom": processors, "discovery": off}
        await api.created(path(MODELS), model(image, "processors", **own))
        done = (await api.until(path(MODELS, "qwen"), has_status("Ready"))).body
        await api.until(path(MODELS, "entries"), has_status("Ready"))
        await api.until(path(MODELS, "processors"), has_status("Ready"))
        made = (await api.get(path(TEMPLATES))).body["items"]

    assert condition(done, "ImageMetadataReady") == ("True", "ImageMetadataFound")
    assert done["status"]["imageMetadata"] == given
    assert registry.total_requests == 0
    (small,) = [one for one in made if one["spec"]["modelName"] == "processors"]
    assert small["status"]["hardwareSummary"] == "CPU"
    assert small["status"]["resolvedHardware"] == processors["hardware"]
    assert "GPUReady" not in [one["type"] for one in small["status"]["conditions"]]


@pytest.mark.usefixtures("short_waits")
@pytest.mark.spec("AC-74", "DI-071", "FW-S81", "FW-S82")
async def test_a_mirror_is_asked_instead_and_named_when_it_does_not_answer(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    rules = tmp_path / "registries.yaml"
    rules.write_text(
        "registries:\n"
        f"  ghcr.io: {{mirrors: [{{url: 'http://{registry.host}'}}], upstream: {{enabled: false}}}}\n"
        "  quay.io: {mirrors: [{url: 'http://127.0.0.1:1'}], upstream: {enabled: false}}\n"
    )
    image = f"ghcr.io/{DUMMY}"
    async with running_discovery(controlplane, tmp_path, registry_config=str(rules)):
        await api.created(path(MODELS), model(image))
        await api.created(path(MODELS), model(f"quay.io/{DUMMY}", "nowhere"))

        await api.until(path(MODELS, "qwen"), has_status("Ready"))
        lost = (await api.until(path(MODELS, "nowhere"), has_status("Degraded"))).body

        (made,) = (await api.get(path(TEMPLATES))).body["items"]
        assert made["status"]["discoveryJob"]["name"].startswith("discover-ghcr-io-")
        jobs = (await api.get(path("batch/v1/jobs"))).body["items"]
        assert [one["spec"]["template"]["spec"]["containers"][0]["image"] for one in jobs] == [image]
    assert registry.requests["manifest"] > 0
    assert condition(lost, "ImageMetadataReady") == ("False", "MetadataExtractionFailed")
    (said,) = [one["message"] for one in lost["status"]["conditions"] if one["type"] == "ImageMetadataReady"]
    assert "127.0.0.1:1" in said


def pull_secret(host: str, password: str) -> JsonObject:
    auth = {"auths": {host: {"username": DEMO_AUTH.username, "password": password}}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "registry", "namespace": NAMESPACE},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": b64encode(dumps(auth)).decode()},
    }


def reported(reason: str) -> Callable[[Reply], bool]:
    def accept(reply: Reply) -> bool:
        found = (reply.body.get("status") or {}).get("conditions") or []
        return any(one["reason"] == reason for one in found)

    return accept


@pytest.mark.usefixtures("short_waits")
@pytest.mark.spec("AC-18", "DI-073", "DI-075", "FW-096")
async def test_a_corrected_secret_is_enough(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    image = f"{registry.host}/private/aim-dummy:0.1.0"
    async with running_discovery(controlplane, tmp_path):
        created = await api.created(path(MODELS), model(image, imagePullSecrets=[{"name": "registry"}]))
        failed = (await api.until(path(MODELS, "qwen"), has_status("Failed"))).body
        assert condition(failed, "ImageMetadataReady") == ("False", "SecretNotFound")
        assert condition(failed, "ConfigValid") == ("False", "ReferenceNotFound")

        await api.created(path("v1/secrets"), pull_secret(registry.host, "wrong"))
        await api.until(path(MODELS, "qwen"), reported("ImagePullAuthFailure"))
        await api.merge(
            path("v1/secrets", "registry"), {"data": pull_secret(registry.host, DEMO_AUTH.password)["data"]}
        )
        done = (await api.until(path(MODELS, "qwen"), has_status("Ready"))).body

    assert done["metadata"]["generation"] == created["metadata"]["generation"]
    assert condition(done, "ConfigValid") == ("True", "ConfigurationValid")


@pytest.mark.usefixtures("short_waits")
@pytest.mark.spec("DI-301", "DI-303", "DI-306", "FW-096")
async def test_a_corrected_token_starts_the_next_discovery_before_its_backoff_ends(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    refusal = {"local.aim/fail": "discovery=crash", "local.aim/fail-log": "Cannot access gated repo x"}
    await api.merge(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"annotations": refusal}})
    token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf", "namespace": NAMESPACE}}
    await api.created(path("v1/secrets"), {**token, "stringData": {"token": "wrong"}})
    env = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}]
    async with running_discovery(controlplane, tmp_path):
        off = {"extractMetadata": False, "createServiceTemplates": False}
        await api.created(path(MODELS), model(DUMMY, discovery=off))
        await api.created(path(TEMPLATES), template("gated", env=env))
        failed = (await api.until(path(TEMPLATES, "gated"), reported("DiscoveryFailed"))).body
        assert failed["status"]["status"] == "Failed"
        assert condition(failed, "AuthValid") == ("False", "AuthError")

        # What is corrected before it was looked at for the first time goes unnoticed.
        await eventually(lambda: secret_reads(controlplane) > 0, "a first look at the Secret")
        healed = dict.fromkeys(refusal)
        await api.merge(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"annotations": healed}})
        await api.merge(path("v1/secrets", "hf"), {"stringData": {"token": "right"}})
        # The backoff alone would take a minute.
        done = (await api.until(path(TEMPLATES, "gated"), has_status("Ready"), 40)).body

    assert done["metadata"]["generation"] == failed["metadata"]["generation"]
    assert condition(done, "AuthValid") == ("True", "AuthenticationValid")


def secret_reads(controlplane: ControlPlane) -> int:
    """How often discovery has read a Secret; the kubelet reads them too."""
    wanted = ("aim-discovery", "get", "secrets")
    entries = controlplane.requests.report()["requests"]
    return sum(one["count"] for one in entries if (one["userAgent"], one["verb"], one["resource"]) == wanted)


async def label_node(api: RawApi, device: str | None) -> None:
    keys = (labels.GPU_DEVICE_ID, f"{labels.GPU_DEVICE_ID}.75a3")
    values = dict(zip(keys, (device, None if device is None else "8"), strict=True))
    reply = await api.merge(f"{NODES}/spare", {"metadata": {"labels": values}})
    assert reply.status == 200, reply.body


@pytest.mark.spec("AC-41", "DI-158", "DI-200", "DI-363")
async def test_models_and_templates_follow_the_labels_of_nodes(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    gpu = {"gpu": {"requests": 1, "model": "MI355X"}}
    await api.created(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "spare"}})
    async with running_discovery(controlplane, tmp_path):
        off = {"extractMetadata": False}
        await api.created(path(MODELS), model(DUMMY, discovery={**off, "createServiceTemplates": False}))
        await api.created(path(TEMPLATES), template("big", modelSources=SOURCES, hardware=gpu))
        for device, value in ((None, "NotAvailable"), ("75a3", "Ready"), (None, "NotAvailable"), ("75a3", "Ready")):
            await label_node(api, device)
            found = (await api.until(path(TEMPLATES, "big"), has_status(value))).body
            await api.until(path(MODELS, "qwen"), has_status(value))
            assert condition(found, "Discovered") == ("True", "InlineModelSources")
