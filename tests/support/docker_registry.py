"""Debian's `docker-registry` (the distribution registry) as a process: where to get it, how to run and fill it.

    python -m support.docker_registry      # prints the path of the program, or one line why there is none

Nothing is installed: without the program on the PATH its package is downloaded and unpacked in a cache folder.
"""

import http.client
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from support import debian
from support.debian import UnavailableError

from aim_local.ports import HOST, free_port
from aim_local.processes import dying_with_parent
from aim_local.registry import ImageStore
from aim_local.registry.store import StoredManifest, digest_of
from controller_runtime import JsonObject, dumps, loads

PACKAGE: Final = "docker-registry"
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 10.0
_UPLOAD: Final = "application/octet-stream"


def obtain() -> Path:
    """The program, from the PATH, the cache folder, or the package index of this Debian.

    Raises:
        UnavailableError: with the reason in one line.
    """
    return debian.obtain(PACKAGE)


class DockerRegistry:
    """A running registry.

    Attributes:
        host: `127.0.0.1:<port>`.
    """

    def __init__(self, host: str) -> None:
        self.host = host

    def push(
        self, repository: str, tag: str, labels: Mapping[str, str], *, authorization: str = "", as_index: bool = True
    ) -> str:
        """Push an AIM-like image the way `docker push` does; returns the digest of what the tag means."""
        store = ImageStore()
        image = store.put(repository, tag, labels=labels, env=["AIM_MODEL=x"], as_index=False)
        found = store.manifest(repository, image.digest)
        assert found is not None
        manifest = found[1]
        document = loads(manifest.body)
        for descriptor in (document["config"], *document["layers"]):
            body = store.blob(repository, descriptor["digest"])
            assert body is not None
            self._push_blob(repository, body, authorization)
        self._push_manifest(repository, manifest.digest if as_index else tag, manifest, authorization)
        if not as_index:
            return manifest.digest
        index = _index_of(manifest)
        self._push_manifest(repository, tag, index, authorization)
        return index.digest

    def _push_blob(self, repository: str, body: bytes, authorization: str) -> None:
        path = f"/v2/{repository}/blobs/uploads/"
        location = self._send("POST", path, b"", authorization, {"Content-Length": "0"})["Location"]
        target = urlsplit(location)
        query = f"{target.query}&digest={digest_of(body)}"
        self._send("PUT", f"{target.path}?{query}", body, authorization, {"Content-Type": _UPLOAD})

    def _push_manifest(self, repository: str, reference: str, manifest: StoredManifest, authorization: str) -> None:
        headers = {"Content-Type": manifest.media_type}
        self._send("PUT", f"/v2/{repository}/manifests/{reference}", manifest.body, authorization, headers)

    def _send(
        self, method: str, path: str, body: bytes, authorization: str, headers: Mapping[str, str]
    ) -> Mapping[str, str]:
        own = {"Authorization": authorization} if authorization else {}
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            connection.request(method, path, body, {**headers, **own})
            answer = connection.getresponse()
            said = answer.read()
            assert answer.status < 300, f"{method} {path}: {answer.status} {said[:300]!r}"
            return dict(answer.getheaders())
        finally:
            connection.close()


def _index_of(manifest: StoredManifest) -> StoredManifest:
    media_type = "application/vnd.oci.image.index.v1+json"
    child = {
        "mediaType": manifest.media_type,
        "digest": manifest.digest,
        "size": len(manifest.body),
        "platform": {"os": "linux", "architecture": "amd64"},
    }
    return StoredManifest(media_type, dumps({"schemaVersion": 2, "mediaType": media_type, "manifests": [child]}))


@contextmanager
def running(program: Path, folder: Path, **sections: JsonObject) -> Iterator[DockerRegistry]:
    """A registry on a free port, with its content in memory; sections are added to its configuration."""
    host = f"{HOST}:{free_port()}"
    configuration: JsonObject = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"inmemory": {}},
        "http": {"addr": host, "secret": "of-a-test"},
        **sections,
    }
    file = folder / "registry.yml"
    # JSON is YAML.
    file.write_bytes(dumps(configuration))
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", str(file)],
            stdout=log,
            stderr=log,
            preexec_fn=dying_with_parent(signal.SIGTERM),  # noqa: PLW1509 - it takes no locks
        )
        try:
            _wait(process, host, folder / "registry.log")
            yield DockerRegistry(host)
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], host: str, log: Path) -> None:
    name, _, port = host.partition(":")
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((name, int(port)), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"docker-registry does not listen on {host}: {log.read_text()[-2000:]}")


def main() -> int:
    """Print the path of the program; 1 and one line when it cannot be had."""
    try:
        print(f"docker-registry: {obtain()}")
    except UnavailableError as error:
        print(f"docker-registry cannot be had: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
