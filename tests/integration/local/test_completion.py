"""What a shell offers while a command is typed, as bash and kubectl ask for it."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest
from support.controlplane import RawApi

from aim_local.apiserver import ControlPlane
from aim_local.ports import free_port

AIM = "/apis/aim.eai.amd.com/v1alpha1/namespaces"
IN_BASH = """
PATH={bin}:$PATH
eval "$(aim --show-completion)"
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_aim_completion aim
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


async def output(*command: str, **environment: str) -> str:
    ran = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1, env={**os.environ, **environment})
    async with asyncio.timeout(60):
        said, errors = await ran.communicate()
    assert errors == b""
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

    assert await offered("why", "aimsvc", "", **cluster) == ["chat-default", "coder-default"]
    assert await offered("why", "aimsvc", "co", **cluster) == ["coder-default"]
    assert await offered("why", "aimsvc", "team/ch", **cluster) == ["team/chat-team"]
    assert await offered("tree", "aimsvc", "-n", "team", "ch", **cluster) == ["chat-team"]
    assert await offered("logs", "--kubeconfig", str(kubeconfig), "ch") == ["chat-default"]
    assert "team" in await offered("why", "-n", "te", **cluster)
    assert await offered_to_kubectl("why", "aimsvc", "ch", **cluster) == ["chat-default", ":4"]
    assert await offered_to_kubectl("why", "aimsvc", "none", **cluster) == [":4"]
    assert await offered_to_kubectl("chat", "", **cluster) == ["chat-default", "coder-default", ":4"]


@pytest.mark.spec("FW-705")
async def test_what_cannot_be_asked_offers_nothing(controlplane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig().replace(str(controlplane.url), f"http://127.0.0.1:{free_port()}"))
    assert await offered("why", "aimsvc", "", KUBECONFIG=str(kubeconfig)) == []
    kubeconfig.write_text("{nonsense")
    assert await offered("why", "aimsvc", "", KUBECONFIG=str(kubeconfig)) == []
    assert await offered("why", "-n", "", KUBECONFIG=str(tmp_path / "none")) == []
