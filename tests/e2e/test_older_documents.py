"""Who follows the older documents: their configuration works as it is, and what they serve moves and runs."""

import asyncio
from pathlib import Path

import pytest
import yaml
from support.old_objects import GUIDE, KAIWO_DEFAULTS, NAMESPACE_CONFIG, old_body
from support.stack import OWN, Platform
from typer.testing import CliRunner, Result

from aim_cli.__main__ import app
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEAM = "older-documents"
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
ROUTES = f"/apis/gateway.networking.k8s.io/v1/namespaces/{TEAM}/httproutes"
KAIWO_CONFIGS = "/apis/config.kaiwo.silogen.ai/v1alpha1/kaiwoconfigs"
WORKLOADS = f"/apis/serving.kserve.io/v1beta1/namespaces/{TEAM}/inferenceservices"


def secret(name: str, **data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def pull_secret(name: str) -> JsonObject:
    config = {".dockerconfigjson": '{"auths":{"private.example":{"auth":"YTpi"}}}'}
    return {**secret(name, **config), "type": "kubernetes.io/dockerconfigjson"}


async def migrate(platform: Platform, folder: Path, *bodies: JsonObject, dry_run: bool = False) -> Result:
    file = folder / "older.yaml"
    file.write_text(yaml.safe_dump_all(bodies))
    words = ["migrate", "--kubeconfig", str(platform.stack.kubeconfig), "-f", str(file)]
    words += ["--dry-run"] if dry_run else []
    return await asyncio.to_thread(CliRunner().invoke, app, words)


@pytest.mark.spec("RC-S30", "RC-125", "RC-149", "RC-141")
async def test_a_service_of_the_older_documents_runs_with_its_configuration(platform: Platform, tmp_path: Path) -> None:
    await platform.namespace(TEAM)
    for one in (secret("hf-creds", token="t"), pull_secret("my-regcred"), pull_secret("another-secret")):
        await platform.api.created(f"/api/v1/namespaces/{TEAM}/secrets", one)
    spec = {**NAMESPACE_CONFIG, "gateway": {"name": "public", "namespace": "gateways"}}
    config = old_body("AIMNamespaceConfig", "tenant", spec, TEAM)
    path = f"/apis/config.kaiwo.silogen.ai/v1alpha1/namespaces/{TEAM}/aimnamespaceconfigs"
    await platform.api.created(path, config)

    moved = await migrate(platform, tmp_path, old_body("AIMService", "chat", {"model": {"image": IMAGE}}, TEAM))

    assert moved.exit_code == 0, moved.output
    service = await platform.running(f"{OWN}/namespaces/{TEAM}/aimservices/chat")
    answer = await platform.chat(service["status"]["routing"]["path"], "hello")
    assert answer["choices"][0]["message"]["content"].endswith("hello")
    [workload] = (await platform.api.get(WORKLOADS)).body["items"]
    predictor = workload["spec"]["predictor"]
    assert predictor["imagePullSecrets"] == [{"name": "my-regcred"}, {"name": "another-secret"}]
    env = {variable["name"]: variable for variable in predictor["containers"][0]["env"]}
    assert env["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hf-creds", "key": "token"}
    [route] = (await platform.api.get(ROUTES)).body["items"]
    assert route["spec"]["parentRefs"][0]["name"] == "public"
    again = await migrate(platform, tmp_path, old_body("AIMService", "chat", {"model": {"image": IMAGE}}, TEAM))
    assert (again.exit_code, "1 unchanged" in again.output) == (0, True)


@pytest.mark.spec("RC-S30", "RC-125", "RC-131", "RC-132", "RC-133", "RC-156")
async def test_a_service_runs_from_a_cluster_s_older_model_under_its_older_configuration(
    platform: Platform, tmp_path: Path
) -> None:
    await platform.namespace("older-cluster")
    # As its own definition completes it; another storage class or taint would change what other tests rely on.
    await platform.api.created(KAIWO_CONFIGS, old_body("KaiwoConfig", "kaiwo", KAIWO_DEFAULTS))
    [guide] = [body for body in GUIDE if body["metadata"]["name"] == "meta-llama-3-8b-instruct"]
    model = old_body("AIMClusterModel", "older-qwen", {**guide["spec"], "image": IMAGE})
    service = old_body("AIMService", "chat", {"model": {"ref": "older-qwen"}}, "older-cluster")
    [config] = [body for body in GUIDE if body["kind"] == "AIMClusterRuntimeConfig"]

    moved = await migrate(platform, tmp_path, model, service, config)

    # The default config is there: it is completed. What it has no place for is told.
    assert "2 created, 1 completed, 0 unchanged, 0 refused" in moved.output
    assert "spec.model.creationScope" in moved.output
    running = await platform.running(f"{OWN}/namespaces/older-cluster/aimservices/chat")
    assert running["status"]["resolvedModel"]["scope"] == "Cluster"
    assert running["status"]["resolvedTemplate"]["scope"] == "Cluster"
    answer = await platform.chat(running["status"]["routing"]["path"], "hello")
    assert answer["choices"][0]["message"]["content"].endswith("hello")
    [workload] = (await platform.api.get(WORKLOADS.replace(TEAM, "older-cluster"))).body["items"]
    predictor = workload["spec"]["predictor"]
    assert predictor["tolerations"] == [{"key": "kaiwo.silogen.ai/gpu", "operator": "Exists"}]
    env = {variable["name"]: variable for variable in predictor["containers"][0]["env"]}
    assert env["HF_HOME"]["value"] == "/hf_cache"
    assert {"name": "hf-home", "mountPath": "/hf_cache"} in predictor["containers"][0]["volumeMounts"]
    await platform.api.delete("/api/v1/namespaces/older-cluster")
    await platform.api.delete(f"{KAIWO_CONFIGS}/kaiwo")
    # Two models of one image: whoever names the image alone would be told to name one of them.
    await platform.api.delete(f"{OWN}/aimclustermodels/older-qwen")
    await platform.api.until_gone(f"{OWN}/aimclustermodels/older-qwen")


@pytest.mark.spec("RC-141", "RC-147")
async def test_all_documents_are_accepted(platform: Platform, tmp_path: Path) -> None:
    await platform.namespace("ml-team")
    of_namespaces = [body for body in GUIDE if "namespace" in body["metadata"]]
    of_cluster = [body for body in GUIDE if body not in of_namespaces]
    # Under their own image they would stay in the catalogue and be asked for again and again.
    moved = await migrate(platform, tmp_path, *of_namespaces)
    assert "4 created, 0 completed, 0 unchanged, 0 refused" in moved.output
    assert moved.exit_code == 1
    checked = await migrate(platform, tmp_path, *of_cluster, dry_run=True)
    assert "0 refused; nothing was written" in checked.output
    await platform.api.delete("/api/v1/namespaces/ml-team")
