"""``aim migrate`` against an API server: the first run, the second, and what stands in the way."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import pytest
import yaml
from support.controlplane import RawApi, raw_api
from support.old_objects import GUIDE, NAMESPACE_CONFIG, old_body, old_definitions
from typer.testing import CliRunner, Result

from aim_cli.__main__ import app
from aim_cli.migration.draft import old_kind
from aim_local.ports import free_port
from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane

Command: TypeAlias = Callable[..., Awaitable[Result]]
AIM = "/apis/aim.eai.amd.com/v1alpha1"
TEAM = f"{AIM}/namespaces/ml-team"
MIGRATED = ("aimclusterruntimeconfigs", "aimruntimeconfigs", "aimclustermodels", "aimmodels", "aimservices")


@pytest.fixture
async def command(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> Command:
    """Runs ``aim migrate`` against the control plane, which has the namespace of the objects."""
    await api.created("/api/v1/namespaces", {"metadata": {"name": "ml-team"}})
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())

    async def run(*arguments: str, stdin: str = "") -> Result:
        words = ["migrate", "--kubeconfig", str(kubeconfig), *arguments]
        return await asyncio.to_thread(CliRunner().invoke, app, words, input=stdin)

    return run


async def store(controlplane: ControlPlane, api: RawApi, bodies: Iterable[JsonObject]) -> None:
    """Put old objects into the cluster, as the old operator's definitions would let anybody."""
    controlplane.install_crds(old_definitions())
    for body in bodies:
        group, version = body["apiVersion"].split("/")
        kind = old_kind(group, body["kind"])
        assert kind is not None
        scope = f"/namespaces/{body['metadata']['namespace']}" if kind.namespaced else ""
        await api.created(f"/apis/{group}/{version}{scope}/{kind.plural}", body)


async def versions(api: RawApi) -> dict[str, str]:
    """Name and version of everything that a migration may write."""
    lists = [(await api.get(f"{AIM}/{plural}")).body["items"] for plural in MIGRATED]
    return {
        f"{one['kind']} {one['metadata']['name']}": one["metadata"]["resourceVersion"] for all_ in lists for one in all_
    }


def today(kind: str, name: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def documents(*bodies: JsonObject) -> str:
    return yaml.safe_dump_all(bodies)


@pytest.mark.spec("RC-131", "RC-140", "RC-141", "RC-142", "RC-S25", "RC-S26")
async def test_a_cluster_moves_with_one_command_and_the_second_changes_nothing(
    controlplane: ControlPlane, api: RawApi, command: Command
) -> None:
    await store(controlplane, api, GUIDE)
    first = await command()
    assert first.exit_code == 1
    assert "spec.model.creationScope" in first.output
    assert "7 created, 0 completed, 0 unchanged, 0 refused" in first.output
    written = await versions(api)
    assert [name.partition(" ")[0] for name in sorted(written, key=lambda name: int(written[name]))] == [
        *("AIMClusterRuntimeConfig", "AIMRuntimeConfig"),
        *("AIMClusterModel", "AIMClusterModel", "AIMModel", "AIMModel", "AIMService"),
    ]
    service = (await api.get(f"{TEAM}/aimservices/my-service")).body
    assert service["spec"]["model"] == {"image": "ghcr.io/example/my-model:v1.0.0"}
    config = (await api.get(f"{TEAM}/aimruntimeconfigs/default")).body["spec"]
    assert config["routing"]["enabled"] is True
    assert config["routing"]["gatewayRef"].items() >= {"name": "kgw-default", "namespace": "gateway-system"}.items()

    second = await command()
    assert "0 created, 0 completed, 7 unchanged, 0 refused" in second.output
    assert await versions(api) == written


@pytest.mark.spec("RC-142", "RC-147")
async def test_files_folders_lists_and_standard_input(api: RawApi, command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "documents" / "below"
    folder.mkdir(parents=True)
    one = old_body("AIMModel", "one", {"image": "i:1"})
    del one["metadata"]["namespace"]
    listed = {"apiVersion": "v1", "kind": "List", "items": [old_body("AIMClusterModel", "two", {"image": "i:2"}), one]}
    (folder / "models.yaml").write_text(documents(listed, {"apiVersion": "v1", "kind": "Secret", "metadata": {}}))
    (folder / "notes.txt").write_text("no: [yaml")
    service = documents(old_body("AIMService", "chat", {"model": {"ref": "one"}}))
    result = await command("-n", "ml-team", "-f", str(folder.parent), "-f", "-", stdin=service)
    assert result.exit_code == 0, result.output
    assert "3 found: 3 created" in result.output
    assert "1 Secret" in result.output
    assert (await api.get(f"{TEAM}/aimmodels/one")).body["spec"]["image"] == "i:1"
    assert (await api.get(f"{TEAM}/aimservices/chat")).body["spec"]["model"] == {"name": "one"}


@pytest.mark.spec("RC-141", "RC-142")
async def test_a_dry_run_shows_the_difference_and_writes_nothing(api: RawApi, command: Command, tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(documents(old_body("AIMNamespaceConfig", "a", NAMESPACE_CONFIG)))
    there = today("AIMRuntimeConfig", "default", {"routing": {"enabled": False}})
    await api.created(f"{TEAM}/aimruntimeconfigs", there)
    before = await versions(api)
    result = await command("--dry-run", "-f", str(file))
    assert "AIMRuntimeConfig ml-team/default completed" in result.output
    assert "+    gatewayRef:" in result.output
    assert "+    aim.eai.amd.com/migrated-from: config.kaiwo.silogen.ai/AIMNamespaceConfig/ml-team/a" in result.output
    assert "nothing was written" in result.output
    assert await versions(api) == before
    file.write_text(documents(old_body("AIMModel", "refused", {"image": ""})))
    refused = await command("--dry-run", "-f", str(file))
    assert refused.exit_code == 1
    assert "AIMModel ml-team/refused: " in refused.output


@pytest.mark.spec("RC-126", "RC-127", "RC-143")
async def test_a_config_is_completed_and_nothing_of_it_is_overwritten(
    api: RawApi, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(documents(old_body("AIMNamespaceConfig", "a", NAMESPACE_CONFIG)))
    own = {"name": "HF_TOKEN", "value": "mine"}
    there = today("AIMRuntimeConfig", "default", {"routing": {"enabled": False}, "env": [own]})
    await api.created(f"{TEAM}/aimruntimeconfigs", there)
    first = await command("-f", str(file))
    assert first.exit_code == 1
    assert "AIMRuntimeConfig ml-team/default spec.routing.enabled:" in first.output
    assert "AIMRuntimeConfig ml-team/default spec.env[HF_TOKEN]:" in first.output
    after = (await api.get(f"{TEAM}/aimruntimeconfigs/default")).body
    assert after["spec"]["routing"]["enabled"] is False
    assert after["spec"]["routing"]["gatewayRef"]["name"] == "kgw-default"
    assert after["spec"]["env"][0] == own
    assert [entry["name"] for entry in after["spec"]["env"][1:]] == [
        *("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    ]
    origin = "config.kaiwo.silogen.ai/AIMNamespaceConfig/ml-team/a"
    assert after["metadata"]["annotations"]["aim.eai.amd.com/migrated-from"] == origin
    written = await versions(api)
    await command("-f", str(file))
    assert await versions(api) == written


@pytest.mark.spec("RC-143", "RC-147")
async def test_an_existing_service_is_left_as_it_is(api: RawApi, command: Command, tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(documents(old_body("AIMService", "chat", {"model": {"ref": "qwen"}, "replicas": 2, "env": []})))
    there = today("AIMService", "chat", {"model": {"name": "qwen"}, "replicas": 3})
    await api.created(f"{TEAM}/aimservices", there)
    before = await versions(api)
    result = await command("-f", str(file))
    assert result.exit_code == 1
    assert "AIMService ml-team/chat spec.replicas:" in result.output
    assert "AIMService ml-team/chat spec.env:" in result.output
    assert await versions(api) == before
    file.write_text(documents(old_body("AIMService", "chat", {"model": {"ref": "qwen"}, "replicas": 3})))
    same = await command("-f", str(file))
    assert (same.exit_code, await versions(api)) == (0, before)


@pytest.mark.spec("RC-147")
async def test_one_refused_object_does_not_stop_the_others(api: RawApi, command: Command, tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    nowhere = old_body("AIMModel", "lost", {"image": "i:1"}, namespace="nowhere")
    file.write_text(documents(nowhere, old_body("AIMService", "chat", {"model": {"ref": "qwen"}})))
    result = await command("-f", str(file))
    assert result.exit_code == 1
    assert "AIMModel nowhere/lost: " in result.output
    assert "1 created, 0 completed, 0 unchanged, 1 refused" in result.output
    assert (await api.get(f"{TEAM}/aimservices/chat")).status == 200


@pytest.mark.spec("RC-147")
async def test_what_is_being_deleted_is_not_written_to(api: RawApi, command: Command, tmp_path: Path) -> None:
    leaving = today("AIMRuntimeConfig", "default", {})
    leaving["metadata"]["finalizers"] = ["example.com/hold"]
    await api.created(f"{TEAM}/aimruntimeconfigs", leaving)
    await api.delete(f"{TEAM}/aimruntimeconfigs/default")
    before = await versions(api)
    file = tmp_path / "old.yaml"
    file.write_text(documents(old_body("AIMNamespaceConfig", "a", NAMESPACE_CONFIG)))
    result = await command("-f", str(file))
    assert result.exit_code == 1
    assert "AIMRuntimeConfig ml-team/default: is being deleted" in result.output
    assert "0 created, 0 completed, 0 unchanged, 1 refused" in result.output
    assert await versions(api) == before
    await api.merge(f"{TEAM}/aimruntimeconfigs/default", {"metadata": {"finalizers": None}})
    again = await command("-f", str(file))
    assert "1 created" in again.output


@pytest.mark.spec("RC-135")
async def test_a_template_of_today_gives_an_old_cache_its_scope(api: RawApi, command: Command, tmp_path: Path) -> None:
    template = today("AIMClusterServiceTemplate", "t", {"modelName": "m"})
    await api.created(f"{AIM}/aimclusterservicetemplates", template)
    file = tmp_path / "old.yaml"
    file.write_text(documents(old_body("AIMTemplateCache", "cache", {"templateName": "t"})))
    assert (await command("-f", str(file))).exit_code == 0
    assert (await api.get(f"{TEAM}/aimtemplatecaches/cache")).body["spec"]["templateScope"] == "Cluster"


@pytest.mark.spec("RC-142")
async def test_objects_are_printed_without_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(documents(*GUIDE))
    words = ["migrate", "-f", str(file), "-o", "yaml", "--kubeconfig", str(tmp_path / "none")]
    result = await asyncio.to_thread(CliRunner().invoke, app, words)
    assert result.exit_code == 1
    printed = list(yaml.safe_load_all(result.stdout))
    assert [one["kind"] for one in printed][-1] == "AIMService"
    assert len(printed) == 7
    assert "spec.imagePullSecrets" in result.stderr


@pytest.mark.spec("RC-147")
async def test_exit_codes_of_what_cannot_begin(tmp_path: Path, command: Command) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [")
    for name in (str(broken), str(tmp_path / "missing.yaml")):
        result = await command("-f", name)
        assert result.exit_code == 2
        assert name in result.output
    unreachable = tmp_path / "unreachable"
    server = {"server": f"http://127.0.0.1:{free_port()}"}
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    unreachable.write_text(
        yaml.safe_dump(
            {"clusters": [{"name": "a", "cluster": server}], "contexts": [context], "users": [{"name": "a"}]}
        )
    )
    words = ["migrate", "--kubeconfig", str(unreachable), "--context", "a"]
    assert (await asyncio.to_thread(CliRunner().invoke, app, words)).exit_code == 4


@pytest.mark.spec("RC-147")
async def test_a_cluster_without_the_definitions_is_reported(tmp_path: Path) -> None:
    async with ControlPlane() as plane, raw_api(plane.url) as api:
        await api.created("/api/v1/namespaces", {"metadata": {"name": "ml-team"}})
        kubeconfig, file = tmp_path / "kubeconfig", tmp_path / "old.yaml"
        kubeconfig.write_text(plane.kubeconfig())
        file.write_text(documents(old_body("AIMService", "chat", {"model": {"ref": "qwen"}})))
        words = ["migrate", "--kubeconfig", str(kubeconfig)]
        nothing = await asyncio.to_thread(CliRunner().invoke, app, words)
        assert (nothing.exit_code, "0 found" in nothing.output) == (0, True)
        result = await asyncio.to_thread(CliRunner().invoke, app, [*words, "-f", str(file)])
        assert result.exit_code == 4
        assert "AIMService" in result.output
        assert "deploy/crds" in result.output
