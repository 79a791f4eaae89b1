"""docs/guides/quick-start.md, word for word: from a clone of this repository to an answer of the model.

What differs is what the page leaves to its reader: the copy of the images, the address of the gateway, a folder on the
path, and values for a machine that reaches no registry and has two cores.
"""

import asyncio
import os
import re
import shlex
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest_asyncio
import yaml
from support.node_release import install, remove_platform
from support.on_node import SMALL, OnNode
from support.shown import DOCS, blocks

from aim_local.assets import Program, find_toolset
from aim_local.demo.run import demo_files
from aim_local.node.platform import EXAMPLES, node_values
from aim_packaging.images.commands import Registry
from aim_packaging.images.layout import Layout
from controller_runtime import JsonObject

PAGE: Final = DOCS / "guides" / "quick-start.md"
ROOT: Final = DOCS.parent
_PATH: Final = "/usr/local/bin"
_GATEWAY: Final = "<address of the gateway>"
_LONG: Final = re.compile(r" -w$|port-forward ")
_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Reader:
    """Someone who follows the page in a clone of the repository.

    Attributes:
        programs: a folder on the path.
    """

    node: OnNode
    clone: Path
    programs: Path

    @property
    def environment(self) -> dict[str, str]:
        """What the page asks for is on the path, and the administrator's kubeconfig is there."""
        path = f"{self.programs}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "KUBECONFIG": str(self.node.platform.kubeconfig), "BASE": "local"}

    async def type(self, text: str) -> str:
        """What commands print, typed one after the other into one shell; the test fails where one fails."""
        script = text.replace(_PATH, str(self.programs)).replace(_GATEWAY, self.node.gateway.removeprefix("http://"))
        process = await asyncio.create_subprocess_exec(
            "bash", "-ec", script, cwd=self.clone, env=self.environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(_SECONDS):
            out, _ = await process.communicate()
        assert process.returncode == 0, f"{script}\n{out.decode()}"
        return out.decode()

    @asynccontextmanager
    async def typed(self, command: str) -> AsyncIterator[asyncio.StreamReader]:
        """A command that runs until it is interrupted; what it prints."""
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command), cwd=self.clone, env=self.environment, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


@pytest_asyncio.fixture(loop_scope="session")
async def reader(node: OnNode, tmp_path: Path) -> AsyncIterator[Reader]:
    """A clone, and a cluster that never had the platform; afterwards it has it as every test finds it."""
    clone, programs = tmp_path / "clone", tmp_path / "bin"
    cloned = await asyncio.create_subprocess_exec("git", "clone", "--quiet", str(ROOT), str(clone))
    assert await cloned.wait() == 0
    programs.mkdir()
    for name in (Program.KUBECTL, Program.HELM):
        (programs / name.value).symlink_to(find_toolset().program(name))
    try:
        await remove_platform(node)
        yield Reader(node, clone, programs)
    finally:
        await node.kubectl("delete", "namespace", "guide-start", "--ignore-not-found", "--timeout=180s")
        await remove_platform(node)
        await install(node)
        await node.apply(demo_files(EXAMPLES)[:-1])


async def test_the_quick_start(reader: Reader) -> None:
    commands, files = steps()
    await reader.type(commands["make"])
    copy_images(reader.clone / "dist" / "0.1.0" / "images.tar", reader.node.platform.node.settings.registry)
    found = await reader.type(commands["install"])
    assert "\nbad" not in found, found
    for name, content in {**files, "own.yaml": yaml.safe_dump(values(reader.node))}.items():
        (reader.clone / name).write_text(content, encoding="utf-8")
    first, test = commands["helm"].splitlines()
    assert "STATUS: deployed" in await reader.type(f"{first} -f own.yaml")
    assert "Phase:          Succeeded" in await reader.type(test)
    await reader.type(commands["kubectl apply -f config.yaml"])
    planned = await reader.type(commands["kubectl create"])
    assert "AIMService guide-start/first-chat: would be created" in planned
    await runs_and_answers(reader, commands)


async def runs_and_answers(reader: Reader, commands: dict[str, str]) -> None:
    watch, why, curl = commands["kubectl get"].splitlines()
    async with reader.typed(watch) as printed, asyncio.timeout(_SECONDS):
        while b"Running" not in await printed.readline():
            assert not printed.at_eof()
    assert "no problem found" in await reader.type(why)
    answer = await reader.type(f"for _ in $(seq 50); do {curl} --fail --silent && exit; sleep 0.2; done; exit 1")
    assert '"object": "list"' in answer or '"object":"list"' in answer
    async with reader.typed(commands["kubectl -n aim-system port-forward"].strip()) as printed:
        assert b"4222" in await asyncio.wait_for(printed.readline(), 60)
        lines = await reader.type(commands["export"])
    assert "Running" in lines, lines


def steps() -> tuple[dict[str, str], dict[str, str]]:
    """The commands of each block by how it begins, and the files that the page has its reader save."""
    known = [
        "make", "install", "helm", "kubectl apply -f config.yaml", "kubectl create", "kubectl get",
        "kubectl -n aim-system port-forward", "export",
    ]  # fmt: skip
    shown = [text for language, text in blocks(PAGE) if not language]
    commands = {name: text for text in shown for name in known if text.startswith(name)}
    assert len(commands) == len(known) == len(shown), "every block of the page is typed"
    texts = [text for language, text in blocks(PAGE) if language == "yaml"]
    names = re.findall(r"[Ss]ave this as `(\S+)`", PAGE.read_text("utf-8"))
    assert len(texts) == len(names)
    return commands, dict(zip(names, texts, strict=True))


def copy_images(archive: Path, registry: str) -> None:
    """Copy the images of a release, as skopeo would."""
    layout = archive.parent / "images"
    with tarfile.open(archive) as file:
        file.extractall(layout, filter="data")
    known = Layout(layout)
    for _ in Registry(registry).push(known, known.images()):
        pass


def values(node: OnNode) -> JsonObject:
    """Of the reader's machine: no registry but its own, weights from its Hub, two cores."""
    hub = {"name": "HF_ENDPOINT", "value": node.platform.node.settings.hub}
    spec = {"env": [hub], "predictors": {"resources": SMALL}}
    return {**node_values(node.platform.node.settings, ""), "clusterRuntimeConfig": {"enabled": True, "spec": spec}}
