"""Download and check-size pods run the real downloader program, which ends with its pod."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from support.cluster import NAMESPACE, JobSpec, holds, path, simulated_cluster
from support.controlplane import RawApi, eventually

from controller_runtime import JsonObject, loads
from embedded_apiserver import ControlPlane

JOBS, PODS = "batch/v1/jobs", "v1/pods"
SOURCE = "hf://Qwen/Qwen3-32B"
QUICK = (("AIM_DEBUG_DOWNLOAD_DURATION", "0.1"), ("AIM_DEBUG_VERIFY_DURATION", "0"), ("PROGRESS_INTERVAL", "0.05"))
ARTIFACT: JsonObject = {
    "apiVersion": "aim.eai.amd.com/v1alpha1",
    "kind": "AIMArtifact",
    "metadata": {"name": "qwen", "namespace": NAMESPACE},
    "spec": {"sourceUri": SOURCE, "modelId": "Qwen/Qwen3-32B"},
}


@pytest.fixture
def _kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Downloaders find the API server as any client does."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))


def job(name: str, component: str, container: str, env: tuple[tuple[str, str], ...]) -> JsonObject:
    labels = (("aim.eai.amd.com/cache.type", "artifact"), ("aim.eai.amd.com/component", component))
    image = "docker.io/amdenterpriseai/aim-artifact-downloader:0.1.0"
    return JobSpec(name, image=image, labels=labels, container=container, env=env, args=(SOURCE,)).build()


def claim(name: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }


async def created_with_claim(api: RawApi, job: JsonObject) -> None:
    await api.post(path("v1/persistentvolumeclaims"), claim("weights"))
    await api.created(path(JOBS), job)


def download(*env: tuple[str, str]) -> JsonObject:
    target = (("ARTIFACT_NAME", "qwen"), ("ARTIFACT_NAMESPACE", NAMESPACE), ("EXPECTED_SIZE_BYTES", str(61 << 30)))
    made = job("download", "download", "model-download", (*QUICK, *target, *env))
    claim = {"name": "cache", "persistentVolumeClaim": {"claimName": "weights"}}
    made["spec"]["template"]["spec"]["volumes"] = [claim]
    return made


async def pod_of(api: RawApi, name: str) -> JsonObject:
    (pod,) = (await api.get(path(PODS), labelSelector=f"job-name={name}")).body["items"]
    return dict(pod)


@pytest.mark.usefixtures("_kubeconfig", "backends")
async def test_a_download_reports_progress_and_leaves_its_data_in_the_claim(api: RawApi, tmp_path: Path) -> None:
    artifacts = path("aim.eai.amd.com/v1alpha1/aimartifacts")
    await api.created(artifacts, ARTIFACT)
    await created_with_claim(api, download())

    await api.until(path(JOBS, "download"), lambda reply: holds(reply.body, "Complete"))

    artifact = (await api.get(f"{artifacts}/qwen")).body
    written = tmp_path / "data" / "volumes" / NAMESPACE / "weights" / "simulated_data"
    assert artifact["status"]["progress"]["percentage"] == 100
    assert written.stat().st_size == 1 << 20


@pytest.mark.usefixtures("_kubeconfig", "backends")
async def test_the_size_is_the_termination_message_and_the_last_line(api: RawApi) -> None:
    env = (("AIM_DEBUG_SIMULATE_SIZE_BYTES", "4711"),)
    await api.created(path(JOBS), job("size", "check-size", "check-size", env))

    await api.until(path(JOBS, "size"), lambda reply: holds(reply.body, "Complete"))

    pod = await pod_of(api, "size")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    async with api.session.get(path(PODS, pod["metadata"]["name"]) + "/log") as log:
        text = await log.text()
    assert loads(ended["message"])["sizeBytes"] == 4711
    assert loads(text.splitlines()[-1])["sizeBytes"] == 4711


@pytest.mark.usefixtures("_kubeconfig", "backends")
async def test_a_failed_verification_is_reported_by_exit_code_and_message(api: RawApi) -> None:
    await created_with_claim(api, download(("AIM_DEBUG_VERIFY_FAIL", "true")))

    await api.until(path(JOBS, "download"), lambda reply: holds(reply.body, "Failed"))

    ended = (await pod_of(api, "download"))["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 13
    assert loads(ended["message"])["category"] == "VerificationFailed"


def processes_with(checkpoint: str) -> list[int]:
    """Processes whose environment holds a text."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                if checkpoint.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


@pytest.mark.usefixtures("_kubeconfig")
async def test_no_download_outlives_its_pod_or_the_actors(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    checkpoint = f"AIM_TEST_MARKER={tmp_path}"
    hanging = (("AIM_DEBUG_CAUSE_HANG", "true"), ("AIM_TEST_MARKER", str(tmp_path)))
    async with simulated_cluster(controlplane, tmp_path):
        await created_with_claim(api, download(*hanging))
        await eventually(lambda: len(processes_with(checkpoint)) >= 2, 60)
        await api.delete(path(JOBS, "download") + "?propagationPolicy=Background")
        await eventually(lambda: not processes_with(checkpoint), 60)

        await created_with_claim(api, download(*hanging))
        await eventually(lambda: len(processes_with(checkpoint)) >= 2, 60)
    assert not processes_with(checkpoint)


@pytest.mark.usefixtures("_kubeconfig")
async def test_no_download_outlives_killed_actors(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> None:
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    (tmp_path / "kubeconfig").write_text(controlplane.kubeconfig())
    checkpoint = f"AIM_TEST_MARKER={tmp_path}"
    actors = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aim_local.actors", "--data", str(tmp_path / "data"),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    await created_with_claim(api, download(("AIM_DEBUG_CAUSE_HANG", "true"), ("AIM_TEST_MARKER", str(tmp_path))))
    await eventually(lambda: len(processes_with(checkpoint)) >= 2, 60)

    os.kill(actors.pid, signal.SIGKILL)
    await actors.wait()

    await eventually(lambda: not processes_with(checkpoint), 60)


async def test_later_actors_release_what_earlier_ones_bound(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    claims = path("v1/persistentvolumeclaims")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "weights", "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    async with simulated_cluster(controlplane, tmp_path):
        await api.created(claims, claim)
        bound = await api.until(f"{claims}/weights", lambda reply: reply.body["status"].get("phase") == "Bound")
    volume = f"/api/v1/persistentvolumes/{bound.body['spec']['volumeName']}"

    async with simulated_cluster(controlplane, tmp_path):
        await api.delete(f"{claims}/weights")
        await api.until_gone(volume)
