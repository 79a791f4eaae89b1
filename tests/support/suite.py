"""The API server that the conformance suite runs against: the embedded one, or a real kube-apiserver with etcd.

`AIM_TEST_APISERVER=real` chooses the real one. Either runs once per test process and is used through nothing but its
API; each test has a namespace of its own, which `$ns` stands for in paths and bodies.
"""

import base64
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import pytest
import pytest_asyncio
import yaml
from support.controlplane import CRDS, Kubectl, Ran, RawApi, kubectl_with

from aim_local.processes import dying_with_parent
from controller_runtime import JsonObject

VARIABLE: Final = "AIM_TEST_APISERVER"
"""Environment variable that chooses the server: `embedded` (default) or `real`."""
REAL: Final = os.environ.get(VARIABLE, "embedded") == "real"
_CONTROLLERS: Final = ("garbage-collector-controller", "namespace-controller")
"""What the embedded server does by itself, and no more: so nobody but the test acts on its objects."""
_START_SECONDS: Final = 120.0
_STOP_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running API server.

    Attributes:
        kubeconfig: how to reach it.
        etcd: URL of the etcd behind it; empty for the embedded server, which compacts by itself on request.
    """

    kubeconfig: Path
    etcd: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """What a kubeconfig says, as an HTTP client needs it."""

    url: str
    headers: Mapping[str, str]
    tls: ssl.SSLContext | None

    @classmethod
    def of(cls, kubeconfig: Path) -> "Access":
        """Read a kubeconfig with one cluster and one user (token, client certificate, or nobody)."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        headers = {"authorization": f"Bearer {user['token']}"} if "token" in user else {}
        tls = None
        if cluster["server"].startswith("https"):
            tls = ssl.create_default_context(cadata=_text(cluster, "certificate-authority"))
            certificate = _text(user, "client-certificate")
            if certificate:
                with _as_files(certificate, _text(user, "client-key")) as (certificate_file, key_file):
                    tls.load_cert_chain(certificate_file, key_file)
        return cls(cluster["server"], headers, tls)


def _text(section: Mapping[str, str], name: str) -> str:
    if f"{name}-data" in section:
        return base64.b64decode(section[f"{name}-data"]).decode()
    return Path(section[name]).read_text() if name in section else ""


@contextmanager
def _as_files(*texts: str) -> Iterator[list[Path]]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, str(number)) for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        yield paths


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server under test, for the whole session."""
    folder = tmp_path_factory.mktemp("apiserver")
    with _real(folder) if REAL else _embedded(folder) as running:
        yield running


@contextmanager
def _embedded(folder: Path) -> Iterator[Server]:
    kubeconfig = folder / "kubeconfig"
    command = ("embedded_apiserver", "--kubeconfig", str(kubeconfig), "--crds", str(CRDS))
    with _running(folder / "apiserver.log", sys.executable, "-m", *command) as output:
        output.until("ready: ")
        yield Server(kubeconfig)


@contextmanager
def _real(folder: Path) -> Iterator[Server]:
    command = ("aim_local.realcluster", "--folder", str(folder / "real"), "--controllers", ",".join(_CONTROLLERS))
    with _running(folder / "cluster.log", sys.executable, "-m", *command, "--no-scheduler", "--no-kserve") as output:
        reported = output.until("stop with")
        kubeconfig, etcd = re.search(r"KUBECONFIG=(\S+)", reported), re.search(r"etcd .*?(http\S+)", reported)
        assert kubeconfig is not None, reported
        assert etcd is not None, reported
        yield Server(Path(kubeconfig[1]), etcd[1])


@contextmanager
def _running(log: Path, *command: str) -> Iterator["_Output"]:
    # Into a file: a pipe that nobody reads after the start holds up who writes to it.
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=dying_with_parent(signal.SIGTERM),  # noqa: PLW1509 - it takes no locks
        )
    try:
        yield _Output(process, log)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True)
class _Output:
    """What a server says."""

    process: subprocess.Popen[bytes]
    log: Path

    def until(self, word: str) -> str:
        """All that it said up to a word; without that word the run of the tests ends with what it said instead."""
        end = time.monotonic() + _START_SECONDS
        while True:
            lives = self.process.poll() is None and time.monotonic() < end
            said = self.log.read_text()
            if word in said:
                return said
            if not lives:
                pytest.exit(f"the API server did not start: {said.strip() or 'it said nothing'}", returncode=1)
            time.sleep(0.02)


class SuiteApi(RawApi):
    """The server under test by plain HTTP; `$ns` stands for the test's own namespace, in what is sent and received."""

    def __init__(self, session: aiohttp.ClientSession, server: Server, namespace: str) -> None:
        super().__init__(session)
        self.namespace: Final = namespace
        self._server = server

    def path(self, path: str) -> str:
        """The path with the test's namespace put in."""
        return path.replace("$ns", self.namespace)

    def encode(self, body: object) -> bytes:
        """A body with the test's namespace put in."""
        return super().encode(body).replace(b"$ns", self.namespace.encode())

    def decode(self, raw: bytes) -> JsonObject:
        """A body with `$ns` instead of the test's namespace; what is no JSON is the message."""
        text = raw.replace(self.namespace.encode(), b"$ns")
        return super().decode(text) if text.startswith(b"{") else {"message": text.decode()}

    async def compact(self) -> None:
        """Make the server forget all versions before the present one, as etcd does every five minutes."""
        if not self._server.etcd:
            async with self.session.post("/debug/compact") as response:
                assert response.status == 200
            return
        revision = (await self.get("/api/v1/nodes")).body["metadata"]["resourceVersion"]
        url, body = f"{self._server.etcd}/v3/kv/compaction", {"revision": revision, "physical": True}
        async with aiohttp.ClientSession() as etcd, etcd.post(url, json=body) as response:
            assert response.status == 200, await response.text()


@pytest_asyncio.fixture
async def api(server: Server) -> AsyncIterator[SuiteApi]:
    """Plain HTTP access, and a fresh namespace."""
    access, namespace = Access.of(server.kubeconfig), f"t-{uuid.uuid4().hex[:10]}"
    connector = aiohttp.TCPConnector(ssl=access.tls) if access.tls else None
    async with aiohttp.ClientSession(
        access.url, connector=connector, headers=access.headers, read_bufsize=2**21
    ) as session:
        api = SuiteApi(session, server, namespace)
        await api.created("/api/v1/namespaces", {"metadata": {"name": namespace}})
        yield api
        await api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def kubectl(server: Server, api: SuiteApi, tmp_path: Path) -> Kubectl:
    """The real kubectl in the test's namespace."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = api.namespace
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    plain = kubectl_with(path)

    async def run(
        *arguments: str, stdin: str = "", check: bool = True, environment: Mapping[str, str] | None = None
    ) -> Ran:
        given = [argument.replace("$ns", api.namespace) for argument in arguments]
        ran = await plain(*given, stdin=stdin.replace("$ns", api.namespace), check=check, environment=environment)
        return Ran(ran.code, *(text.replace(api.namespace, "$ns") for text in (ran.out, ran.err)))

    return run
