"""The command that clones templates for another GPU, against an API server."""

import asyncio
from pathlib import Path

import pytest
import yaml
from support.controlplane import RawApi
from support.discovery_service import CLUSTER_TEMPLATES, body

from aim_discovery.cloning.__main__ import main
from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane


@pytest.mark.spec("DI-371", "DI-372", "DI-373")
async def test_printed_clones_can_be_created(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    gpu = {"gpu": {"requests": 1, "model": "MI300X"}}
    original = body("AIMClusterServiceTemplate", "qwen-mi300x-lat", {"modelName": "qwen", "hardware": gpu})
    await api.created(CLUSTER_TEMPLATES, original)

    async def run(source: str) -> tuple[str, str]:
        assert await asyncio.to_thread(main, [source, "MI308X", "--kubeconfig", str(kubeconfig)]) == 0
        printed = capsys.readouterr()
        return printed.out, printed.err

    out, err = await run("MI300X")
    (clone,) = yaml.safe_load_all(out)
    assert err == "cloning for MI308X: qwen-mi308x-lat\n"
    made = await api.created(CLUSTER_TEMPLATES, clone)
    assert made["spec"]["hardware"]["gpu"]["model"] == "MI308X"
    assert made["spec"]["env"] == [{"name": "AIM_GPU_MODEL", "value": "MI300X"}]

    out, err = await run("MI300X")
    assert err == "cloning for MI308X: qwen-mi308x-lat\n", "a clone may be brought up to date"

    out, err = await run("MI210")
    assert out == ""
    assert err == "no AIMClusterServiceTemplate is for GPU MI210; nothing to clone\n"


@pytest.mark.spec("DI-373")
async def test_clones_that_would_replace_each_other_are_refused(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    gpu = {"gpu": {"requests": 1, "model": "MI300X"}}
    for name in ("aim-qwen", "aim-qwin", "aim-llama-mi300x"):
        await api.created(
            CLUSTER_TEMPLATES, body("AIMClusterServiceTemplate", name, {"modelName": "qwen", "hardware": gpu})
        )

    assert await asyncio.to_thread(main, ["MI300X", "MI308X", "--kubeconfig", str(kubeconfig)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "several clones would be named a-mi308x;" in printed.err


@pytest.mark.spec("DI-373")
async def test_a_template_that_the_target_has_of_its_own_is_not_replaced(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    names = {"aim-qwen-mi300x": "MI300X", "aim-qwen-mi308x": "MI308X", "aim-llama-mi300x": "MI300X"}
    for name, gpu in names.items():
        spec: JsonObject = {"modelName": name.split("-")[1], "hardware": {"gpu": {"requests": 1, "model": gpu}}}
        await api.created(CLUSTER_TEMPLATES, body("AIMClusterServiceTemplate", name, spec))

    assert await asyncio.to_thread(main, ["MI300X", "MI308X", "--kubeconfig", str(kubeconfig)]) == 0
    printed = capsys.readouterr()
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(printed.out)] == ["aim-llama-mi308x"]
    assert "skipped, because other templates have their names: aim-qwen-mi308x\n" in printed.err


async def test_a_cluster_that_does_not_answer_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "nowhere")
    assert await asyncio.to_thread(main, ["MI300X", "MI308X", "--kubeconfig", missing]) == 1
    assert "cannot be listed" in capsys.readouterr().err
