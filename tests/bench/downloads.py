"""How fast the downloader is, what memory it takes, and what a killed one has to do again.

PYTHONPATH=tests .venv/bin/python -m bench.downloads [MIB]         # about a minute with 2048, the default

A Hub and an S3 store of this process serve files that are made up while they are sent. Each client downloads the same
eight files; throughput counts from the first byte that is asked for to the last one that is sent, so neither start-up
nor verification, which the others do not do.
"""

import asyncio
import hashlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiohttp import web
from bench.usage import MIB
from rich.console import Console
from rich.table import Table
from support.downloads import COMMIT, FakeHub, FakeS3, family, kill_all, serving

_FILES: Final = 8
_BLOCK: Final = bytes(range(256)) * 4096
"""One MiB that compresses badly enough; files are this over and over."""
_REPO: Final = "org/model"
_KILLED_AT: Final = 0.9
_LOOK: Final = 0.05


@dataclass
class Clock:
    """When content was first asked for, when the last of it was sent, and how much."""

    first: float = 0.0
    last: float = 0.0
    sent: int = 0

    def begin(self) -> None:
        self.first = self.first or time.monotonic()

    def add(self, count: int) -> None:
        self.sent += count
        self.last = time.monotonic()

    @property
    def rate(self) -> float:
        """MiB per second."""
        return self.sent / MIB / max(self.last - self.first, 1e-9)


async def _stream(request: web.BaseRequest, mib: int, headers: Mapping[str, str], clock: Clock) -> web.StreamResponse:
    size = mib * MIB
    start, stop = request.http_range.start or 0, min(request.http_range.stop or size, size)
    ranged = "Range" in request.headers
    answer = web.StreamResponse(status=206 if ranged else 200, headers={**headers, "Content-Length": str(stop - start)})
    if ranged:
        answer.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    clock.begin()
    await answer.prepare(request)
    with suppress(ConnectionError):
        while start < stop:
            block = _BLOCK[start % MIB :][: stop - start]
            await answer.write(block)
            start += len(block)
            clock.add(len(block))
    return answer


@dataclass
class LargeHub(FakeHub):
    """Files of that many MiB by name, made up as they are sent."""

    mib: dict[str, int] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)

    def _entry(self, name: str) -> dict[str, object]:
        size, digest = self.mib[name] * MIB, digest_of(self.mib[name])
        lfs = {"oid": digest, "size": size, "pointerSize": 100}
        return {"type": "file", "path": name, "size": size, "oid": "0" * 40, "lfs": lfs}

    async def _content(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        size = self.mib[name] * MIB
        headers = {"ETag": f'"{digest_of(self.mib[name])}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if request.method == "HEAD":
            return web.Response(headers={**headers, "Content-Length": str(size)})
        self.faults.asked.set()
        return await _stream(request, self.mib[name], headers, self.clock)


_DIGESTS: dict[int, str] = {}


def digest_of(mib: int) -> str:
    """SHA-256 of a file of that size."""
    if mib not in _DIGESTS:
        digest = hashlib.sha256()
        for _ in range(mib):
            digest.update(_BLOCK)
        _DIGESTS[mib] = digest.hexdigest()
    return _DIGESTS[mib]


@dataclass
class LargeS3(FakeS3):
    """The same from a bucket; ETags are no checksums, so that sizes are verified."""

    mib: dict[str, int] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        key = request.path.lstrip("/").partition("/")[2]
        if not key:
            entries = "".join(
                f"<Contents><Key>{name}</Key><LastModified>2026-11-21T12:00:00.000Z</LastModified>"
                f'<ETag>"{name}-1"</ETag><Size>{mib * MIB}</Size></Contents>'
                for name, mib in self.mib.items()
                if name.startswith(request.query.get("prefix", ""))
            )
            body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
            return web.Response(body=body.encode(), content_type="application/xml")
        headers = {"ETag": f'"{key}-1"', "Last-Modified": "Sat, 21 Nov 2026 12:00:00 GMT"}
        if request.method == "HEAD":
            return web.Response(headers={**headers, "Content-Length": str(self.mib[key] * MIB)})
        self.faults.asked.set()
        return await _stream(request, self.mib[key], headers, self.clock)


@dataclass(frozen=True)
class Figure:
    """One download."""

    what: str
    rate: float
    seconds: float
    sent: int
    memory: float


class Contest:
    """The clients, one after the other."""

    def __init__(self, folder: Path, mib: int) -> None:
        self.folder = folder
        self._mib = mib // _FILES
        self.figures: list[Figure] = []

    @property
    def names(self) -> list[str]:
        return [f"part-{number}.safetensors" for number in range(_FILES)]

    @asynccontextmanager
    async def hub(self) -> AsyncIterator[LargeHub]:
        sizes = dict.fromkeys(self.names, self._mib)
        hub = LargeHub(files=dict.fromkeys(self.names, b""), mib=sizes)
        async with serving(hub):
            yield hub

    @asynccontextmanager
    async def bucket(self) -> AsyncIterator[LargeS3]:
        bucket = LargeS3(mib={f"models/{name}": self._mib for name in self.names})
        async with serving(bucket):
            yield bucket

    def ours(self, uri: str, target: str, **more: str) -> tuple[list[str], dict[str, str]]:
        folder = self.folder / target
        own = {
            "TARGET_DIR": str(folder),
            "HF_HOME": str(self.folder / "hf"),
            "AIM_TERMINATION_MESSAGE_PATH": str(self.folder / "termination"),
        }
        return [sys.executable, "-m", "aim_artifacts.downloader", uri], {**own, **more}

    async def run(self, what: str, clock: Clock, command: list[str], env: Mapping[str, str], *, until: int = 0) -> None:
        """Start a client and follow it; with ``until``, kill all of it once so many bytes were sent."""
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **env}, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        memory, ended = 0.0, asyncio.ensure_future(process.wait())
        while not ended.done():
            await asyncio.wait({ended}, timeout=_LOOK)
            memory = max(memory, sum(map(_resident, family(process.pid))))
            if until and clock.sent >= until:
                kill_all(process.pid)
        code = await ended
        assert code == (-signal.SIGKILL if until else 0), f"{what} ended with {code}"
        self.figures.append(Figure(what, clock.rate, time.monotonic() - began, clock.sent, memory))

    @property
    def late(self) -> int:
        """Bytes after which a client is killed."""
        return int(self._mib * _FILES * MIB * _KILLED_AT)

    def clear(self, target: str) -> None:
        shutil.rmtree(self.folder / target, ignore_errors=True)


def _resident(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGESIZE") / MIB


async def compete(folder: Path, mib: int) -> list[Figure]:
    """All clients, and then ours killed and started again."""
    contest = Contest(folder, mib)
    async with contest.hub() as hub:
        urls = [f"{hub.url}/{_REPO}/resolve/{COMMIT}/{name}" for name in contest.names]
        await _plain(contest, "Hub", urls, hub)
        client = str(Path(sys.executable).with_name("hf"))
        hub.clock = Clock()
        downloaded = [client, "download", _REPO, "--local-dir", str(folder / "theirs")]
        env = {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "hf-theirs"), "HF_HUB_DISABLE_XET": "1"}
        await contest.run("Hub: hf download", hub.clock, downloaded, env)
        contest.clear("theirs")
        hub.clock = Clock()
        command, own = contest.ours(f"hf://{_REPO}", "ours", HF_ENDPOINT=hub.url, AIM_DOWNLOADER_PROTOCOL="HTTP")
        await contest.run("Hub: downloader", hub.clock, command, own)
        contest.clear("ours")
        await _killed(contest, "Hub", hub, command, own)
    async with contest.bucket() as bucket:
        await _plain(contest, "S3", [f"{bucket.url}/models/models/{name}" for name in contest.names], bucket)
        keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": bucket.url}
        await _amazon(contest, "S3", bucket, keys)
        command, own = contest.ours("s3://models/models", "ours", **keys)
        bucket.clock = Clock()
        await contest.run("S3: downloader", bucket.clock, command, own)
        contest.clear("ours")
        await _killed(contest, "S3", bucket, command, own)
    return contest.figures


async def _amazon(contest: Contest, source: str, bucket: LargeS3, env: Mapping[str, str]) -> None:
    """Amazon's own client, where there is one; the lock cannot hold it, as it asks for a client library of its own."""
    aws = shutil.which("aws")
    if aws is None:
        return
    bucket.clock = Clock()
    command = [aws, "s3", "cp", "--recursive", "--only-show-errors", "s3://models/models", str(contest.folder / "aws")]
    await contest.run(f"{source}: aws s3 cp", bucket.clock, command, {**env, "AWS_REGION": "us-east-1"})
    contest.clear("aws")


async def _plain(contest: Contest, source: str, urls: list[str], store: LargeHub | LargeS3) -> None:
    curl = shutil.which("curl")
    if curl is None:
        return
    store.clock = Clock()
    target = contest.folder / "plain"
    target.mkdir()
    parts = [item for url in urls for item in ("-o", str(target / url.rpartition("/")[2]), url)]
    await contest.run(f"{source}: curl", store.clock, [curl, "-sS", "--parallel", *parts], {})
    contest.clear("plain")


async def _killed(
    contest: Contest, source: str, store: LargeHub | LargeS3, command: list[str], env: Mapping[str, str]
) -> None:
    store.clock = Clock()
    await contest.run(f"{source}: killed at 90 %", store.clock, command, env, until=contest.late)
    store.clock = Clock()
    await contest.run(f"{source}: and started again", store.clock, command, env)
    contest.clear("ours")


def main() -> None:
    """Print the figures."""
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
    with tempfile.TemporaryDirectory(prefix="aim-downloads-") as folder:
        figures = asyncio.run(compete(Path(folder), mib))
    table = Table("what", "MiB/s", "seconds in all", "MiB sent", "most memory, MiB")
    for one in figures:
        sent = f"{one.sent / MIB:.0f}"
        table.add_row(one.what, f"{one.rate:.0f}", f"{one.seconds:.1f}", sent, f"{one.memory:.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
