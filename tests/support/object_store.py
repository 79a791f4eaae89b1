"""A real S3 store: rclone, from the lock, over a folder."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aim_local.ports import HOST, free_port

BUCKET: Final = "models"
_KEYS: Final = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "of-the-test"}
_READY_SECONDS: Final = 60


@dataclass(frozen=True)
class ObjectStore:
    """A running store.

    Attributes:
        root: each folder is a bucket.
    """

    root: Path
    url: str

    @property
    def variables(self) -> dict[str, str]:
        """What a client needs."""
        return {**_KEYS, "AWS_ENDPOINT_URL": self.url}

    def put(self, key: str, content: bytes) -> None:
        """Store an object."""
        path = self.root / BUCKET / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@asynccontextmanager
async def object_store(root: Path, *options: str, host: str = HOST) -> AsyncIterator[ObjectStore]:
    """Serve the folders below ``root`` as buckets.

    Args:
        options: of ``rclone serve s3``, beside those for keys, address and configuration.
        host: address to listen on; the loopback unless pods are to reach it.
    """
    (root / BUCKET).mkdir(parents=True, exist_ok=True)
    address = f"{host}:{free_port()}"
    process = await asyncio.create_subprocess_exec(
        _rclone(),
        *("serve", "s3", "--config", "", "--cache-dir", str(root / ".cache"), "--dir-cache-time", "0"),
        *("--addr", address, "--auth-key", ",".join(_KEYS.values()), *options, str(root)),
        stderr=asyncio.subprocess.PIPE,
    )
    drained = asyncio.ensure_future(_ready(process))
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await drained
        rest = asyncio.ensure_future(_drain(process))
        yield ObjectStore(root, f"http://{address}")
        rest.cancel()
    finally:
        drained.cancel()
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _ready(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    said = b""
    while b"Starting s3 server" not in said:
        line = await process.stderr.readline()
        assert line, f"rclone ended: {said.decode()}"
        said += line


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    while await process.stderr.read(1 << 16):
        pass


def _rclone() -> str:
    found = shutil.which("rclone", path=str(Path(sys.executable).parent))
    assert found is not None, "rclone comes with requirements.lock: make setup"
    return found
