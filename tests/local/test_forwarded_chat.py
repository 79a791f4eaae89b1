"""``aim chat --port-forward``: to a pod of the model, past the route.

No kubelet is here that could forward a port, so a program in kubectl's place leads to the model.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from support.controlplane import RawApi, eventually

from aim_domain import labels
from aim_domain.naming import inference_service_name
from aim_local.ports import free_port
from embedded_apiserver import ControlPlane

CORE = "/api/v1/namespaces/team"
AIM = "/apis/aim.eai.amd.com/v1alpha1/namespaces/team"
KUBECTL = """#!{python}
import os, pathlib, select, signal, socket, sys, threading

pathlib.Path({folder!r}, "words").write_text("\\n".join(sys.argv[1:]))
pathlib.Path({folder!r}, "process").write_text(str(os.getpid()))
if not {model!r}:
    print("error: unable to forward port because pod is not running", file=sys.stderr)
    sys.exit(1)
print("Warning: this version of the API is old", file=sys.stderr, flush=True)
listener = socket.create_server(("127.0.0.1", 0))
print(f"Forwarding from 127.0.0.1:{{listener.getsockname()[1]}} -> 8000", flush=True)
while True:
    near = listener.accept()[0]
    print("Handling connection for 8000", flush=True)
    far = socket.create_connection(("127.0.0.1", int({model!r})))
    def carry(one=near, other=far):
        while True:
            for side in select.select([one, other], [], [])[0]:
                data = side.recv(65536)
                if not data:
                    return one.close(), other.close()
                (other if side is one else one).sendall(data)
    threading.Thread(target=carry, daemon=True).start()
"""


def kubectl(folder: Path, model: str) -> None:
    """A program that leads to a port, or to nowhere."""
    program = folder / "kubectl"
    program.write_text(KUBECTL.format(python=sys.executable, folder=str(folder), model=model), encoding="utf-8")
    program.chmod(0o755)


@asynccontextmanager
async def model() -> AsyncIterator[str]:
    """A model behind a port, without the path of a route."""

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "qwen"}]})

    async def chat(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in ("You said ", asked["messages"][-1]["content"]):
            await response.write(f'data: {{"choices": [{{"delta": {{"content": "{piece}"}}}}]}}\n\n'.encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    application = web.Application()
    application.add_routes([web.get("/v1/models", models), web.post("/v1/chat/completions", chat)])
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield str(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def serve(api: RawApi, *, ready: bool) -> None:
    """A service without a route, and pods of its model, of which at most the last is ready."""
    await api.created("/api/v1/namespaces", {"metadata": {"name": "team"}})
    service = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMService", "metadata": {"name": "chat"}}
    await api.created(f"{AIM}/aimservices", {**service, "spec": {"model": {"name": "m"}}})
    carried = {labels.KSERVE_INFERENCE_SERVICE: inference_service_name("chat", "team")}
    container = {"name": "kserve-container", "image": "i", "ports": [{"containerPort": 8000}]}
    for name, status in (("another", "False"), ("chat-predictor", "True" if ready else "False")):
        metadata = {"name": name, "labels": carried}
        await api.created(f"{CORE}/pods", {"metadata": metadata, "spec": {"containers": [container]}})
        conditions = [{"type": "Ready", "status": status}]
        reported = await api.merge(f"{CORE}/pods/{name}/status", {"status": {"conditions": conditions}})
        assert reported.status == 200


async def chat(plane: ControlPlane, folder: Path, *words: str, path: str = "") -> tuple[int | None, str, str]:
    """What the command says."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(plane.kubeconfig())
    environment = {**os.environ, "PATH": path or f"{folder}:{os.environ['PATH']}"}
    command = ("chat", "team/chat", "--port-forward", "-m", "hello", "--kubeconfig", str(kubeconfig), *words)
    aim = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aim_cli", *command, stdout=-1, stderr=-1, env=environment
    )
    async with asyncio.timeout(60):
        said, errors = await aim.communicate()
    return aim.returncode, said.decode(), errors.decode()


def context_of(plane: ControlPlane) -> str:
    return str(yaml.safe_load(plane.kubeconfig())["current-context"])


def runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.spec("FW-690")
async def test_the_model_answers_past_the_route_and_kubectl_ends_with_the_conversation(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    await serve(api, ready=True)
    async with model() as port:
        kubectl(tmp_path, port)
        said = await chat(controlplane, tmp_path, "--context", context_of(controlplane))
        assert said == (0, "You said hello\n", "")
    assert (tmp_path / "words").read_text().splitlines() == [
        f"--kubeconfig={tmp_path / 'kubeconfig'}",
        f"--context={context_of(controlplane)}",
        "port-forward",
        "--address=127.0.0.1",
        "--namespace=team",
        "pod/chat-predictor",
        ":8000",
    ]
    process = int((tmp_path / "process").read_text())
    await eventually(lambda: not runs(process))


@pytest.mark.spec("FW-690", "FW-602")
async def test_what_keeps_it_from_the_model_is_reported(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    await serve(api, ready=True)
    kubectl(tmp_path, "")
    code, said, errors = await chat(controlplane, tmp_path)
    assert (code, said) == (4, "")
    words = "error: unable to forward port because pod is not running"
    assert errors == f"aim: kubectl port-forward to Pod team/chat-predictor: {words}\n"
    code, _, errors = await chat(controlplane, tmp_path, path=str(tmp_path / "nothing"))
    assert (code, errors) == (2, "aim: --port-forward runs kubectl, which cannot be: No such file or directory\n")
    code, _, errors = await chat(controlplane, tmp_path, "--url", "http://127.0.0.1:1")
    assert (code, errors) == (2, "aim: --url names a gateway, --port-forward goes past it; give one of them\n")


@pytest.mark.spec("FW-690")
async def test_a_conversation_that_breaks_ends_kubectl_and_tells_its_words(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    await serve(api, ready=True)
    kubectl(tmp_path, str(free_port()))
    code, _, errors = await chat(controlplane, tmp_path)
    assert code == 4
    assert "; kubectl port-forward to Pod team/chat-predictor: " in errors
    assert "ConnectionRefusedError" in errors
    process = int((tmp_path / "process").read_text())
    await eventually(lambda: not runs(process))


@pytest.mark.spec("FW-690", "FW-602")
async def test_a_service_that_is_not_there_has_no_pod(controlplane: ControlPlane, tmp_path: Path) -> None:
    code, _, errors = await chat(controlplane, tmp_path)
    assert (code, errors) == (3, "aim: AIMService team/chat does not exist\n")


@pytest.mark.spec("FW-690", "FW-602")
async def test_without_a_ready_pod_it_leads_to_the_reason(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    await serve(api, ready=False)
    code, _, errors = await chat(controlplane, tmp_path)
    assert (code, errors) == (
        2,
        "aim: no pod of AIMService team/chat is ready; see why: aim why aimservice team/chat\n",
    )
