"""The discovery service as it runs: API server, broker, registry, Jobs with logs."""

from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.cluster import NAMESPACE, path
from support.controlplane import RawApi, Reply
from support.discovery_service import (
    MODELS,
    TEMPLATES,
    Running,
    condition,
    forbidden_requests,
    has_status,
    model,
    running_discovery,
)
from support.rounds import at_rest

from aim_local.registry import DEMO_AUTH, LocalRegistry
from controller_runtime import dumps
from embedded_apiserver import ControlPlane

pytestmark = pytest.mark.usefixtures("backends")

_LOGIN = f"{DEMO_AUTH.username}:{DEMO_AUTH.password}".encode()
PROFILES = "aim.eai.amd.com/component=custom-profile"


@pytest.fixture
async def service(controlplane: ControlPlane, tmp_path: Path) -> AsyncIterator[Running]:
    async with running_discovery(controlplane, tmp_path) as running:
        yield running


@pytest.mark.spec("DI-047", "DI-119", "DI-156", "DI-207", "DI-258", "DI-278", "DI-011", "FW-387")
async def test_an_image_becomes_a_ready_model_with_ready_templates(
    api: RawApi, registry: LocalRegistry, service: Running
) -> None:
    image = f"{registry.host}/amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
    await api.created(path(MODELS), model(image))

    done = (await api.until(path(MODELS, "qwen"), has_status("Ready"))).body

    assert condition(done, "ImageMetadataReady") == ("True", "ImageMetadataFound")
    assert condition(done, "ServiceTemplatesReady") == ("True", "SomeTemplatesReady")
    templates = (await api.get(path(TEMPLATES))).body["items"]
    states = sorted(one["status"]["status"] for one in templates)
    assert states == ["NotAvailable", "Ready", "Ready"]
    ready = next(one for one in templates if one["status"]["status"] == "Ready")
    assert ready["status"]["profile"]["engine_args"]["no-enable-log-requests"] is None
    assert ready["status"]["modelSources"][0]["size"]
    await still(service, api, [path(MODELS, "qwen"), *(path(TEMPLATES, one["metadata"]["name"]) for one in templates)])
    page = service.metrics[0].page().decode()
    assert f'aim_registry_requests_total{{host="{registry.host}",status="2xx"}}' in page
    assert "aim_registry_insecure_endpoints 0.0" in page


async def still(service: Running, api: RawApi, paths: list[str]) -> None:
    """Settled objects are not written any more (FW-011)."""

    async def versions() -> list[str]:
        return [str((await api.get(one)).body["metadata"]["resourceVersion"]) for one in paths]

    await at_rest(service.processes[0], versions, "settled objects are not written any more")


@pytest.mark.usefixtures("short_waits", "service")
@pytest.mark.spec("DI-076", "DI-081", "DI-089", "DI-090", "DI-093", "DI-098", "FW-344")
async def test_bad_images_are_reported(
    api: RawApi, registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Credentials of the machine are nobody's: a model of a tenant must not be inspected with them.
    (tmp_path / "config.json").write_bytes(dumps({"auths": {registry.host: {"auth": b64encode(_LOGIN).decode()}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    cases = {
        "missing": ("amdenterpriseai/aim-nowhere:1", "Degraded", "ImageNotFound"),
        "private": ("private/aim-dummy:0.1.0", "Degraded", "ImagePullAuthFailure"),
        "malformed": ("badcases/malformed-labels:1.0.0", "Failed", "MetadataFormatInvalid"),
    }
    for name, (repository, _, _) in cases.items():
        await api.created(path(MODELS), model(f"{registry.host}/{repository}", name))

    for name, (repository, value, reason) in cases.items():

        def reported(reply: Reply, value: str = value, reason: str = reason) -> bool:
            return has_status(value)(reply) and condition(reply.body, "ImageMetadataReady") == ("False", reason)

        found = (await api.until(path(MODELS, name), reported)).body
        (said,) = [one["message"] for one in found["status"]["conditions"] if one["type"] == "ImageMetadataReady"]
        assert repository.rpartition(":")[0] in said


@pytest.mark.usefixtures("service")
@pytest.mark.spec("DI-072", "DI-076", "DI-078", "DI-368", "FW-301")
async def test_a_pull_secret_opens_a_private_image(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry
) -> None:
    auth = {"auths": {registry.host: {"username": DEMO_AUTH.username, "password": DEMO_AUTH.password}}}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "registry", "namespace": NAMESPACE},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": b64encode(dumps(auth)).decode()},
    }
    await api.created(path("v1/secrets"), secret)
    image = f"{registry.host}/private/aim-dummy:0.1.0"
    await api.created(path(MODELS), model(image, imagePullSecrets=[{"name": "registry"}]))

    done = (await api.until(path(MODELS, "qwen"), has_status("Ready"))).body

    assert condition(done, "ImageMetadataReady") == ("True", "ImageMetadataFound")
    (job_template,) = (await api.get(path(TEMPLATES))).body["items"]
    assert job_template["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert forbidden_requests(controlplane) == set()


@pytest.mark.spec("DI-263", "DI-280", "DI-306")
async def test_output_without_a_profile_fails_the_template_and_its_model(
    api: RawApi, registry: LocalRegistry, service: Running
) -> None:
    await api.created(path(MODELS), model(f"{registry.host}/badcases/noisy-output:1.0.0"))

    done = (await api.until(path(MODELS, "qwen"), has_status("Failed"))).body

    assert condition(done, "ServiceTemplatesReady") == ("False", "AllTemplatesFailed")
    (failed,) = (await api.get(path(TEMPLATES))).body["items"]
    assert condition(failed, "Discovered") == ("False", "DiscoveryFailed")
    assert failed["status"]["discovery"]["lastFailureReason"].startswith("InvalidDiscoveryOutput: ")
    await still(service, api, [path(MODELS, "qwen"), path(TEMPLATES, failed["metadata"]["name"])])


@pytest.mark.usefixtures("service")
@pytest.mark.spec("DI-239", "DI-251", "DI-252", "DI-368", "FW-301")
async def test_a_custom_profile_is_discovered(controlplane: ControlPlane, api: RawApi, registry: LocalRegistry) -> None:
    image = f"{registry.host}/amdenterpriseai/aim-base:0.9.0"
    await api.created(path(MODELS), model(image, discovery={"createServiceTemplates": False}))
    template = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMServiceTemplate",
        "metadata": {"name": "mine", "namespace": NAMESPACE},
        "spec": {
            "modelName": "qwen",
            "aimId": "meta-llama/Llama-3-8B",
            "modelId": "org/weights",
            "hardware": {"gpu": {"requests": 1, "model": "MI300X"}},
            "metric": "latency",
            "precision": "fp16",
            "customProfile": {"engineArgs": {"max-model-len": 4096}},
        },
    }
    await api.created(path(TEMPLATES), template)

    await api.until(path(TEMPLATES, "mine"), has_status("Ready"))
    (config_map,) = (await api.get(path("v1/configmaps"), labelSelector=PROFILES)).body["items"]
    assert list(config_map["data"]) == ["vllm-mi300x-fp16-tp1-latency.yaml"]
    assert forbidden_requests(controlplane) == set()
