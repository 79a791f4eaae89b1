"""What a shell offers while a command is typed, as bash and kubectl ask for it."""

import asyncio
import os
import re
import shutil
import socket
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from support.controlplane import RawApi
from support.nats import eventually

from embedded_apiserver import ControlPlane

AIM = "/apis/aim.eai.amd.com/v1alpha1/namespaces"
IN_BASH = """
PATH={bin}:$PATH
eval "$(_AIM_COMPLETE=source_bash aim)"
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_aim_completion aim
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


async def output(*command: str, **environment: str) -> str:
    known = {name: text for name, text in os.environ.items() if name != "BASH_ENV"}
    ran = await asyncio.create_subprocess_exec(
        *command, stdout=-1, stderr=-1, env={**known, "LC_ALL": "C", **environment}
    )
    async with asyncio.timeout(60):
        said, errors = await ran.communicate()
    assert b"Traceback" not in errors
    return said.decode()


async def offered(*words: str, **environment: str) -> list[str]:
    """What the completion of bash makes of words, the last of which is not whole."""
    bash = shutil.which("bash")
    assert bash is not None
    script = IN_BASH.format(bin=Path(sys.executable).parent, words=" ".join(map(repr, ("aim", *words))))
    return (await output(bash, "-c", script, **environment)).split()


async def offered_to_kubectl(*words: str, **environment: str) -> list[str]:
    program = Path(sys.executable).parent / "kubectl_complete-aim"
    return (await output(str(program), *words, **environment)).splitlines()


async def found(names: list[str], *words: str, **environment: str) -> None:
    """What is offered in the end: on a loaded machine an answer may take longer than a shell waits."""
    await eventually(lambda: is_offered(names, *words, **environment), f"{words} are completed to {names}")


async def is_offered(names: list[str], *words: str, **environment: str) -> bool:
    return await offered(*words, **environment) == names


@pytest.mark.spec("FW-705")
async def test_bash_is_offered_commands_kinds_and_options() -> None:
    assert await offered("wh") == ["why"]
    assert await offered("why", "aimclusterm") == ["aimclustermodel", "aimclustermodelsource"]
    assert await offered("timeline", "aimserv") == ["aimservice", "aimservicetemplate"]
    assert "--nats-url" in await offered("why", "--")
    assert await offered("why", "nonsense", "") == []


@pytest.mark.spec("FW-705", "FW-707")
async def test_names_are_those_of_the_cluster(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> None:
    for namespace in ("default", "team"):
        if namespace != "default":
            await api.created("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for name in ("chat", "coder"):
            service = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMService", "spec": {"model": {"name": "m"}}}
            await api.created(
                f"{AIM}/{namespace}/aimservices", {**service, "metadata": {"name": f"{name}-{namespace}"}}
            )
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    cluster = {"KUBECONFIG": str(kubeconfig)}

    await found(["chat-default", "coder-default"], "why", "aimsvc", "", **cluster)
    await found(["coder-default"], "why", "aimsvc", "co", **cluster)
    await found(["team/chat-team"], "why", "aimsvc", "team/ch", **cluster)
    await found(["chat-team"], "tree", "aimsvc", "-n", "team", "ch", **cluster)
    await found(["chat-default"], "logs", "--kubeconfig", str(kubeconfig), "ch")
    await found(["team"], "why", "-n", "te", **cluster)

    async def is_reported() -> bool:
        return await offered_to_kubectl("why", "aimsvc", "ch", **cluster) == ["chat-default", ":4"]

    await eventually(is_reported, "kubectl reports the same")
    assert await offered_to_kubectl("why", "aimsvc", "none", **cluster) == [":4"]


HOSTILE = ("$(id)", "\\$(id)", "`id`", "a\x1b[2J", "x\n:0", "Big", "-x", "")


async def served(answer: object, folder: Path, exits: AsyncExitStack) -> Path:
    """The kubeconfig of an API server that answers everything so."""

    async def say(_: web.Request) -> web.Response:
        return web.json_response(answer)

    application = web.Application()
    application.add_routes([web.get("/{path:.*}", say)])
    runner = web.AppRunner(application)
    await runner.setup()
    exits.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}
    users, contexts = [{"name": "u", "user": {}}], [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    reported = {"clusters": [cluster], "users": users, "contexts": contexts, "current-context": "c"}
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(reported), encoding="utf-8")
    return kubeconfig


@pytest.mark.spec("FW-705")
async def test_what_is_no_name_is_not_offered_to_a_shell(tmp_path: Path) -> None:
    named = [{"metadata": {"name": name}} for name in (*HOSTILE, "chat")]
    async with AsyncExitStack() as exits:
        kubeconfig = await served({"items": named}, tmp_path, exits)
        await found(["chat"], "why", "aimsvc", "", KUBECONFIG=str(kubeconfig))


@pytest.mark.spec("FW-705")
@pytest.mark.parametrize("answer", [[], {"items": [None]}, {"items": [{"metadata": {}}]}, {}])
async def test_an_answer_that_is_none_offers_nothing(tmp_path: Path, answer: object) -> None:
    async with AsyncExitStack() as exits:
        kubeconfig = await served(answer, tmp_path, exits)
        assert await offered("why", "aimsvc", "", KUBECONFIG=str(kubeconfig)) == []


@pytest.mark.spec("FW-705")
async def test_an_answer_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig = tmp_path / "kubeconfig"
        async with AsyncExitStack() as exits:
            text = (await served({}, tmp_path, exits)).read_text("utf-8")
        kubeconfig.write_text(re.sub(r"127.0.0.1:\d+", f"127.0.0.1:{silent.getsockname()[1]}", text))
        begun = time.monotonic()
        assert await offered("why", "aimsvc", "", KUBECONFIG=str(kubeconfig)) == []
        # The client of the API server would wait for half a minute.
        assert time.monotonic() - begun < 29


@pytest.mark.spec("FW-705")
async def test_without_a_cluster_nothing_is_offered(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{nonsense")
    assert await offered("why", "aimsvc", "", KUBECONFIG=str(kubeconfig)) == []
    assert await offered("why", "-n", "", KUBECONFIG=str(tmp_path / "none")) == []
