"""`python -m aim_local demo` as a user runs it: what it prints, how it ends, and that nothing stays behind."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from support.controlplane import eventually


def processes_of(folder: Path) -> list[int]:
    """Live processes that carry the demo's folder in their command line or environment."""
    marker = str(folder).encode()
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdecimal() or int(place.name) == os.getpid():
            continue
        try:
            if marker in (place / "cmdline").read_bytes() + (place / "environ").read_bytes():
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
        sys.executable, "-m", "aim_local", "demo", "--folder", str(folder), *arguments,
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
    async with asyncio.timeout(60):
        while line := await process.stdout.readline():
            lines.append(line.decode())
            if text in lines[-1]:
                return "".join(lines)
    raise AssertionError(f"{text!r} never came:\n{''.join(lines)}")


async def all_gone(folder: Path) -> None:
    await eventually(lambda: not processes_of(folder), 10)


async def test_the_demo_ends_with_an_answer_and_its_figures(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with started(folder) as process:
        out, _ = await process.communicate()
    text = out.decode()

    assert process.returncode == 0, text
    assert "You said: Hello, who are you?" in text
    assert "/demo/qwen-chat/v1/chat/completions" in text
    assert "From apply to Running:" in text
    assert "InferenceService" in text
    await all_gone(folder)


async def test_kept_up_it_invites_and_ends_on_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with started(folder, env={"KEEP": "1"}) as process:
        text = await printed(process, "Logs of all processes")
        assert f"export KUBECONFIG={folder / 'kubeconfig'}" in text

        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(30):
            await process.wait()

    assert process.returncode == 0
    await all_gone(folder)


async def test_without_enough_time_it_says_what_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with started(folder, "--timeout", "0.3") as process:
        out, _ = await process.communicate()
    text = out.decode()

    assert process.returncode == 1
    assert "The demo failed: AIMService demo/qwen-chat is" in text
    await all_gone(folder)


async def test_a_process_that_dies_ends_the_demo_with_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with started(folder, "--keep") as process:
        await printed(process, "AIMService")
        (serving,) = (pid for pid, command in commands(folder).items() if "aim_serving" in command)
        os.kill(serving, signal.SIGKILL)
        text = await printed(process, "The demo failed")
        async with asyncio.timeout(30):
            await process.wait()

    assert process.returncode == 1
    assert "serving ended by itself" in text
    await all_gone(folder)


async def test_kept_up_it_starts_again_what_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with started(folder, "--keep") as process:
        await printed(process, "Logs of all processes")
        (routing,) = (pid for pid, command in commands(folder).items() if "aim_routing" in command)
        os.kill(routing, signal.SIGKILL)
        await printed(process, "routing is ready again")
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(30):
            await process.wait()

    await all_gone(folder)


async def test_nothing_survives_a_killed_demo(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with started(folder, "--keep") as process:
        await printed(process, "Running")
        process.kill()
        await process.wait()

    await all_gone(folder)


async def test_interrupted_while_starting_it_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    async with started(folder) as process:
        await eventually(lambda: any("nats-server" in command for command in commands(folder).values()), 20)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            await process.wait()

    assert process.returncode == 130
    await all_gone(folder)
