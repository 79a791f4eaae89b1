"""The remedy of a broker out of reach names that of the user's cluster, whatever the chart called it."""

import asyncio
from pathlib import Path

import pytest
from support.controlplane import RawApi
from typer.testing import CliRunner

from aim_cli.__main__ import app
from aim_cli.cluster.broker import BrokerNames, find_names, names_of
from aim_cli.cluster.targets import Where
from aim_local.ports import HOST
from embedded_apiserver import ControlPlane

LABELS = {"app.kubernetes.io/name": "aim-engine", "app.kubernetes.io/component": "nats"}
POD = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "nats", "image": "nats:2"}]}}


async def install(api: RawApi, namespace: str, name: str) -> None:
    await api.created("/api/v1/namespaces", {"metadata": {"name": namespace}})
    spec = {"serviceName": f"{name}-headless", "selector": {"matchLabels": LABELS}, "template": POD}
    broker = {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": spec}
    meta = {"name": name, "namespace": namespace, "labels": LABELS}
    await api.created(f"/apis/apps/v1/namespaces/{namespace}/statefulsets", {**broker, "metadata": meta})


async def printed(words: list[str], kubeconfig: Path) -> str:
    env = {"KUBECONFIG": str(kubeconfig), "AIM_NATS_URL": f"nats://{HOST}:1"}
    ended = await asyncio.to_thread(CliRunner().invoke, app, words, env=env)
    return " ".join((ended.stdout + ended.stderr).split())


@pytest.mark.spec("FW-730")
async def test_it_names_the_only_broker_of_the_cluster(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    await install(api, "models", "llm-nats")
    for words in (["bus"], ["doctor"]):
        assert "kubectl port-forward -n models service/llm-nats 4222" in await printed(words, kubeconfig)


@pytest.mark.spec("FW-730")
async def test_it_names_the_broker_of_the_cluster_that_was_asked(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    asked = tmp_path / "the other one"
    asked.write_text(controlplane.kubeconfig())
    await install(api, "elsewhere", "their-nats")
    remedy = f"kubectl --kubeconfig '{asked}' port-forward -n elsewhere service/their-nats 4222"
    for words in (["doctor"], ["timeline", "chat"]):
        assert remedy in await printed([*words, "--kubeconfig", str(asked)], tmp_path / "absent"), words


@pytest.mark.spec("FW-730")
def test_none_and_several_brokers_have_the_names_of_the_quick_start() -> None:
    one, two = ({"metadata": {"namespace": name, "name": f"{name}-nats"}} for name in ("models", "others"))
    assert names_of([one]).reader_secret == "models-nats-aim"
    quick_start = "kubectl port-forward -n aim-system service/aim-engine-nats 4222"
    elsewhere = Where(kubeconfig="a b", context="c")
    assert names_of([], elsewhere).port_forward == quick_start.replace(
        "kubectl", "kubectl --kubeconfig 'a b' --context c"
    )
    assert names_of([]).port_forward == names_of([one, two]).port_forward == quick_start


@pytest.mark.spec("FW-730")
async def test_an_answer_that_no_api_server_gives_adds_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(answer, HOST) as server:
        port = server.sockets[0].getsockname()[1]
        cluster = f'{{name: c, cluster: {{server: "http://{HOST}:{port}"}}}}'
        kubeconfig = tmp_path / "kubeconfig"
        context = "{name: c, context: {cluster: c, user: ''}}"
        kubeconfig.write_text(f"current-context: c\nclusters: [{cluster}]\ncontexts: [{context}]\nusers: []\n")
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        assert await asyncio.to_thread(find_names) == BrokerNames()
    assert capfd.readouterr().err == ""


@pytest.mark.spec("FW-730")
def test_a_cluster_that_is_absent_gives_the_names_of_the_quick_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    assert find_names() == BrokerNames()
