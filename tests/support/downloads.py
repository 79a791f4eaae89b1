"""A Hugging Face Hub and an S3 store on local ports, and the downloader as a process."""

import asyncio
import hashlib
import json
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from aiohttp import web
from support.store_faults import Faults

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_INHERITED = ("PATH", "HOME", "PYTHONPATH", "LANG")


@dataclass
class FakeHub:
    """One repository, served as the Hub serves it.

    Attributes:
        files: contents by path; those in ``large`` are announced as LFS files.
        refusal: status, and X-Error-Code and X-Error-Message, of every answer instead.
        faults: what goes wrong with content, by path.
        downloads: paths whose content was asked for.
        storage: another host that large files are redirected to; what it serves is this repository's.
        tokens: what came as Authorization, by path.
        prefix: path in front of every path, as of a mirror that is not at the root of its host.
        page: files per page of the list; 0 = all on one.
        links: what stands in front of the path in links to the next page and to the route of Xet's tokens.
        xet: whether files are announced as stored in Xet.
    """

    repo: str = "org/model"
    files: dict[str, bytes] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)
    refusal: tuple[int, str] | None = None
    faults: Faults = field(default_factory=Faults)
    downloads: list[str] = field(default_factory=list)
    storage: "FakeHub | None" = None
    tokens: set[tuple[str, str | None]] = field(default_factory=set)
    prefix: str = ""
    page: int = 0
    links: str = ""
    xet: bool = False
    url: str = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.tokens.add((request.path, request.headers.get("Authorization")))
        if self.refusal is not None:
            status, code = self.refusal
            return web.json_response(
                {"error": code}, status=status, headers={"X-Error-Code": code, "X-Error-Message": code}
            )
        path = request.path.removeprefix(self.prefix) if request.path.startswith(f"{self.prefix}/") else ""
        api = f"/api/models/{self.repo}"
        if path == api or path.startswith(f"{api}/revision/"):
            return web.json_response({"id": self.repo, "sha": COMMIT, "siblings": []})
        if path == f"{api}/tree/{COMMIT}":
            return self._list(path, int(request.query.get("cursor", "0")))
        if "/xet-read-token/" in path:
            return web.json_response({"error": "no Xet here"}, status=400)
        prefix = f"/{self.repo}/resolve/{COMMIT}/"
        name = path.removeprefix(prefix)
        if path.startswith(prefix) and name in self.files:
            return await self._content(request, name)
        return web.json_response({"error": "none"}, status=404, headers={"X-Error-Code": "RepoNotFound"})

    def _list(self, path: str, first: int) -> web.Response:
        names = list(self.files)
        last = first + (self.page or len(names))
        more = {"Link": f'<{self.links}{path}?recursive=True&cursor={last}>; rel="next"'} if last < len(names) else {}
        return web.json_response([self._entry(name) for name in names[first:last]], headers=more)

    def _entry(self, name: str) -> dict[str, Any]:
        content = self.files[name]
        entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": _blob_id(content)}
        if name in self.large:
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 100}
        return entry

    async def _content(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        content = self.files[name]
        etag = hashlib.sha256(content).hexdigest() if name in self.large else _blob_id(content)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if self.xet:
            route = f"{self.links}/api/models/{self.repo}/xet-read-token/{COMMIT}"
            headers |= {"X-Xet-Hash": "ab" * 32, "X-Xet-Refresh-Route": route, "Link": f'<{route}>; rel="xet-auth"'}
        if self.storage is not None and name in self.large:
            linked = {"X-Linked-Etag": headers["ETag"], "X-Linked-Size": str(len(content))}
            return web.Response(
                status=302, headers={**headers, **linked, "Location": f"{self.storage.url}{request.path}"}
            )
        if request.method == "HEAD":
            return web.Response(headers={**headers, "Content-Length": str(len(content))})
        self.downloads.append(name)
        if status := await self.faults.status_of(name):
            return web.json_response({"error": "busy"}, status=status)
        return await self.faults.serve(request, name, content, headers)


def _blob_id(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


@dataclass
class FakeS3:
    """One bucket with path-style addressing.

    Attributes:
        error: status and S3 error code of every answer instead.
        of_content: status and S3 error code of every request for content.
        faults: what goes wrong with content, by key.
        listed: ETags that the listing tells instead, by key.
        etags: ETags that every answer tells instead, by key.
        stored: headers of what is stored beside the content, by key; checksums only for who asks for them.
        elsewhere: URL that every request for content is redirected to.
        authorizations: what came as Authorization.
        downloads: keys whose content was asked for.
    """

    bucket: str = "models"
    objects: dict[str, bytes] = field(default_factory=dict)
    error: tuple[int, str] | None = None
    of_content: tuple[int, str] | None = None
    faults: Faults = field(default_factory=Faults)
    listed: dict[str, str] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    stored: dict[str, dict[str, str]] = field(default_factory=dict)
    elsewhere: str = ""
    authorizations: set[str] = field(default_factory=set)
    downloads: list[str] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.authorizations.add(request.headers.get("Authorization", ""))
        if self.error is not None:
            return _s3_error(*self.error)
        bucket, _, key = request.path.lstrip("/").partition("/")
        if bucket != self.bucket:
            return _s3_error(404, "NoSuchBucket")
        if not key:
            return self._listing(request.query.get("prefix", ""))
        if key not in self.objects:
            return _s3_error(404, "NoSuchKey")
        if request.method == "HEAD":
            return self._head(request, key)
        return await self._content(request, key)

    def _head(self, request: web.BaseRequest, key: str) -> web.Response:
        asks = request.headers.get("x-amz-checksum-mode") == "ENABLED"
        stored = {name: text for name, text in self.stored.get(key, {}).items() if asks or "checksum" not in name}
        return web.Response(headers={**self._headers(key), **stored, "Content-Length": str(len(self.objects[key]))})

    async def _content(self, request: web.BaseRequest, key: str) -> web.StreamResponse:
        self.downloads.append(key)
        if self.elsewhere:
            return web.Response(status=307, headers={"Location": f"{self.elsewhere}{request.path}"})
        if self.of_content is not None:
            return _s3_error(*self.of_content)
        if status := await self.faults.status_of(key):
            return _s3_error(status, "Busy")
        return await self.faults.serve(request, key, self.objects[key], self._headers(key))

    def _headers(self, key: str) -> dict[str, str]:
        etag = self.etags.get(key) or _etag(self.objects[key])
        return {"ETag": etag, "Last-Modified": "Sat, 21 Nov 2026 12:00:00 GMT"}

    def _listing(self, prefix: str) -> web.Response:
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-21T12:00:00.000Z</LastModified>"
            f"<ETag>{escape(self.listed.get(key) or self._headers(key)['ETag'])}</ETag>"
            f"<Size>{len(content)}</Size></Contents>"
            for key, content in sorted(self.objects.items())
            if key.startswith(prefix)
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        return web.Response(body=body.encode(), content_type="application/xml")


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _s3_error(status: int, code: str) -> web.Response:
    body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return web.Response(body=body.encode(), status=status, content_type="application/xml")


@asynccontextmanager
async def serving(store: FakeHub | FakeS3, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    """Run a store on a free port, with TLS if there is a context for it."""
    runner = web.ServerRunner(web.Server(store.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    host, port = runner.addresses[0][:2]
    store.url = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield
    finally:
        await runner.cleanup()


@dataclass(frozen=True)
class Ended:
    """How a run of the program ended."""

    code: int
    out: str
    err: str
    termination: dict[str, Any]


@dataclass(frozen=True)
class Program:
    """The downloader as a process, with directories of its own."""

    directory: Path

    @property
    def target(self) -> Path:
        return self.directory / "target"

    async def start(self, module: str, uri: str, variables: Mapping[str, str | Path]) -> asyncio.subprocess.Process:
        """Start it; the caller waits for its end."""
        base = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        own = {
            "TARGET_DIR": self.target,
            "HF_HOME": self.directory / "hf",
            "AIM_TERMINATION_MESSAGE_PATH": self.directory / "termination",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }
        env = {name: str(value) for name, value in {**base, **own, **variables}.items()}
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            uri,
            env=env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def ended(self, process: asyncio.subprocess.Process) -> Ended:
        """Wait for the end."""
        try:
            async with asyncio.timeout(100):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
        message = self.directory / "termination"
        termination = json.loads(message.read_bytes()) if message.exists() else {}
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode(), termination)

    async def download(self, uri: str, **variables: str | Path) -> Ended:
        """Run a download to its end."""
        return await self.ended(await self.start("aim_artifacts.downloader", uri, variables))

    async def check_size(self, uri: str, **variables: str | Path) -> Ended:
        """Run a size discovery to its end."""
        return await self.ended(await self.start("aim_artifacts.downloader.check_size", uri, variables))

    def sizes(self, pattern: str) -> list[int]:
        """Bytes of each file below the target whose name is so; one that is renamed at this moment is left out."""
        found = []
        for path in self.target.rglob(pattern):
            with suppress(FileNotFoundError):
                found.append(path.stat().st_size)
        return found

    def files(self) -> dict[str, bytes]:
        """What arrived, without bookkeeping."""
        found = (path for path in self.target.rglob("*") if path.is_file())
        named = {path.relative_to(self.target).as_posix(): path.read_bytes() for path in found}
        return {name: content for name, content in named.items() if not name.startswith(".cache/")}


def kill_all(pid: int) -> None:
    """Kill a process and its descendants at once, as a node does that fails."""
    for one in family(pid):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for one in found:
        with suppress(OSError):
            for children in Path(f"/proc/{one}/task").glob("*/children"):
                found += [int(child) for child in children.read_text(encoding="ascii").split()]
    return found
