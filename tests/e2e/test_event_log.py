"""The event log of a real run: its story is told in order, and every decision is taken alike again."""

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from support.controlplane import Ran
from support.nats import eventually
from support.outages import is_well, lacks
from support.stack import OWN, Platform, status_of

from aim_cli.log.connecting import history
from aim_cli.services import services
from aim_serving import containers
from controller_runtime.replay import Replayer, Verdict

pytestmark = pytest.mark.asyncio(loop_scope="session")

REPORTED = """
apiVersion: aim.eai.amd.com/v1alpha1
kind: AIMClusterModelSource
metadata:
  name: told-source
spec:
  registry: docker.io
  images: ["amdenterpriseai/aim-qwen-qwen3-32b"]
  versions: ["=0.8.4"]
---
apiVersion: aim.eai.amd.com/v1alpha1
kind: AIMService
metadata:
  name: chat
  namespace: told
spec:
  model:
    image: amdenterpriseai/aim-qwen-qwen3-32b:0.8.4
"""
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


async def aim(platform: Platform, *arguments: str) -> Ran:
    """Run the command as a user would."""
    environment = {**os.environ, "AIM_NATS_URL": platform.stack.nats_url}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aim_cli", *arguments,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())


@pytest.mark.spec("FW-650")
async def test_the_story_runs_through_the_five_services_in_one_trace(platform: Platform, tmp_path: Path) -> None:
    # One trace for all that belongs together, begun by whoever applies it. The source finds a version that no other
    # source lists, so the model is catalogued, inspected and profiled on behalf of this trace.
    await platform.namespace("told")
    file = tmp_path / "told.yaml"
    file.write_text(REPORTED, encoding="utf-8")
    trace = await platform.apply([file])
    await platform.running(f"{OWN}/namespaces/told/aimservices/chat")

    async def story() -> Ran:
        return await aim(platform, "timeline", "aimservice", "told/chat")

    async def is_logged() -> bool:
        return "Starting → Running" in (await story()).out

    # The log has a version a moment after whoever watches Kubernetes.
    await eventually(is_logged, "the log has the end of the story")
    reported = await story()

    assert reported.code == 0, reported
    lines = reported.out.splitlines()
    moments = [line for line in lines if not line.startswith("trace ")]
    assert [line[:12] for line in moments] == sorted(line[:12] for line in moments)
    assert any(line.endswith("created") for line in moments)

    later = await aim(platform, "timeline", "aimservice", "told/chat", "--since", "2099-01-01T00:00:00Z")
    assert (later.code, later.out) == (3, "")
    assert "nothing about aimservice told/chat since 2099-01-01 00:00:00 UTC" in later.err

    # What the trace did in other places is part of it, not of the story of one service.
    everything = await aim(platform, "timeline", "aimservice", "told/chat", "--trace")
    assert lines[-1].startswith("Of these traces this is what is near")
    assert len(everything.out.splitlines()) > len(lines)
    (shared,) = [line for line in everything.out.splitlines() if line.startswith(f"trace {trace}")]
    for service in ("artifacts", "discovery", "model-sync", "routing", "serving"):
        assert service in shared

    page = tmp_path / "story.html"
    drawn = await aim(platform, "timeline", "aimservice", "told/chat", "--waterfall")
    assert drawn.code == 0, drawn
    _, own, *others = drawn.out.splitlines()
    assert own.startswith("AIMService chat")
    # Others may be ready after it, and their bars end further to the right.
    assert re.search(r"● +Running \d", own), own
    for kind in ("AIMTemplateCache", "InferenceService", "HTTPRoute"):
        assert any(line.startswith(f"  {kind} ") and "●" in line for line in others), drawn.out
    await aim(platform, "timeline", "aimservice", "told/chat", "--html", str(page))
    assert "InferenceService told/chat" in page.read_text(encoding="utf-8")


@pytest.mark.spec("FW-724", "FW-725", "FW-726")
async def test_a_change_of_replicas_is_reported_with_the_value_behind_it(platform: Platform) -> None:
    await platform.namespace("rescaled")
    running = "vllm:num_requests_running"
    asked = {"backend": "opentelemetry", "metricNames": [running], "query": running}
    metric = {"type": "PodMetric", "podmetric": {"metric": asked, "target": {"type": "Value", "value": "4"}}}
    bounds = {"minReplicas": 1, "maxReplicas": 3, "autoScaling": {"metrics": [metric]}}
    path = await platform.service("rescaled", "chat", model={"image": IMAGE}, **bounds)
    await platform.running(path)
    isvcs = "/apis/serving.kserve.io/v1beta1/namespaces/rescaled/inferenceservices"
    (isvc,) = (await platform.api.get(isvcs)).body["items"]
    wish = {"metadata": {"annotations": {"local.aim/replicas": "3"}}}
    await platform.api.merge(f"{isvcs}/{isvc['metadata']['name']}", wish)
    await platform.until(path, lambda obj: obj["status"]["runtime"].get("replicas") == "3/3 (1-3)")

    async def lines() -> list[str]:
        reported = await aim(platform, "timeline", "aimservice", "rescaled/chat")
        return [line for line in reported.out.splitlines() if "replicas 1 → 3" in line]

    async def is_logged() -> bool:
        return bool(await lines())

    await eventually(is_logged, "the log has the change of replicas")
    (line,) = await lines()
    assert "HorizontalPodAutoscaler rescaled/keda-hpa-" in line
    # It is called as the scaler calls it.
    assert f"replicas 1 → 3: s0-rescaled-{isvc['metadata']['name']}-predictor " in line
    assert line.endswith(" 12 of target 4")

    # The pods of models are in a part of their own.
    pods = await platform.api.get("/api/v1/namespaces/rescaled/pods?labelSelector=component%3Dpredictor")
    name = f"rescaled/{pods.body['items'][0]['metadata']['name']}"
    for command in (("timeline",), ("state", "--at", "0s"), ("diff", "--from", "1h")):
        found = await aim(platform, *command, "pod", name)
        assert f"Pod {name}" in " ".join(found.out.split()), (command, found)


@pytest.mark.spec("FW-626")
async def test_a_follower_reads_a_story_as_it_goes_on(platform: Platform) -> None:
    await platform.namespace("followed")
    environment = {**os.environ, "AIM_NATS_URL": platform.stack.nats_url, "PYTHONUNBUFFERED": "1"}
    following = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aim_cli", "timeline", "aimservice", "followed/chat", "--follow", "-o", "json",
        env=environment, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert following.stdout is not None
    try:
        await platform.service("followed", "chat", model={"image": IMAGE})
        async with asyncio.timeout(60):
            reported = [json.loads(await following.stdout.readline())]
            while "→ Running" not in reported[-1]["what"]:
                reported.append(json.loads(await following.stdout.readline()))
    finally:
        following.terminate()
        await following.wait()
    assert "created" in [one["what"] for one in reported]
    assert len({tuple(one.values()) for one in reported}) == len(reported), "each moment once"


@pytest.mark.spec("FW-619", "FW-620")
async def test_every_decision_is_taken_alike_again(platform: Platform, tmp_path: Path) -> None:
    await platform.namespace("replayed")
    await platform.running(await platform.service("replayed", "chat", model={"image": IMAGE}))

    ran = await aim(platform, "replay", "aimservice", "replayed/chat")
    assert is_well(platform, ran.code, ran.out), ran

    file = tmp_path / "chat.aimlog"
    made = await aim(platform, "export", str(file), "aimservice", "replayed/chat")
    assert made.code == 0, made
    assert "replayed" in made.out
    alone = await aim(platform, "replay", str(file), "--nats-url", "nats://127.0.0.1:1")
    assert alone.err == f"taking decisions again, from {file}\n"
    assert is_well(platform, alone.code, alone.out), "and nothing is missing"

    code = services()
    async with history(platform.stack.nats_url) as log:
        results = [one async for one in Replayer(log, code).decisions()]
    assert {one.stored.record.service for one in results} == set(code)
    otherwise = [one for one in results if one.verdict is not Verdict.SAME and not lacks(platform, one)]
    assert [(one.stored.record.key, one) for one in otherwise] == []


def release_beside(folder: Path) -> Path:
    """The Python of another release: that of this one, in which serving tells models of another cache."""
    changed = shutil.copytree(Path(containers.__file__).parent, folder / "aim_serving") / "containers.py"
    changed.write_text(changed.read_text().replace(containers.CACHE_PATH, "/elsewhere"))
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


async def run_test(python: Path, file: Path) -> Ran:
    """What becomes of a test file by the code of a release."""
    process = await asyncio.create_subprocess_exec(
        str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file),
        cwd=file.parent, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())


@pytest.mark.spec("FW-624", "FW-625")
async def test_a_release_beside_and_a_test_take_them_again(platform: Platform, tmp_path: Path) -> None:
    await platform.namespace("elsewhere")
    await platform.running(await platform.service("elsewhere", "chat", model={"image": IMAGE}))
    chat = ("replay", "aimservice", "elsewhere/chat")

    alike = await aim(platform, *chat, "--against", sys.executable)
    assert (alike.code, " 0 otherwise by " in alike.out) == (0, True), alike
    other = release_beside(tmp_path / "beside")
    otherwise = await aim(platform, *chat, "--against", str(other))
    assert otherwise.code == 1, otherwise
    assert "    here: same" in otherwise.out
    assert "    there: different" in otherwise.out
    assert "/elsewhere" in otherwise.out
    nowhere = await aim(platform, *chat, "--against", str(tmp_path / "none"))
    said, error = nowhere.err.splitlines()
    assert (nowhere.code, said) == (2, f"taking decisions again, from {platform.stack.nats_url}"), nowhere
    assert error.startswith(f"aim: {tmp_path / 'none'} cannot be run: No such file or directory; ")

    file = tmp_path / "test_chat.py"
    made = await aim(platform, *chat, "--as-test", str(file))
    assert made.code == 0, made
    green, red = await run_test(Path(sys.executable), file), await run_test(other, file)
    assert green.code == 0, green
    assert (red.code, "/elsewhere" in red.out) == (1, True), red


async def test_the_catalogue_is_decided_alike_again_after_its_repair(platform: Platform) -> None:
    path = f"{OWN}/aimclustermodelsources/replayed-source"
    spec = {"images": ["amdenterpriseai/aim-qwen-qwen3-32b"], "versions": [">>1"]}
    body = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMClusterModelSource",
        "metadata": {"name": "replayed-source"},
        "spec": spec,
    }
    await platform.api.created(f"{OWN}/aimclustermodelsources", body)
    await platform.until(path, lambda obj: status_of(obj) == "Failed")
    await platform.api.merge(path, {"spec": {"versions": [">=0.8.5"]}})
    await platform.until(path, lambda obj: status_of(obj) == "Ready")

    ran = await aim(platform, "replay", "aimclsrc", "replayed-source")

    assert is_well(platform, ran.code, ran.out), ran


@pytest.mark.spec("FW-602")
async def test_what_the_log_does_not_know_is_said(platform: Platform) -> None:
    ran = await aim(platform, "timeline", "aimservice", "nowhere/nothing")

    assert (ran.code, ran.out) == (3, "")
    assert "nowhere/nothing" in ran.err

    ran = await aim(platform, "replay", "aimservice", "nowhere/nothing")

    assert (ran.code, ran.out) == (3, "0 decisions: 0 same, 0 different, 0 undetermined\n")
    assert "no decision about aimservice nowhere/nothing" in ran.err
