"""The configuration of the bundled broker, as helm renders it, in a real nats-server."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import yaml
from support.helm import of_kind, rendered
from support.nats import PATIENT_SECONDS
from typer.testing import CliRunner

from aim_local.nats import nats_binary
from aim_local.ports import free_port
from aim_local.supervision.probes import nats_probe
from aim_local.supervision.process import Program, Supervised
from aim_packaging.__main__ import app
from aim_packaging.services import definitions
from controller_runtime import JsonObject
from controller_runtime.log.broker.connection import BusConnection, BusSettings, connect
from controller_runtime.log.broker.reading import stream_state
from controller_runtime.log.broker.streams import StreamLimits, ensure_streams
from controller_runtime.log.wire.subjects import Layout

GOVERNOR: Final = next(one.field_manager for one in definitions() if one.governs_streams)
USERS: Final = (GOVERNOR, *(one.field_manager for one in definitions() if not one.governs_streams), "aim")
HARD: Final = "a<b>c&d 'e' \"f\" ü"
"""Text that JSON encoders escape in several ways."""


async def configuration(folder: Path, nats: JsonObject) -> tuple[str, dict[str, Path]]:
    """The text of the ConfigMap, with paths and ports of this machine, and the file with the seed of each user."""
    done = CliRunner().invoke(app, ["nats-keys", str(folder / "keys")])
    assert done.exit_code == 0, done.output
    values = yaml.safe_load((folder / "keys" / "values.yaml").read_text())
    values["nats"] |= nats
    chart = await rendered(folder, values)
    text = of_kind(chart, "ConfigMap")["aim-engine-nats"]["data"]["nats.conf"]
    seeds = {}
    for secret in yaml.safe_load_all((folder / "keys" / "secrets.yaml").read_text()):
        name = secret["metadata"]["name"].removeprefix("aim-engine-nats-")
        seeds[name] = folder / f"{name}.nk"
        seeds[name].write_bytes(base64.b64decode(secret["data"]["user.nk"]))
    return text.replace('"/data"', f'"{folder / "data"}"'), seeds


@asynccontextmanager
async def serving(folder: Path, text: str) -> AsyncIterator[str]:
    """The URL of a server with that configuration."""
    port = free_port()
    config = folder / "nats.conf"
    config.write_text(text.replace("4222", str(port)).replace("8222", str(free_port())), encoding="utf-8")
    env = {**os.environ, "POD_NAME": "aim-engine-nats-0"}
    program = Program("nats", [str(nats_binary()), "-c", str(config)], env, nats_probe(port))
    server = Supervised(program, folder / "nats.log", start_timeout=PATIENT_SECONDS, stop_patience=PATIENT_SECONDS)
    await server.start()
    try:
        yield f"nats://127.0.0.1:{port}"
    finally:
        await server.stop()


@asynccontextmanager
async def logged_in(url: str, user: str, seed: Path) -> AsyncIterator[BusConnection]:
    async with connect(replace(BusSettings.of_urls(url, user, seed), request_timeout=PATIENT_SECONDS)) as bus:
        async with asyncio.timeout(PATIENT_SECONDS):
            await bus.wait_connected()
        yield bus


@pytest.mark.spec("FW-765")
async def test_each_user_of_the_rendered_configuration_logs_in(tmp_path: Path) -> None:
    text, seeds = await configuration(tmp_path, {})
    assert set(USERS) == set(seeds)
    async with serving(tmp_path, text) as url:
        for user in USERS:
            async with logged_in(url, user, seeds[user]) as bus:
                if user == GOVERNOR:
                    await ensure_streams(bus, Layout(), StreamLimits(history_bytes=1 << 20, decisions_bytes=1 << 20))
                assert (await stream_state(bus, Layout().state_stream)).messages == 0
                assert bus.statistics.denied is None


@pytest.mark.spec("FW-765")
@pytest.mark.parametrize(
    "nats",
    [
        {"auth": {"enabled": False}},
        {"jetstreamDomain": "hub"},
        {"root": "other"},
        {"config": {"client_advertise": HARD, "authorization": {"timeout": 2}}},
    ],
    ids=["no users", "domain", "root", "text with escapes"],
)
async def test_the_server_reads_every_form_of_the_configuration(tmp_path: Path, nats: JsonObject) -> None:
    text, _ = await configuration(tmp_path, nats)
    config = tmp_path / "nats.conf"
    config.write_text(text, encoding="utf-8")
    command = (str(nats_binary()), "-t", "-c", str(config))
    env = {**os.environ, "POD_NAME": "aim-engine-nats-0"}
    checked = await asyncio.create_subprocess_exec(
        *command, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await checked.communicate()
    assert checked.returncode == 0, output.decode()
