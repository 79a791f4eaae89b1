"""`python -m aim_local demo` as a user runs it: what it prints, how it ends, and that nothing stays behind."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession
from support.controlplane import CRDS, eventually
from support.stack import CLUSTER, PATIENCE

from aim_local.stack import ClusterKind

pytestmark = pytest.mark.asyncio(loop_scope="session")


def processes_of(folder: Path) -> list[int]:
    """Live processes that carry the demo's folder in their command line or environment."""
    checkpoint = str(folder).encode()
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdecimal() or int(place.name) == os.getpid():
            continue
        try:
            if checkpoint in (place / "cmdline").read_bytes() + (place / "environ").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


def commands(folder: Path) -> dict[int, str]:
    """Command lines of the demo's processes."""
    found = {}
    for pid in processes_of(folder):
        with contextlib.suppress(OSError):
            found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return found


@asynccontextmanager
async def started(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Process]:
    """The demo as a process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aim_local", "demo", "--cluster", CLUSTER, "--folder", str(folder), *arguments,
        stdout=PIPE, stderr=STDOUT, env={**os.environ, **(env or {})},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def printed(process: Process, text: str) -> str:
    """What it printed up to the line that holds a text."""
    assert process.stdout is not None
    lines = []
    async with asyncio.timeout(60 * PATIENCE):
        while line := await process.stdout.readline():
            lines.append(line.decode())
            if text in lines[-1]:
                return "".join(lines)
    raise AssertionError(f"{text!r} never came:\n{''.join(lines)}")


async def all_gone(folder: Path) -> None:
    await eventually(lambda: not processes_of(folder))


def kill(folder: Path, program: str) -> None:
    """Kill the one process of the demo whose command line holds a text, as the kernel does when memory is short."""
    (pid,) = (pid for pid, command in commands(folder).items() if program in command)
    os.kill(pid, signal.SIGKILL)


async def test_it_answers_though_services_are_killed_stays_up_when_asked_to_and_ends_on_ctrl_c(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    async with started(folder, env={"KEEP": "1"}) as process, ClientSession() as http:
        await printed(process, "AIMService")
        kill(folder, "aim_serving")
        text = await printed(process, "Logs of all processes")
        kill(folder, "aim_routing")
        again = await printed(process, "routing is ready again")
        found = re.search(r"^  routing +(http://\S+)$", text, re.MULTILINE)
        assert found is not None, text
        async with http.get(f"{found[1]}/readyz") as answer:
            assert answer.status == 200

        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(30 * PATIENCE):
            await process.wait()

    kubeconfig = folder / ("cluster/kubeconfig" if CLUSTER is ClusterKind.REAL else "kubeconfig")
    assert "serving was killed by signal 9 (SIGKILL); starting it again" in text
    assert "serving is ready again" in text
    assert "You said: Hello, who are you?" in text
    assert "/demo/qwen-chat/v1/chat/completions" in text
    assert "From apply to Running:" in text
    assert "InferenceService" in text
    assert "aim timeline aimservice demo/qwen-chat --waterfall" in text
    assert "  AIMTemplateCache " in text
    assert f"export KUBECONFIG={kubeconfig}" in text
    assert "export AIM_NATS_URL=nats://127.0.0.1:" in text
    assert "export AIM_GATEWAY_URL=http://127.0.0.1:" in text
    assert "routing was killed by signal 9 (SIGKILL)" in again
    assert process.returncode == 0
    await all_gone(folder)


async def test_its_last_lines_tell_what_it_showed_and_where_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with started(folder) as process:
        assert process.stdout is not None
        async with asyncio.timeout(120 * PATIENCE):
            text = (await process.stdout.read()).decode()
            assert await process.wait() == 0, text
    first, second, third = text.splitlines()[-3:]
    assert re.fullmatch(
        r"AIMService demo/qwen-chat ran \d+\.\d s after kubectl apply, and its model answered through the gateway\.",
        first,
    )
    assert "KEEP=1 make demo" in second
    pages = re.findall(r"docs/\S+\.md", third)
    assert len(pages) == 2
    assert all((CRDS.parents[1] / page).is_file() for page in pages)
    await all_gone(folder)


async def test_the_end_of_the_api_server_ends_the_demo_only_where_the_objects_end_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with started(folder, "--keep") as process:
        await printed(process, "AIMService")
        if CLUSTER is ClusterKind.REAL:
            kill(folder, "kube-apiserver")
            text = await printed(process, "You said: Hello, who are you?")
            process.send_signal(signal.SIGINT)
        else:
            kill(folder, "embedded_apiserver")
            text = await printed(process, "The demo failed")
        async with asyncio.timeout(30 * PATIENCE):
            await process.wait()

    if CLUSTER is ClusterKind.REAL:
        assert process.returncode == 0
        assert "kube-apiserver was killed by signal 9 (SIGKILL); starting it again" in text
    else:
        assert process.returncode == 1
        assert "control-plane was killed by signal 9 (SIGKILL), and all objects are lost with it" in text
    await all_gone(folder)


async def test_it_ends_with_the_parent_that_it_was_given(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    script = f"{sys.executable} -m aim_local demo --keep --folder {folder} --parent $$; true"
    shell = await asyncio.create_subprocess_exec("sh", "-c", script, stdout=DEVNULL, stderr=DEVNULL)
    try:
        await eventually(lambda: any("nats-server" in command for command in commands(folder).values()), 60)
    finally:
        shell.kill()
        await shell.wait()

    await all_gone(folder)


@pytest.mark.parametrize(("wish", "folder"), [(["FOLDER=/tmp/of one"], ' --folder "/tmp/of one"'), ([], "")])
async def test_make_passes_its_own_life_and_the_folder(wish: list[str], folder: str) -> None:
    # Without make's own variables, which the suite has when make runs it, the output is that of a user.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "CLUSTER"))
    }
    make = await asyncio.create_subprocess_exec(
        "make", "--dry-run", "demo", *wish, cwd=CRDS.parents[1], env=environment, stdout=PIPE
    )
    out, _ = await make.communicate()

    assert (
        f"exec .venv/bin/python -m aim_local demo --parent $PPID --cluster embedded{folder}"
        in out.decode().splitlines()[-1]
    )


async def test_interrupted_while_starting_it_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with started(folder) as process:
        await eventually(lambda: any("nats-server" in command for command in commands(folder).values()), 60)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30 * PATIENCE):
            await process.wait()

    assert process.returncode == 130
    await all_gone(folder)
