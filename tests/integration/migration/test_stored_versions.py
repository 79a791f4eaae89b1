"""A cluster whose definitions the Go operator stored as v1alpha2: ours take their place, and the storage is tidied."""

import asyncio
import copy
from pathlib import Path

import pytest
from support.controlplane import RawApi
from typer.testing import CliRunner, Result

from aim_cli.__main__ import app
from aim_cli.migration import storage
from aim_domain.crd import definition
from aim_domain.kinds import AIM_SERVICE
from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane

DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{AIM_SERVICE.resource}"
NEWER = "/apis/aim.eai.amd.com/v1alpha2/namespaces/default/aimservices"
OURS = "/apis/aim.eai.amd.com/v1alpha1/namespaces/default/aimservices"
PROFILE: JsonObject = {"selector": {"aimId": "qwen/qwen3-32b", "acceleratorCount": 1}}


def of_the_go_operator() -> JsonObject:
    """The same versions, of which the newer one is stored."""
    there = copy.deepcopy(definition(AIM_SERVICE))
    for version in there["spec"]["versions"]:
        version["storage"] = version["name"] == "v1alpha2"
    return there


async def migrate(controlplane: ControlPlane, folder: Path, *words: str) -> Result:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    command = ["migrate", "--storage", "--kubeconfig", str(kubeconfig), *words]
    return await asyncio.to_thread(CliRunner().invoke, app, command)


@pytest.mark.spec("CC-350", "CC-351", "CC-353")
async def test_definitions_take_the_place_of_those_that_store_the_newer_version(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    controlplane.install_crds([of_the_go_operator()])
    service = {"apiVersion": "aim.eai.amd.com/v1alpha2", "kind": "AIMService", "metadata": {"name": "chat"}}
    await api.created(NEWER, {**service, "spec": {"profile": PROFILE, "profileOverrides": {"engineArgs": {"x": 1}}}})
    controlplane.install_crds([definition(AIM_SERVICE)])
    assert (await api.get(DEFINITION)).body["status"]["storedVersions"] == ["v1alpha1", "v1alpha2"]
    before = (await api.get(f"{OURS}/chat")).body
    assert (before["apiVersion"], before["spec"]["profile"]) == ("aim.eai.amd.com/v1alpha1", PROFILE)
    assert before["spec"]["profileOverrides"] == {"engineArgs": {"x": 1}}

    planned = await migrate(controlplane, tmp_path, "--dry-run")
    assert (planned.exit_code, "would store v1alpha1 alone, without v1alpha2" in planned.output) == (0, True)
    assert (await api.get(DEFINITION)).body["status"]["storedVersions"] == ["v1alpha1", "v1alpha2"]
    done = await migrate(controlplane, tmp_path)
    assert (done.exit_code, "1 objects written" in done.output) == (0, True), done.output
    assert (await api.get(DEFINITION)).body["status"]["storedVersions"] == ["v1alpha1"]
    after = (await api.get(f"{NEWER}/chat")).body
    assert after["spec"] == before["spec"]
    again = await migrate(controlplane, tmp_path)
    assert again.output.count("unchanged") == 15, again.output


@pytest.mark.spec("CC-353")
async def test_objects_that_no_write_changes_are_written_until_the_server_has_taken_in_the_definition(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_TAKEN_IN_SECONDS", 0.2)
    monkeypatch.setattr(storage, "_BETWEEN_SECONDS", 0.05)
    service = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMService", "metadata": {"name": "chat"}}
    await api.created(OURS, {**service, "spec": {"model": {"image": "a/b:1"}}})
    listed = {"status": {"storedVersions": ["v1alpha1", "v1alpha2"]}}
    assert (await api.merge(f"{DEFINITION}/status", listed)).status == 200
    controlplane.requests.reset()
    assert (await migrate(controlplane, tmp_path)).exit_code == 0
    counted = controlplane.requests.report()["requests"]
    assert sum(one["count"] for one in counted if one["verb"] == "update" and one["resource"] == "aimservices") > 1


@pytest.mark.spec("CC-353")
@pytest.mark.parametrize("words", [("-f", "x.yaml"), ("-o", "yaml")])
async def test_it_takes_no_files_and_prints_no_objects(
    controlplane: ControlPlane, tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert (await migrate(controlplane, tmp_path, *words)).exit_code == 2


@pytest.mark.spec("CC-351")
@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
async def test_a_service_needs_a_model_or_a_profile_and_keeps_its_model(
    controlplane: ControlPlane, api: RawApi, version: str
) -> None:
    path = NEWER.replace("v1alpha2", version)
    body = {"apiVersion": f"aim.eai.amd.com/{version}", "kind": "AIMService", "metadata": {"name": "chat"}}
    refused = await api.post(path, {**body, "spec": {"replicas": 1}})
    assert (refused.status, "model is required" in refused.body["message"]) == (422, True)
    await api.created(path, {**body, "spec": {"profile": PROFILE}})
    await api.merge(f"{path}/chat", {"spec": {"model": {"name": "qwen"}}})
    removed = await api.merge(f"{path}/chat", {"spec": {"model": None}})
    assert (removed.status, "model is immutable" in removed.body["message"]) == (422, True)
