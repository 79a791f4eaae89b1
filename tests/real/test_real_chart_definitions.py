"""One command installs everything on a cluster that knows nothing of the platform (FW-703)."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
import yaml
from support.controlplane import RawApi
from support.helm import CHARTS, ENGINE, KUBERNETES, NAMESPACE, Finished, helm, of_kind, rendered, run
from support.nats import eventually
from support.real_cluster import raw_api

from aim_domain.kind_names import OWN
from aim_local.assets import Program
from aim_local.realcluster import ClusterSettings, RealCluster, User
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIG: Final = "/apis/aim.eai.amd.com/v1alpha1/aimclusterruntimeconfigs/default"
SOURCE: Final = "/apis/aim.eai.amd.com/v1alpha1/aimclustermodelsources/amd-aim-model-source"
ARTIFACTS: Final = f"{NAMES}/aimartifacts.aim.eai.amd.com"
LARGEST_SECRET: Final = 1 << 20
WITH_CONFIG: Final = ("--set", "clusterRuntimeConfig.enabled=true,check.enabled=false")


@pytest_asyncio.fixture(loop_scope="session")
async def empty(tmp_path: Path) -> AsyncIterator[RealCluster]:
    """An API server without any definition or role of the platform, and without controllers."""
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    settings = ClusterSettings(
        tmp_path / "cluster", controllers=(), scheduler=False, kserve=False, roles=False, crds=nothing
    )
    async with RealCluster(settings) as cluster:
        yield cluster


async def done(cluster: RealCluster, *words: str) -> Finished:
    """A command of helm, which has to end well."""
    config = str(cluster.kubeconfig_for(User.KUBECTL))
    finished = await helm(*words, "--kubeconfig", config, "-n", NAMESPACE)
    assert finished.status == 0, finished.errors
    return finished


async def installed(cluster: RealCluster, chart: str) -> None:
    """The first installation, again where the API server did not serve the kinds yet, as the page says."""
    config = str(cluster.kubeconfig_for(User.KUBECTL))
    command = ("upgrade", "--install", "aim-engine", chart, *WITH_CONFIG)
    first = await helm(*command, "--kubeconfig", config, "-n", NAMESPACE)
    if first.status != 0:
        assert "no matches for kind" in first.errors, first.errors
        async with raw_api(cluster.kubeconfig_for(User.KUBECTL)) as api:
            await eventually(lambda: defined(api), "the kinds are served")
        await done(cluster, *command)


def former_release(folder: Path) -> str:
    """The chart with a definition of AIMArtifacts that shows no column."""
    chart = folder / "aim-engine"
    shutil.copytree(ENGINE, chart)
    file = chart / "files" / "crds" / "aimartifacts.yaml"
    crd = yaml.safe_load(file.read_text(encoding="utf-8"))
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = []
    file.write_text(yaml.safe_dump(crd), encoding="utf-8")
    return str(chart)


def definitions_alone(folder: Path) -> str:
    """As the former chart `aim-engine-crds` brought them."""
    chart = folder / "aim-engine-crds"
    templates = chart / "templates"
    templates.mkdir(parents=True)
    shutil.copytree(CHARTS.parent / "crds", chart / "files")
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: aim-engine-crds, version: 0.1.0}", encoding="utf-8")
    (chart / "values.yaml").write_text("crd: {keep: true}", encoding="utf-8")
    (templates / "crds.yaml").write_text(
        """{{- range $path, $_ := .Files.Glob "files/aim*s.yaml" }}
{{- $crd := $.Files.Get $path | fromYaml }}
{{- if and $.Values.crd.keep (eq $crd.spec.group "aim.eai.amd.com") }}
{{- $_ := set $crd.metadata "annotations" (dict "helm.sh/resource-policy" "keep") }}
{{- end }}
---
{{ toYaml $crd }}
{{- end }}
""",
        encoding="utf-8",
    )
    return str(chart)


async def uid(api: RawApi, path: str) -> str:
    found = await api.get(path)
    assert found.status == 200, path
    return str(found.body["metadata"]["uid"])


async def defined(api: RawApi) -> bool:
    """Whether helm is told of the kinds by now."""
    served = await api.get("/apis/aim.eai.amd.com/v1alpha1")
    return served.status == 200 and "AIMService" in {one["kind"] for one in served.body["resources"]}


async def columns(api: RawApi) -> list[JsonObject]:
    found = (await api.get(ARTIFACTS)).body["spec"]["versions"][0]
    wanted: list[JsonObject] = found.get("additionalPrinterColumns", [])
    return wanted


@pytest.mark.spec("FW-703", "FW-322", "CC-323")
async def test_one_command_brings_the_definitions_another_upgrades_them_and_they_stay(
    empty: RealCluster, tmp_path: Path
) -> None:
    former = await asyncio.to_thread(former_release, tmp_path)
    async with raw_api(empty.kubeconfig_for(User.KUBECTL)) as api:
        await installed(empty, former)
        assert (await api.get(CONFIG)).status == 200
        assert await columns(api) == []
        release = (await api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/sh.helm.release.v1.aim-engine.v1")).body
        size = len(release["data"]["release"])
        assert size < LARGEST_SECRET * 2 / 3, "the rest is for values"

        await done(empty, "upgrade", "aim-engine", ENGINE, *WITH_CONFIG)
        assert await columns(api) != []
        manifest = await done(empty, "get", "manifest", "aim-engine")
        assert "default" in of_kind(manifest, "AIMClusterRuntimeConfig"), "it is an object of the release by now"

        await done(empty, "uninstall", "aim-engine")
        assert (await api.get(ARTIFACTS)).status == 200
        await installed(empty, ENGINE)
        assert (await api.get(CONFIG)).status == 200


@pytest.mark.spec("FW-703")
async def test_objects_of_own_kinds_outlive_a_failed_check_a_rollback_and_the_release(empty: RealCluster) -> None:
    failing = ("--set", "clusterRuntimeConfig.enabled=true,clusterModelSource.enabled=true", "--timeout", "5s")
    well = (*failing, "--set", "check.enabled=false")
    async with raw_api(empty.kubeconfig_for(User.KUBECTL)) as api:
        config = ("--kubeconfig", str(empty.kubeconfig_for(User.KUBECTL)), "-n", NAMESPACE)
        first = await helm("install", "aim-engine", ENGINE, *failing, *config)
        assert first.status != 0, "without controllers the Job of the check never ends"
        await eventually(lambda: defined(api), "the kinds")
        await done(empty, "upgrade", "aim-engine", ENGINE, *well)
        made = [await uid(api, one) for one in (CONFIG, SOURCE)]
        await done(empty, "rollback", "aim-engine", "1")
        assert [await uid(api, one) for one in (CONFIG, SOURCE)] == made
        await done(empty, "upgrade", "aim-engine", ENGINE, *well)
        await done(empty, "uninstall", "aim-engine")
        assert [await uid(api, one) for one in (CONFIG, SOURCE)] == made


@pytest.mark.spec("FW-703")
async def test_definitions_of_the_former_chart_move_into_this_one_and_a_rollback_leaves_them(
    empty: RealCluster, tmp_path: Path
) -> None:
    former = await asyncio.to_thread(definitions_alone, tmp_path)
    values = ("--reset-then-reuse-values", "--set")
    async with raw_api(empty.kubeconfig_for(User.KUBECTL)) as api:
        await done(empty, "install", "aim-engine-crds", former, "--set", "crd.keep=false", "--create-namespace")
        made = await uid(api, ARTIFACTS)
        await eventually(lambda: defined(api), "the kinds are served")
        await done(empty, "install", "aim-engine", ENGINE, "--set", "crd.enabled=false,check.enabled=false")
        await done(empty, "upgrade", "aim-engine-crds", former, *values, "crd.keep=true")
        await done(empty, "upgrade", "aim-engine", ENGINE, *values, "crd.enabled=true", "--take-ownership")
        await done(empty, "uninstall", "aim-engine-crds")
        assert await uid(api, ARTIFACTS) == made
        await done(empty, "rollback", "aim-engine", "1")
        assert await uid(api, ARTIFACTS) == made


@pytest.mark.spec("FW-703")
async def test_definitions_that_would_go_with_every_object_are_not_left_to_others(empty: RealCluster) -> None:
    set_to = "check.enabled=false,crd.keep={},crd.enabled={}".format
    without = ("upgrade", "aim-engine", ENGINE, "--set", set_to("false", "false"))
    async with raw_api(empty.kubeconfig_for(User.KUBECTL)) as api:
        await done(empty, "install", "aim-engine", ENGINE, "--set", set_to("false", "true"))
        made = await uid(api, ARTIFACTS)
        await eventually(lambda: defined(api), "the kinds are served")
        refused = await helm(*without, "--kubeconfig", str(empty.kubeconfig_for(User.KUBECTL)), "-n", NAMESPACE)
        assert refused.status != 0
        assert "upgrade with crd.enabled=true and crd.keep=true first" in refused.errors
        await done(empty, "upgrade", "aim-engine", ENGINE, "--set", set_to("true", "true"))
        await done(empty, *without)
        assert await uid(api, ARTIFACTS) == made


@pytest.mark.spec("FW-703", "FW-539")
async def test_one_command_of_kubectl_brings_the_same(empty: RealCluster) -> None:
    config = str(empty.kubeconfig_for(User.KUBECTL))
    arguments = ("--kubeconfig", config, "apply", "--server-side", "-k", str(CHARTS.parent))
    finished = await run(Program.KUBECTL, *arguments)
    assert (finished.status, finished.errors) == (0, "")
    async with raw_api(empty.kubeconfig_for(User.KUBECTL)) as api:
        assert (await api.get(ARTIFACTS)).status == 200
        assert (await api.get("/apis/apps/v1/namespaces/aim-system/deployments/aim-engine-serving")).status == 200


@pytest.mark.spec("FW-703", "FW-539", "RC-150")
async def test_kubectl_takes_from_the_folder_what_the_chart_brings(tmp_path: Path) -> None:
    brought = of_kind(await rendered(tmp_path, arguments=KUBERNETES), "CustomResourceDefinition")
    folder = await run(Program.KUBECTL, "kustomize", str(CHARTS.parent / "crds"))
    assert set(of_kind(folder, "CustomResourceDefinition")) == set(brought)


@pytest.mark.spec("FW-703")
async def test_definitions_are_kept_or_left_to_others_as_values_say(tmp_path: Path) -> None:
    own = of_kind(await rendered(tmp_path, arguments=KUBERNETES), "CustomResourceDefinition")
    assert len(own) == len(OWN)
    assert {one["spec"]["group"] for one in own.values()} == {"aim.eai.amd.com"}
    assert {one["metadata"]["annotations"]["helm.sh/resource-policy"] for one in own.values()} == {"keep"}
    fleeting = await rendered(tmp_path, {"crd": {"keep": False}}, KUBERNETES)
    assert not [
        one for one in of_kind(fleeting, "CustomResourceDefinition").values() if "annotations" in one["metadata"]
    ]
    assert not of_kind(await rendered(tmp_path), "CustomResourceDefinition")
