"""The commands that look at a living platform answer, in their forms and with their codes."""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.outages import is_well
from support.stack import OWN, Platform
from typer.testing import CliRunner

from aim_cli.__main__ import app
from controller_runtime import JsonObject, loads

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


@dataclass(frozen=True)
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str

    @property
    def data(self) -> JsonObject:
        return loads(self.out)


async def aim(*words: str) -> Said:
    """Run a command; in a thread, as each brings a loop of its own."""
    ended = await asyncio.to_thread(CliRunner().invoke, app, list(words))
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return Said(ended.exit_code, ended.stdout)


@pytest.mark.spec("FW-607", "FW-608", "FW-609")
async def test_of_objects(platform: Platform) -> None:
    cluster = ("--kubeconfig", str(platform.stack.kubeconfig))
    await platform.namespace("looked-at")
    await platform.running(await platform.service("looked-at", "chat", model={"image": IMAGE}))

    tree = await aim("tree", "aimsvc/chat", "-n", "looked-at", "-o", "json", *cluster)
    assert tree.code == 0
    below = {one["object"]["kind"]: one for one in tree.data["below"]}
    assert {"AIMTemplateCache", "InferenceService", "HTTPRoute"} <= below.keys()
    assert below.keys() & {"AIMModel", "AIMClusterModel"}, "whichever has this image in this cluster"
    assert [one["object"]["kind"] for one in below["InferenceService"]["below"]] == ["Pod"]
    assert below["HTTPRoute"]["below"][0]["state"] == "Accepted"
    graph = await aim("tree", "aimsvc", "looked-at/chat", "-o", "dot", *cluster)
    assert graph.out.startswith("digraph aim {")

    status = await aim("status", "-n", "looked-at", "-o", "json", *cluster)
    attention = [one["object"] for one in status.data["attention"]]
    assert not [one for one in attention if one.get("namespace") == "looked-at"], "what others left may need some"
    assert status.data["counts"]["AIMService"] == {"Running": 1}

    cache = await aim("cache", "-n", "looked-at", "-o", "json", *cluster)
    (artifact,) = cache.data["artifacts"]
    assert artifact["volume"]["bytes"] > 0
    assert artifact["volume"]["users"]


SERVICE = """
apiVersion: aim.eai.amd.com/v1alpha1
kind: AIMService
metadata: {{name: {name}, namespace: planned}}
spec: {{model: {{image: {image}}}{more}}}
"""


@pytest.mark.spec("FW-613", "FW-614")
async def test_of_what_is_not_there_yet(platform: Platform, tmp_path: Path) -> None:
    known = ("--kubeconfig", str(platform.stack.kubeconfig), "--nats-url", platform.stack.nats_url)
    await platform.namespace("planned")
    await platform.running(await platform.service("planned", "first", model={"image": IMAGE}))
    file, refused = tmp_path / "second.yaml", tmp_path / "refused.yaml"
    file.write_text(SERVICE.format(name="second", image=IMAGE, more=""), encoding="utf-8")
    refused.write_text(SERVICE.format(name="third", image=IMAGE, more=", bogus: 1"), encoding="utf-8")

    reported = await aim("plan", "-f", str(file), "-f", str(refused), "-o", "json", *known)

    assert reported.code == 1
    objects = {one["name"]: one for one in reported.data["objects"]}
    assert "bogus" in objects["third"]["refused"]
    second = objects["second"]
    assert (second["would"], second["path"]) == ("created", "/planned/second")
    # Of the namespace, or of the cluster where its catalogue has the image already.
    assert second["template"].startswith(("AIMServiceTemplate planned/", "AIMClusterServiceTemplate "))
    assert second["rejected"]
    created = {(one["service"], one["what"].split()[0]) for one in reported.data["steps"] if one["verb"] == "create"}
    # The weights are there, so that nothing has to be waited for.
    assert created == {("serving", "InferenceService"), ("routing", "HTTPRoute")}

    # Nothing was written, and applying it does what was told.
    names = [
        one["metadata"]["name"]
        for one in (await platform.api.get(f"{OWN}/namespaces/planned/aimservices")).body["items"]
    ]
    assert names == ["first"]
    running = await platform.running(await platform.service("planned", "second", model={"image": IMAGE}))
    assert running["status"]["routing"]["path"] == "/planned/second"
    assert second["template"].endswith(running["status"]["resolvedTemplate"]["name"])


@pytest.mark.spec("FW-610", "FW-611", "FW-612")
async def test_of_the_installation(platform: Platform) -> None:
    cluster, nats = ("--kubeconfig", str(platform.stack.kubeconfig)), ("--nats-url", platform.stack.nats_url)

    reported = await aim("doctor", "--wait", "30", "-o", "json", *cluster, *nats)
    bad = [one for one in json.loads(reported.out) if one["mark"] == "bad"]
    assert (reported.code, bad) == (0, [])
    assert {"Kubernetes", "definitions", "permissions", "streams", "freshness", "clocks"} <= {
        one["about"] for one in json.loads(reported.out)
    }
    assert (await aim("doctor", "--pre", *cluster)).code == 0

    bus = await aim("bus", "--holes", "-o", "json", *nats)
    assert bus.code == 0
    assert {one["part"] for one in bus.data["parts"] if one["publisher"]} >= {"aimservices", "httproutes"}
    assert all(one["exists"] for one in bus.data["streams"])
    # Other tests end services of this platform; what happens before others take over is missing, and said to be.
    assert {one["part"] for one in bus.data["holes"]} <= {one["part"] for one in bus.data["parts"]}

    address = platform.stack["serving"].url
    queue = await aim("queue", "--url", f"serving={address}")
    assert queue.code == 0
    assert any(line.split()[:3] == ["serving", "service", "yes"] for line in queue.out.splitlines())
    assert (await aim("queue", *cluster)).code == 4


def commands() -> list[str]:
    """The commands in the blocks of the page about them that end by themselves; the console has a test of its own."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("aim ")]
    return [line for line in lines if not line.startswith("aim console")]


@pytest.mark.spec("FW-600", "FW-602", "FW-615", "FW-616", "FW-617")
async def test_of_the_page_every_command_runs(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(platform.stack.kubeconfig))
    monkeypatch.setenv("AIM_NATS_URL", platform.stack.nats_url)
    # The gateway of these tests listens on a port of its own, not on that of its listener.
    monkeypatch.setenv("AIM_GATEWAY_URL", platform.stack.gateway_url)
    monkeypatch.chdir(PAGE.parents[1])
    path = f"{OWN}/namespaces/demo/aimservices/qwen-chat"
    # Another test of this platform may have applied the demo.
    if (await platform.api.get("/api/v1/namespaces/demo")).status == 404:
        await platform.namespace("demo")
    if (await platform.api.get(path)).status == 404:
        await platform.service("demo", "qwen-chat", model={"image": IMAGE})
    await platform.running(path)
    serving = platform.stack["serving"].url
    ended = {}
    for line in commands():
        named = line.replace("http://HOST:PORT", serving).replace("night.aimlog", f"{tmp_path}/night.aimlog")
        words = named.replace("test_night.py", f"{tmp_path}/test_night.py").split()[1:]
        ended[line] = await aim(*words)
    # That both releases lack the same, and how much, is told without the reason.
    alike = (" 0 otherwise by ", '"different": 0')
    lacking = [line for line, said in ended.items() if said.code == 2 and any(one in said.out for one in alike)]
    wrong = {line: said for line, said in ended.items() if said.code not in (0, 1, 3)}
    wrong = {line: said for line, said in wrong.items() if not is_well(platform, said.code, said.out)}
    assert {line: said for line, said in wrong.items() if platform.chart is None or line not in lacking} == {}
    # Nothing is wrong with this service, and this much is known of it.
    replayed = ("aim replay aimservice demo/qwen-chat", "aim export night.aimlog -n demo --since 3h")
    for line in ("aim why aimservice demo/qwen-chat", *replayed, "aim replay night.aimlog", "aim cache -A"):
        assert is_well(platform, ended[line].code, ended[line].out), ended[line]
    assert "Hi" in ended["aim chat qwen-chat -n demo -m Hi"].out
    assert "AIMService" in ended["aim diff --from 1m"].out
    planned = ended["aim plan -f deploy/local/examples/second-service.yaml"].out
    assert "would     serving: create" in planned or "would be unchanged" in planned
    assert ended["aim logs qwen-chat -n demo --tail 20"].code == 0
