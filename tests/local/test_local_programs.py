"""What a program of the stack promises when it is called ready."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from aiohttp import web
from support.controlplane import CRDS
from support.nats import eventually

from aim_local.stack import StackSettings
from aim_local.stack.programs import Addresses, Programs, embedded_kubeconfig
from controller_runtime.kube.config import from_kubeconfig


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


async def answer(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def test_the_control_plane_is_not_ready_without_its_kubeconfig(tmp_path: Path) -> None:
    programs = Programs(StackSettings(tmp_path, CRDS), Addresses.choose(()))
    answering = web.Application()
    answering.router.add_get("/readyz", answer)
    runner = web.AppRunner(answering)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", programs.addresses.control_plane).start()
        missing = await programs.control_plane().probe()
        embedded_kubeconfig(programs.settings).touch()

        assert missing == f"{tmp_path / 'kubeconfig'} is not written yet"
        assert await programs.control_plane().probe() == ""
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("name", ["model-sync", "discovery"])
def test_services_ask_the_registry_that_plays_docker_io_only_where_it_runs(tmp_path: Path, name: str) -> None:
    settings = StackSettings(tmp_path, CRDS)
    programs = Programs(settings, Addresses.choose(settings.services))
    beside = programs.service(name, tmp_path / "kubeconfig", with_registry=True).env
    without = programs.service(name, tmp_path / "kubeconfig", with_registry=False).env

    assert beside["AIM_DOCKER_REGISTRY_URL"] == Addresses.url(programs.addresses.registry)
    assert not any("REGISTRY" in variable or "HUB" in variable for variable in without if variable.startswith("AIM_"))


@pytest.mark.spec("FW-746")
def test_what_outlives_a_process_lies_in_the_folder_of_its_platform(tmp_path: Path) -> None:
    settings = StackSettings(tmp_path, CRDS)
    programs = Programs(settings, Addresses.choose(settings.services))
    made = [programs.service(name, tmp_path / "kubeconfig", with_registry=False) for name in settings.services]
    assert {program.env["AIM_WATCHDOG_FOLDER"] for program in made} == {str(tmp_path)}


async def test_a_kubeconfig_is_replaced_as_a_whole(tmp_path: Path) -> None:
    kubeconfig, opened_before = tmp_path / "kubeconfig", tmp_path / "opened-before"
    kubeconfig.write_text("an earlier one")
    os.link(kubeconfig, opened_before)
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "embedded_apiserver", "--kubeconfig", str(kubeconfig), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        async with asyncio.timeout(30):
            ready = (await server.stdout.readline()).decode()
        connection = await from_kubeconfig(str(kubeconfig))

        assert opened_before.read_text() == "an earlier one"
        assert connection.server in ready
        assert names(tmp_path) == ["kubeconfig", "opened-before"]
    finally:
        server.terminate()
        await server.wait()


_OWNER_OF_A_BROKER = """
import asyncio
from aim_local.nats import NatsServer

async def main():
    async with NatsServer() as server:
        print(server.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_broker_does_not_outlive_whoever_started_it_and_was_killed() -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _OWNER_OF_A_BROKER, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    async with asyncio.timeout(30):
        broker = int(await owner.stdout.readline())
    assert not has_ended(broker)
    owner.kill()
    await owner.wait()
    await eventually(lambda: has_ended(broker), "the broker ended")


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or at most a name in the table until somebody collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
