"""What the program writes into the artifact's status, on a real API."""

import asyncio
import re
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from support.controlplane import RawApi
from support.downloads import COMMIT, FakeHub, FakeS3, Program

from aim_domain.kinds import AIM_ARTIFACT
from controller_runtime import KubeClient
from controller_runtime.kube.config import Connection, NoCredentials
from embedded_apiserver import ControlPlane

Expected: TypeAlias = tuple[int, str, int, int, str]

BASE = "/apis/aim.eai.amd.com/v1alpha1/namespaces/default/aimartifacts"


@pytest.fixture
async def variables(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> dict[str, str | Path]:
    body = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMArtifact",
        "metadata": {"name": "qwen"},
        "spec": {"sourceUri": "hf://org/model"},
    }
    reply = await api.send("POST", BASE, body)
    assert reply.status == 201, reply.body
    path = tmp_path / "kubeconfig"
    path.write_text(controlplane.kubeconfig(), encoding="utf-8")
    return {
        "KUBECONFIG": path,
        "ARTIFACT_NAME": "qwen",
        "ARTIFACT_NAMESPACE": "default",
        "PROGRESS_INTERVAL": "0.2",
        "EXPECTED_SIZE_BYTES": "1048576",
        "AIM_DOWNLOADER_PROTOCOL": "XET,HTTP",
    }


async def half_way(plane: ControlPlane) -> None:
    connection = Connection(plane.url, NoCredentials())
    async with (
        KubeClient(connection, service="test") as kube,
        kube.watch(AIM_ARTIFACT, "default", resource_version="0") as events,
    ):
        async for event in events:
            progress = event.object.get("status", {}).get("progress", {})
            if progress.get("percentage") == 50:
                return


@pytest.mark.spec("AR-827")
async def test_the_commit_of_the_weights_is_reported(
    program: Program, api: RawApi, hub: FakeHub, variables: dict[str, str | Path]
) -> None:
    ended = await program.download("hf://org/model@v1.0", **{**variables, "HF_ENDPOINT": hub.url})
    assert ended.code == 0, ended.err
    assert (await stored(api))["status"]["download"]["commit"] == COMMIT


async def stored(api: RawApi) -> dict[str, Any]:
    return (await api.send("GET", f"{BASE}/qwen")).body


@pytest.mark.spec("AR-300", "AR-301", "AR-302", "AR-713", "AR-759", "AR-760", "FW-200", "FW-278", "AR-710")
async def test_simulated_download(
    program: Program, api: RawApi, controlplane: ControlPlane, variables: dict[str, str | Path]
) -> None:
    debug = {
        "AIM_DEBUG_SIMULATE_DOWNLOAD": "true",
        "AIM_DEBUG_DOWNLOAD_DURATION": "2",
        "AIM_DEBUG_VERIFY_DURATION": "0.1",
    }
    process = await program.start("aim_artifacts.downloader", "hf://org/model", {**variables, **debug})
    async with asyncio.timeout(60):
        await half_way(controlplane)
    assert (await program.ended(process)).code == 0
    artifact = await stored(api)
    assert artifact["status"]["progress"] == {
        "percentage": 100,
        "displayPercentage": "100 %",
        "downloadedBytes": 1048576,
        "totalBytes": 1048576,
    }
    assert {entry["manager"] for entry in artifact["metadata"]["managedFields"]} >= {"aim-downloader"}


@pytest.mark.spec("AR-306", "AR-307", "AR-721", "AR-725", "AR-726", "SC-022", "SC-023", "SC-024")
@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        (("XET,HTTP", "XET"), (0, "HTTP", 2, 2, "Verifying integrity...")),
        (("XET,HTTP", "XET,HTTP"), (15, "HTTP", 2, 2, "All 2 attempts exhausted")),
        (("XET,FOO,HTTP", "XET"), (0, "HTTP", 3, 3, "Verifying integrity...")),
    ],
)
async def test_attempts(
    program: Program, api: RawApi, variables: dict[str, str | Path], attempts: tuple[str, str], expected: Expected
) -> None:
    sequence, failing = attempts
    debug = {
        "AIM_DOWNLOADER_PROTOCOL": sequence,
        "AIM_DEBUG_SIMULATE_HF_DOWNLOAD": "true",
        "AIM_DEBUG_SIMULATE_HF_DURATION": "0.1",
        "AIM_DEBUG_SIMULATE_HF_FAIL_PROTOCOLS": failing,
    }
    code = (await program.download("hf://org/model", **{**variables, **debug})).code
    state = (await stored(api))["status"]["download"]
    assert (code, state["protocol"], state["attempt"], state["totalAttempts"], state["message"]) == expected
    assert state["protocolSequence"] == sequence


@pytest.mark.spec("AR-712", "SC-028")
async def test_a_refused_report_never_fails_the_download(
    program: Program, api: RawApi, hub: FakeHub, variables: dict[str, str | Path]
) -> None:
    await api.send("DELETE", f"{BASE}/qwen")
    ended = await program.download("hf://org/model", **{**variables, "HF_ENDPOINT": hub.url})
    assert ended.code == 0, ended.err
    assert "warning: the status of the artifact could not be patched" in ended.err


@pytest.mark.spec("AR-748", "AR-759", "SC-026")
async def test_a_hanging_transfer_is_killed(program: Program, variables: dict[str, str | Path]) -> None:
    debug = {"AIM_DEBUG_CAUSE_HANG": "true", "STALL_TIMEOUT": "1"}
    ended = await program.download("hf://org/model", **{**variables, **debug})
    assert (ended.code, ended.termination["category"]) == (14, "Stalled")


@pytest.mark.spec("AR-759", "AR-760")
async def test_simulated_failures(program: Program) -> None:
    failure = await program.download("s3://a/b", AIM_DEBUG_CAUSE_FAILURE="true")
    assert failure.code == 1
    verification = await program.download(
        "s3://a/b",
        AIM_DEBUG_SIMULATE_DOWNLOAD="1",
        AIM_DEBUG_DOWNLOAD_DURATION="0",
        AIM_DEBUG_VERIFY_DURATION="0",
        AIM_DEBUG_VERIFY_FAIL="1",
    )
    assert (verification.code, verification.termination["category"]) == (13, "VerificationFailed")
    size = await program.check_size("hf://a/b", AIM_DEBUG_SIMULATE_SIZE_BYTES="77", AIM_DEBUG_CAUSE_FAILURE="1")
    assert (size.code, size.out) == (0, '{"url":"hf://a/b","sizeBytes":77}\n')


@pytest.fixture
def keyed(bucket: FakeS3, variables: dict[str, str | Path]) -> dict[str, str | Path]:
    """With access to the bucket."""
    keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "not-a-secret"}
    return {**variables, **keys, "AWS_ENDPOINT_URL": bucket.url}


@pytest.mark.spec("AR-309", "AR-737")
@pytest.mark.parametrize("refused", [False, True])
async def test_s3_has_one_protocol_and_one_attempt(
    program: Program, api: RawApi, bucket: FakeS3, keyed: dict[str, str | Path], *, refused: bool
) -> None:
    bucket.of_content = (403, "AccessDenied") if refused else None
    ended = await program.download("s3://models/models/tiny", **keyed)
    assert ended.code == (10 if refused else 0), ended.err
    assert (await stored(api))["status"]["download"] == {
        "protocol": "S3",
        "attempt": 1,
        "totalAttempts": 1,
        "protocolSequence": "S3",
        "message": "Failed with S3" if refused else "Verifying integrity...",
    }


@pytest.mark.spec("AR-750")
async def test_a_long_verification_is_no_stall(program: Program) -> None:
    ended = await program.download(
        "s3://a/b",
        AIM_DEBUG_SIMULATE_DOWNLOAD="1",
        AIM_DEBUG_DOWNLOAD_DURATION="0.1",
        AIM_DEBUG_VERIFY_DURATION="1.5",
        STALL_TIMEOUT="0.5",
    )
    assert ended.code == 0, ended.err


@pytest.mark.spec("AR-307", "AR-309", "AR-300")
async def test_while_bytes_arrive_the_status_says_how_fast(
    program: Program, api: RawApi, controlplane: ControlPlane, variables: dict[str, str | Path], bucket: FakeS3
) -> None:
    bucket.objects = {"tiny/a.bin": bytes(8 << 20)}
    bucket.faults.pause = 0.1
    said: list[str] = []
    keys = {"AWS_ENDPOINT_URL": bucket.url, "EXPECTED_SIZE_BYTES": str(8 << 20)}
    connection = Connection(controlplane.url, NoCredentials())
    async with (
        KubeClient(connection, service="test") as kube,
        kube.watch(AIM_ARTIFACT, "default", resource_version="0") as events,
        asyncio.timeout(60),
    ):
        process = await program.start("aim_artifacts.downloader", "s3://models/tiny", {**variables, **keys})
        async for event in events:
            said.append(event.object.get("status", {}).get("download", {}).get("message", ""))
            if said[-1] == "Verifying integrity...":
                break
    assert (await program.ended(process)).code == 0
    assert any(re.fullmatch(r"Downloading with S3, [0-9.]+ [KM]iB/s", one) for one in said), said
    assert (await stored(api))["status"]["download"]["message"] == "Verifying integrity..."
