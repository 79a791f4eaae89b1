"""A stack starts as real processes, says what went wrong, and leaves nothing behind."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from support.controlplane import CRDS, definitions, eventually

from aim_local.stack import Stack, StackError, StackSettings
from embedded_apiserver import ControlPlane

INFRASTRUCTURE = ("control-plane", "nats", "registry", "actors", "gateway")


def settings(folder: Path, *services: str) -> StackSettings:
    return StackSettings(folder=folder, crds=CRDS, services=services)


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def is_closed(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) != 0


async def none_left(pids: Iterable[int]) -> None:
    await eventually(lambda: not any(lives(pid) for pid in pids), 60)


async def test_everything_answers_and_ends_with_the_context(tmp_path: Path) -> None:
    async with Stack(settings(tmp_path / "run")) as stack, aiohttp.ClientSession() as http:
        pids = [one.pid for one in stack.processes]
        urls = [stack.api_url, stack.gateway_url, stack.registry_url, stack.nats_url]
        async with http.get(f"{stack.api_url}/api/v1/nodes") as answer:
            nodes = await answer.json()
        async with http.get(f"{stack.gateway_url}/x") as answer:
            assert answer.status == 404
        report = await stack.cluster.requests()
        memory = [one.resident_bytes for one in stack.processes]

    assert [one.name for one in stack.processes] == list(INFRASTRUCTURE)
    assert len(nodes["items"]) == 1
    assert report["total"] > 0
    assert all(amount and amount > 1_000_000 for amount in memory)
    assert not any(lives(pid) for pid in pids)
    assert all(is_closed(url) for url in urls)


@pytest.mark.parametrize(("actors", "names"), [(None, ["nats"]), ("hpa", ["nats", "registry", "actors", "gateway"])])
async def test_in_a_cluster_of_others_registry_and_gateway_come_with_the_parts_that_are_played(
    tmp_path: Path, actors: str | None, names: list[str]
) -> None:
    plane, kubeconfig = ControlPlane(), tmp_path / "given"
    plane.install_crds(definitions())
    async with plane:
        kubeconfig.write_text(plane.kubeconfig())
        async with Stack(replace(settings(tmp_path / "run"), cluster=kubeconfig, actors=actors)) as stack:
            started = [one.name for one in stack.processes]

    assert started == names


async def test_a_process_that_ended_is_reported_and_can_be_started_again(tmp_path: Path) -> None:
    async with Stack(settings(tmp_path / "run")) as stack, aiohttp.ClientSession() as http:
        registry = stack["registry"]
        assert registry.ending == ""
        first = registry.pid
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(60):
            await registry.wait_ended()
        assert registry.ending == "was killed by signal 9 (SIGKILL)"
        assert "registry with" in str(registry.failure(registry.ending))
        await registry.restart()
        async with http.get(f"{stack.registry_url}/v2/") as answer:
            assert answer.status == 200
        assert registry.pid != first

        with pytest.raises(StackError, match=f"process {os.getpid()} works in .* with `kill {os.getpid()}`.*FOLDER="):
            async with Stack(settings(tmp_path / "run")):
                pass
        assert stack["nats"].running


async def test_a_service_that_does_not_start_is_named_with_its_log(tmp_path: Path) -> None:
    broken = replace(settings(tmp_path / "run", "routing"), service_env={"routing": {"AIM_LOG_LEVEL": "loud"}})
    stack = Stack(broken)

    with pytest.raises(StackError, match=r"(?s)routing exited with code 2 before it was ready.*AIM_LOG_LEVEL"):
        async with stack:
            pass

    assert not any(one.running for one in stack.processes)
    assert is_closed(stack.api_url)


async def test_an_unknown_service_starts_nothing(tmp_path: Path) -> None:
    stack = Stack(settings(tmp_path / "run", "cooking"))

    with pytest.raises(StackError, match="cooking is not a service"):
        async with stack:
            pass

    assert stack.processes == ()


async def test_what_can_not_be_is_reported_before_anything_starts(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    for wrong, words in (
        (settings(taken), f"the folder {taken} cannot be used"),
        (replace(settings(tmp_path / "run"), actors="cooks"), "'cooks' is none"),
    ):
        stack = Stack(wrong)
        with pytest.raises(StackError, match=words):
            async with stack:
                pass
        assert stack.processes == ()


SCRIPT = """
import asyncio, signal, sys
from pathlib import Path
from aim_local.stack import Stack, StackSettings

async def main():
    async with Stack(StackSettings(folder=Path(sys.argv[1]), crds=Path(sys.argv[2]), services=())) as stack:
        print(*(one.pid for one in stack.processes), flush=True)
        await asyncio.sleep(60)

# A shell's background job, such as a test run may be, ignores SIGINT, and so would whatever it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.run(main())
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
async def test_nothing_survives_the_end_of_its_owner(tmp_path: Path, how: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRIPT, str(tmp_path / "run"), str(CRDS),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            pids = [int(word) for word in (await process.stdout.readline()).split()]
        assert len(pids) == len(INFRASTRUCTURE)

        process.send_signal(how)
        async with asyncio.timeout(60):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

    await none_left(pids)
