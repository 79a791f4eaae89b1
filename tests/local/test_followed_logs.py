"""``aim logs -f`` beside an API server and a kubelet, through the phases of a service."""

import asyncio
import signal
import sys
from asyncio import StreamReader
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from support.controlplane import RawApi, definitions, raw_api
from support.kubelet_logs import kubelet, node_status
from support.reconcile_bench import Faults

from aim_domain import labels
from aim_domain.naming import inference_service_name
from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane

CORE = "/api/v1/namespaces/team"
AIM = "/apis/aim.eai.amd.com/v1alpha1/namespaces/team"
CUT = "the connection ends"
OF_MODEL = {labels.KSERVE_INFERENCE_SERVICE: inference_service_name("chat", "team")}


class Talk:
    """What pods say: each goes on until the test ends or cuts it."""

    def __init__(self) -> None:
        self.said: defaultdict[str, asyncio.Queue[str | None]] = defaultdict(asyncio.Queue)
        self.reported: defaultdict[str, list[str]] = defaultdict(list)
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.answers: dict[str, web.StreamResponse] = {}

    def say(self, pod: str, line: str | None) -> None:
        self.said[pod].put_nowait(line)

    def cut(self, pod: str) -> None:
        self.say(pod, CUT)

    async def complain(self, pod: str, words: str) -> None:
        """The kubelet says something itself."""
        await self.answers[pod].write(f"{words}\n".encode())

    def end(self) -> None:
        for name in self.said:
            self.say(name, None)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        pod, reported = request.match_info["pod"], self.reported[request.match_info["pod"]]
        self.asked.append((pod, request.query))
        response = self.answers[pod] = web.StreamResponse()
        await response.prepare(request)
        if "sinceTime" in request.query:
            # A kubelet knows the time by the second.
            await response.write("".join(reported).encode())
        while (line := await self.said[pod].get()) is not None:
            if line == CUT:
                assert request.transport is not None
                request.transport.abort()
                break
            reported.append(f"2026-11-24T01:02:03.{len(reported):09}Z {line}\n")
            await response.write(reported[-1].encode())
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
        reported = await api.merge(f"{AIM}/{plural}/{name}/status", {"status": status})
        assert reported.status == 200, reported.body


async def begin(api: RawApi, name: str, carried: dict[str, str], *containers: str) -> None:
    """A pod on the node."""
    spec: JsonObject = {
        "nodeName": "n1",
        "containers": [{"name": one, "image": "i"} for one in containers or ("main",)],
    }
    await api.created(f"{CORE}/pods", {"metadata": {"name": name, "labels": carried}, "spec": spec})


async def state(api: RawApi, name: str, restarts: int, **state: JsonObject) -> None:
    """What became of the container of a pod."""
    reported = {"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": restarts, "state": state}
    merged = await api.merge(f"{CORE}/pods/{name}/status", {"status": {"containerStatuses": [reported]}})
    assert merged.status == 200, merged.body


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


@asynccontextmanager
async def followed(plane: ControlPlane, api: RawApi, folder: Path) -> AsyncIterator[tuple[Talk, Process, StreamReader]]:
    """A service whose model runs, and the command that follows it, with what that prints."""
    talk = Talk()
    async with kubelet(talk.answer) as port, asyncio.timeout(60):
        await downloading(api, port)
        await begin(api, "model", OF_MODEL)
        async with following(plane, folder, talk) as aim:
            assert aim.stdout is not None
            yield talk, aim, aim.stdout


@pytest.mark.spec("FW-729")
async def test_pods_of_the_next_phase_are_joined_while_those_before_still_talk(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    talk = Talk()
    async with kubelet(talk.answer) as port, asyncio.timeout(60):
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
    async with followed(controlplane, api, tmp_path) as (talk, aim, out):
        talk.say("model", "up")
        assert await out.readline() == b"model: up\n"
        await api.delete(f"{AIM}/aimservices/chat")
        talk.say("model", "down")
        talk.say("model", None)
        rest, _ = await aim.communicate()
    assert (aim.returncode, rest) == (0, b"model: down\n")


@pytest.mark.spec("FW-729")
async def test_where_the_kubelet_was_lost_it_goes_on_after_the_last_line(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    async with followed(controlplane, api, tmp_path) as (talk, _, out):
        await state(api, "model", 0, running={})
        for line in ("one", "", "one"):
            talk.say("model", line)
            assert await out.readline() == f"model: {line}\n".encode()
        talk.cut("model")
        talk.say("model", "two")
        assert await out.readline() == b"model: two\n"
        # What the kubelet says itself has no time.
        await talk.complain("model", "failed to watch the file")
        assert await out.readline() == b"model: failed to watch the file\n"
        talk.cut("model")
        talk.say("model", "three")
        assert await out.readline() == b"model: three\n"
    assert [query.get("sinceTime") for _, query in talk.asked] == [
        None,
        "2026-11-24T01:02:03.000000002Z",
        "2026-11-24T01:02:03.000000003Z",
    ]


@pytest.mark.spec("FW-729")
async def test_the_next_start_of_a_container_is_joined_and_one_that_ended_left(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    async with followed(controlplane, api, tmp_path) as (talk, _, out):
        talk.say("model", "first start")
        assert await out.readline() == b"model: first start\n"
        await state(api, "model", 0, terminated={"exitCode": 1})
        talk.say("model", None)
        # Whoever looked for this pod has looked for the other one again.
        await begin(api, "other", OF_MODEL)
        talk.say("other", "up")
        assert await out.readline() == b"other: up\n"
        talk.say("model", "second start")
        await state(api, "model", 1, running={})
        assert await out.readline() == b"model: second start\n"
    asked = [(pod, query.get("sinceTime")) for pod, query in talk.asked]
    assert asked == [("model", None), ("other", None), ("model", None)], "the next start has said nothing before"


@pytest.mark.spec("FW-729")
async def test_whose_logs_may_not_be_read_is_reported_once(tmp_path: Path) -> None:
    talk, faults = Talk(), Faults()
    faults.fail("GET", "/pods/hidden/log", 403, reason="Forbidden", message='pods "hidden" is forbidden')
    async with ControlPlane(middleware=faults) as plane, raw_api(plane.url) as api:
        plane.install_crds(definitions())
        async with kubelet(talk.answer) as port, asyncio.timeout(60):
            await downloading(api, port)
            await begin(api, "hidden", OF_MODEL, "main", "beside")
            async with following(plane, tmp_path, talk) as aim:
                assert aim.stderr is not None
                assert aim.stdout is not None
                assert await aim.stderr.readline() == b"logs of the model\n"
                assert await aim.stderr.readline() == b'Pod team/hidden: pods "hidden" is forbidden\n'
                await begin(api, "model", OF_MODEL)
                talk.say("model", "up")
                assert await aim.stdout.readline() == b"model: up\n"
                aim.send_signal(signal.SIGINT)
                _, errors = await aim.communicate()
    assert errors == b"", "and not again"
