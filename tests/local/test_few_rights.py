"""Commands of a person who may read little: an API server that refuses by path, as RBAC does."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.controlplane import definitions
from support.nats import nats_server
from support.reconcile_bench import Faults, service
from typer.testing import CliRunner

from aim_cli.__main__ import app
from aim_domain import kinds, labels
from aim_domain.naming import inference_service_name
from aim_local.ports import HOST, free_port
from controller_runtime import KubeClient
from controller_runtime.kube.config import Connection, NoCredentials
from embedded_apiserver import ControlPlane

__all__ = ["nats_server"]
FORBIDDEN = 'x is forbidden: User "eve" cannot read it'
CHAT = ["aimservice", "default/chat"]


@dataclass
class Cluster:
    """An API server, and what it refuses."""

    faults: Faults
    kubeconfig: Path
    kube: KubeClient
    url: str

    def refuse(self, *paths: str, code: int = 403) -> None:
        """Refuse every request whose path has one of these in it."""
        status = {"code": code, "reason": "Forbidden" if code == 403 else "Unauthorized", "message": FORBIDDEN}
        self.faults.rules.append((lambda request: any(one in request.path for one in paths), code, status))

    async def ask(self, words: list[str], code: int) -> tuple[str, str]:
        """What a command says on standard output and standard error."""
        ended = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--kubeconfig", str(self.kubeconfig)])
        assert ended.exit_code == code, ended
        return ended.stdout, ended.stderr

    async def refused(self, words: list[str]) -> str:
        """The one line that a command ends with."""
        out, line = await self.ask(words, 4)
        assert (out, line.count("\n")) == ("", 1), line
        return line


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    faults = Faults()
    async with (
        ControlPlane(middleware=faults) as plane,
        KubeClient(Connection(plane.url, NoCredentials()), service="t") as kube,
    ):
        plane.install_crds(definitions())
        await kube.create(kinds.AIM_SERVICE, service(), "user")
        file = tmp_path / "kubeconfig"
        await asyncio.to_thread(file.write_text, plane.kubeconfig())
        yield Cluster(faults, file, kube, plane.url)


@pytest.mark.spec("FW-732", "FW-604")
@pytest.mark.parametrize("form", [[], ["-o", "json"]])
@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["why", *CHAT], "AIMService default/chat"),
        (["tree", *CHAT], "AIMService default/chat"),
        (["why", "aimservices", "-A"], "aimservices"),
        (["why", "aimservices", "-n", "default"], "aimservices"),
        (["why", "aimclustermodels"], "aimclustermodels"),
        (["status"], "aimservices"),
        (["status", "-n", "default"], "aimservices"),
        (["cache"], "aimartifacts"),
        (["queue"], "pods"),
    ],
)
async def test_what_may_not_be_read_is_neither_missing_nor_well(
    cluster: Cluster, words: list[str], what: str, form: list[str]
) -> None:
    cluster.refuse("/aim.eai.amd.com/", "/pods")
    line = await cluster.refused([*words, *form])
    assert line.startswith(f"aim: {what} cannot be read: {FORBIDDEN}; ")
    narrower = words in (["why", "aimservices", "-A"], ["status"])
    assert line.endswith("everywhere\n" if narrower else "ask for a role that may\n")


@pytest.mark.spec("FW-732")
@pytest.mark.parametrize(
    "words", [["chat", "default/chat", "-m", "Hi"], ["logs", "default/chat"], ["top", "--count", "1"]]
)
async def test_neither_is_a_service_that_somebody_would_talk_or_listen_to(cluster: Cluster, words: list[str]) -> None:
    cluster.refuse("/aim.eai.amd.com/")
    assert f" cannot be read: {FORBIDDEN}" in await cluster.refused(words)


@pytest.mark.spec("FW-732")
async def test_pods_that_may_not_be_listed_are_not_none(cluster: Cluster) -> None:
    cluster.refuse("/pods")
    assert "aim: pods cannot be read" in await cluster.refused(["logs", "default/chat"])


@pytest.mark.spec("FW-732", "FW-601")
async def test_a_part_that_may_not_be_read_is_left_out_and_named(cluster: Cluster) -> None:
    cluster.refuse("/aimclustermodels", "/leases", "/nodes", "/jobs")
    out, remarks = await cluster.ask(["status", "-n", "default", "-o", "json"], 0)
    reported = json.loads(out)
    assert reported["counts"]["AIMService"]
    assert "AIMClusterModel" not in reported["counts"]
    assert reported.keys() == {"attention", "counts"}
    assert all(f"not known: {what}: {FORBIDDEN}\n" in remarks for what in ("aimclustermodels", "leases", "nodes"))
    out, _ = await cluster.ask(["status", "-n", "default"], 0)
    assert out.startswith("nothing needs attention of what you may read\n")
    out, remarks = await cluster.ask(["tree", *CHAT, "-o", "json"], 0)
    assert json.loads(out)["object"]["name"] == "chat"
    assert f"not known: jobs: {FORBIDDEN}" in remarks


@pytest.mark.spec("FW-732", "FW-609")
async def test_a_volume_whose_users_may_not_be_read_is_not_free(cluster: Cluster) -> None:
    await _artifact_with_a_volume(cluster)
    cluster.refuse("/pods", "/aimclusterruntimeconfigs")
    out, _ = await cluster.ask(["cache", "-n", "default"], 0)
    assert out.count("not known") == 2, "neither why it is kept, nor the limit"
    assert "evicted" not in out
    out, _ = await cluster.ask(["cache", "-n", "default", "-o", "json"], 0)
    reported = json.loads(out)
    assert "kept" not in reported["artifacts"][0]["volume"]
    assert "limit" not in reported["limits"][0]


@pytest.mark.spec("FW-732", "FW-612")
async def test_the_doctor_takes_nothing_for_missing_that_may_not_be_listed(cluster: Cluster) -> None:
    cluster.refuse("/nodes", "/deployments", "/leases")
    out, _ = await cluster.ask(["doctor", "-o", "json"], 0)
    marks = {one["about"]: one["mark"] for one in json.loads(out)}
    assert {marks[about] for about in ("GPUs", "services", "leaders")} == {"unknown"}


@pytest.mark.spec("FW-732")
@pytest.mark.parametrize(
    "words",
    [["why", *CHAT], ["status", "-o", "json"], ["queue"], ["migrate", "--dry-run"], ["doctor", "-o", "json"]],
)
async def test_credentials_that_the_api_server_does_not_know(cluster: Cluster, words: list[str]) -> None:
    cluster.refuse("/", code=401)
    assert "does not know you (401); renew the credentials" in await cluster.refused(words)


@pytest.mark.spec("FW-732")
async def test_a_console_of_nobody_prints_no_address(cluster: Cluster, nats_server: str) -> None:
    cluster.refuse("/selfsubjectaccessreviews", code=401)
    assert "does not know you (401)" in await cluster.refused(["console", "--nats-url", nats_server])


@pytest.mark.spec("FW-732")
@pytest.mark.parametrize("words", [["why", *CHAT], ["migrate", "--dry-run"], ["console"]])
async def test_a_server_that_does_not_answer(cluster: Cluster, nats_server: str, words: list[str]) -> None:
    text = await asyncio.to_thread(cluster.kubeconfig.read_text)
    nobody = f"http://{HOST}:{free_port()}"
    await asyncio.to_thread(cluster.kubeconfig.write_text, text.replace(cluster.url, nobody))
    more = ["--nats-url", nats_server] if words == ["console"] else []
    line = await cluster.refused([*words, *more])
    assert line.startswith(f"aim: the cluster {nobody} does not answer: ")
    assert line.endswith("; check that it is reachable\n")


@pytest.mark.spec("FW-732")
async def test_a_pod_whose_words_may_not_be_read_has_not_said_nothing(cluster: Cluster) -> None:
    container = {"name": "model", "image": "x"}
    named = {"name": "p", "namespace": "default"}
    label = {labels.KSERVE_INFERENCE_SERVICE: inference_service_name("chat", "default")}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**named, "labels": label},
        "spec": {"containers": [container]},
    }
    await cluster.kube.create(kinds.POD, pod, "user")
    status = {"containerStatuses": [{"name": "model", "state": {"running": {}}, "ready": True, "restartCount": 0}]}
    reported = {**pod, "status": {"phase": "Running", **status}}
    await cluster.kube.apply(kinds.POD, reported, "user", subresource="status")
    cluster.refuse("/pods/p/log")
    out, remarks = await cluster.ask(["logs", "default/chat"], 4)
    assert out == ""
    assert f"not known: Pod default/p: {FORBIDDEN}\n" in remarks


@pytest.mark.spec("FW-602")
@pytest.mark.parametrize(
    "words", [["timeline", "aimsvc", "chat"], ["tree", "aimsvc", "chat"], ["logs", "chat"], ["cache"]]
)
async def test_a_kubeconfig_that_is_none(cluster: Cluster, words: list[str]) -> None:
    await asyncio.to_thread(cluster.kubeconfig.write_text, "- nonsense\n")
    assert "it is not a valid kubeconfig" in await cluster.refused(words)


@pytest.fixture
def planned(tmp_path: Path) -> list[str]:
    file = tmp_path / "service.json"
    file.write_text(json.dumps(service("second")), encoding="utf-8")
    return ["plan", "-f", str(file), "-o", "json"]


@pytest.mark.spec("FW-733", "FW-613")
async def test_a_plan_reads_the_namespaces_where_it_may(cluster: Cluster, planned: list[str]) -> None:
    cluster.refuse("/v1alpha1/aimmodels")
    out, remarks = await cluster.ask(planned, 1)
    assert "cannot be read" not in out
    assert "ModelNotFound" in out, "it has looked"
    assert f"not known: aimmodels of other namespaces: {FORBIDDEN}\n" in remarks


@pytest.mark.spec("FW-733", "FW-614")
async def test_a_plan_that_depends_on_what_cannot_be_read_is_not_known(cluster: Cluster, planned: list[str]) -> None:
    cluster.refuse("/aimclusterruntimeconfigs")
    out, remarks = await cluster.ask(planned, 4)
    (reported,) = json.loads(out)["objects"]
    assert (reported["would"], reported["state"]) == ("created", "")
    messages = [one["message"] for one in reported["conditions"]]
    assert "AIMClusterRuntimeConfig default is not known, as aimclusterruntimeconfigs cannot be read" in messages
    assert f"not known: aimclusterruntimeconfigs: {FORBIDDEN}\n" in remarks
    out, _ = await cluster.ask(planned[:-2], 4)
    assert out.startswith("AIMService default/second: would be created; what becomes of it is not known\n")


async def _artifact_with_a_volume(cluster: Cluster) -> None:
    version = "aim.eai.amd.com/v1alpha1"
    named = {"name": "weights", "namespace": "default"}
    made = await cluster.kube.create(
        kinds.AIM_ARTIFACT,
        {
            "apiVersion": version,
            "kind": "AIMArtifact",
            "metadata": named,
            "spec": {"sourceUri": "hf://a/b", "size": "1Gi"},
        },
        "user",
    )
    owner = {"apiVersion": version, "kind": "AIMArtifact", "name": "weights"}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            **named,
            "labels": {labels.CACHE_NAME: "weights"},
            "ownerReferences": [{**owner, "uid": made["metadata"]["uid"]}],
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await cluster.kube.create(kinds.PERSISTENT_VOLUME_CLAIM, claim, "user")
