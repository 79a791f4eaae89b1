"""A broker for tests, and names in it that no other test uses.

A folder's ``conftest.py`` brings the fixtures in: ``from support.nats import bus, layout, nats_server`` (in
``__all__``).
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from aim_local.nats import NatsServer, server_config
from aim_local.ports import HOST
from controller_runtime.log.broker.connection import BusConnection, BusSettings, connect
from controller_runtime.log.broker.streams import StreamLimits, ensure_streams
from controller_runtime.log.wire.subjects import Layout

TEST_LIMITS = StreamLimits(history_bytes=64 << 20, decisions_bytes=64 << 20)
"""A stream reserves its largest size, and a test session makes many."""


PATIENT_SECONDS = 10.0
"""How long tests wait for an answer of a broker that nobody kills; a loaded machine's disk may take a second."""


def new_layout() -> Layout:
    """Streams and subjects of one test; they are never deleted and made again under the same name."""
    return Layout(root=f"t{uuid.uuid4().hex[:10]}")


def room_for(size: str, store_dir: Path) -> str:
    """Configuration of a broker with a small disk (``2MB``)."""
    return f'jetstream {{ store_dir: "{store_dir}", sync_interval: always, max_file_store: {size} }}'


def settings_for(url: str, name: str = "test") -> BusSettings:
    """Connection settings for a test."""
    return BusSettings.of_urls(url, name)


def connected(url: str, name: str = "test") -> AbstractAsyncContextManager[BusConnection]:
    """A connection to a server."""
    return connect(settings_for(url, name))


def served_with_tls(folder: Path, trusted: Path) -> str:
    """The broker's settings for TLS.

    Args:
        folder: where its files go.
        trusted: where the authority's certificate goes.
    """
    authority, crt, key = trustme.CA(), folder / "tls.crt", folder / "tls.key"
    certificate = authority.issue_cert(HOST)
    authority.cert_pem.write_to_path(str(trusted))
    certificate.cert_chain_pems[0].write_to_path(str(crt))
    certificate.private_key_pem.write_to_path(str(key))
    return f'tls {{ cert_file: "{crt}", key_file: "{key}" }}'


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], what: str, within: float = 60.0, interval: float = 0.02
) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: it did not in time; ``what`` says what was waited for.
    """
    deadline = time.monotonic() + within
    while True:
        result = condition()
        if await result if isinstance(result, Awaitable) else result:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        await asyncio.sleep(interval)


def _docker_answers() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "info"], check=False, capture_output=True, timeout=10).returncode == 0


def _container() -> Iterator[str]:
    from testcontainers.nats import NatsContainer

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "nats.conf").write_text(server_config(Path("/data"), 4222, host="0.0.0.0"), encoding="utf-8")
        container = NatsContainer("nats:2.12").with_volume_mapping(folder, "/config")
        with container.with_command("-c /config/nats.conf") as running:
            yield running.nats_uri()


def _process() -> Iterator[str]:
    with asyncio.Runner() as runner:
        server = NatsServer()
        runner.run(server.__aenter__())
        try:
            yield server.url
        finally:
            runner.run(server.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def nats_server() -> Iterator[str]:
    """URL of a broker: ``NATS_URL``, else a container where a Docker daemon answers, else the wheel's server."""
    given = os.environ.get("NATS_URL")
    if given:
        yield given
    elif _docker_answers():
        yield from _container()
    else:
        yield from _process()


@pytest.fixture
def layout() -> Layout:
    """Names that only this test uses."""
    return new_layout()


@pytest.fixture
async def bus(nats_server: str, layout: Layout) -> AsyncIterator[BusConnection]:
    """A connection with all streams made."""
    async with connect(replace(settings_for(nats_server), request_timeout=PATIENT_SECONDS)) as connection:
        async with asyncio.timeout(PATIENT_SECONDS):
            await connection.wait_connected()
        await ensure_streams(connection, layout, TEST_LIMITS)
        yield connection
