"""``aim logs -f`` beside an API server and a kubelet, through the phases of a service."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from support.controlplane import RawApi
from support.kubelet_logs import kubelet, node_status

from aim_domain import labels
from aim_domain.naming import inference_service_name
from aim_local.apiserver import ControlPlane
from controller_runtime import JsonObject

CORE = "/api/v1/namespaces/team"
AIM = "/apis/aim.eai.amd.com/v1alpha1/namespaces/team"
OF_MODEL = {labels.KSERVE_INFERENCE_SERVICE: inference_service_name("chat", "team")}


class Talk:
    """What pods say: each goes on until the test ends it."""

    def __init__(self) -> None:
        self.said: defaultdict[str, asyncio.Queue[str | None]] = defaultdict(asyncio.Queue)

    def say(self, pod: str, line: str | None) -> None:
        self.said[pod].put_nowait(line)

    def end(self) -> None:
        for name in self.said:
            self.say(name, None)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while (line := await self.said[request.match_info["pod"]].get()) is not None:
            await response.write(f"{line}\n".encode())
        return response


async def downloading(api: RawApi, port: int) -> None:
    """A service with a download, and a node whose kubelet listens there."""
    await api.created("/api/v1/nodes", {"metadata": {"name": "n1"}})
    await api.merge("/api/v1/nodes/n1/status", {"status": node_status(port)})
    await api.created("/api/v1/namespaces", {"metadata": {"name": "team"}})
    reference = {"kind": "AIMTemplateCache", "name": "c", "namespace": "team"}
    cache = {"templateName": "t", "templateScope": "Namespace"}
    artifacts = {"m": {"name": "a", "uid": "u", "model": "m", "status": "Pending"}}
    for kind, plural, name, spec, status in (
        ("AIMTemplateCache", "aimtemplatecaches", "c", cache, {"artifacts": artifacts}),
        ("AIMService", "aimservices", "chat", {"model": {"name": "m"}}, {"cache": {"templateCacheRef": reference}}),
    ):
        body = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        await api.created(f"{AIM}/{plural}", body)
        told = await api.merge(f"{AIM}/{plural}/{name}/status", {"status": status})
        assert told.status == 200, told.body


async def begin(api: RawApi, name: str, carried: dict[str, str]) -> None:
    """A pod on the node."""
    spec: JsonObject = {"nodeName": "n1", "containers": [{"name": "main", "image": "i"}]}
    await api.created(f"{CORE}/pods", {"metadata": {"name": name, "labels": carried}, "spec": spec})


@asynccontextmanager
async def following(controlplane: ControlPlane, folder: Path, talk: Talk) -> AsyncIterator[Process]:
    """The command, which is ended with the test at the latest."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    words = ("logs", "-f", "team/chat", "--kubeconfig", str(kubeconfig))
    # Whoever runs tests in the background of a shell has it ignore the signal that a terminal would send.
    aim = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aim_cli", *words, stdout=PIPE, stderr=PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        yield aim
    finally:
        talk.end()
        if aim.returncode is None:
            aim.kill()
            await aim.wait()


@pytest.mark.spec("FW-729")
async def test_pods_of_the_next_phase_are_joined_while_those_before_still_talk(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    talk = Talk()
    async with kubelet(talk.answer) as port, asyncio.timeout(30):
        await downloading(api, port)
        await begin(api, "download", {labels.CACHE_NAME: "a"})
        async with following(controlplane, tmp_path, talk) as aim:
            assert aim.stdout is not None
            talk.say("download", "half")
            assert await aim.stdout.readline() == b"download: half\n"
            for name in ("model", "next-revision"):
                await begin(api, name, OF_MODEL)
                talk.say(name, "up")
                assert await aim.stdout.readline() == f"{name}: up\n".encode()
            for name in ("download", "model"):
                talk.say(name, "still here")
                assert await aim.stdout.readline() == f"{name}: still here\n".encode()
            aim.send_signal(signal.SIGINT)
            rest, errors = await aim.communicate()
    assert (aim.returncode, rest, errors) == (0, b"", b"logs of its download\nlogs of the model\n")


@pytest.mark.spec("FW-729")
async def test_it_ends_with_the_service(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> None:
    talk = Talk()
    async with kubelet(talk.answer) as port, asyncio.timeout(30):
        await downloading(api, port)
        await begin(api, "model", OF_MODEL)
        async with following(controlplane, tmp_path, talk) as aim:
            assert aim.stdout is not None
            talk.say("model", "up")
            assert await aim.stdout.readline() == b"model: up\n"
            await api.delete(f"{AIM}/aimservices/chat")
            talk.say("model", "down")
            talk.say("model", None)
            rest, _ = await aim.communicate()
    assert (aim.returncode, rest) == (0, b"model: down\n")
