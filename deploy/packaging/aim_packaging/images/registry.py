"""Pushes images of a layout to a registry that speaks plain HTTP: one on this machine, or on a node's bridge."""

import http.client
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from aim_packaging.images.builders import ImagesError
from aim_packaging.images.layout import INDEX, MANIFEST, Descriptor, Image, Layout

_SECONDS: Final = 60.0
_ACCEPT: Final = f"{INDEX}, {MANIFEST}"
_REDIRECT_OR_WORSE: Final = 300


@dataclass(frozen=True, slots=True)
class Pushed:
    """What became of an image.

    Attributes:
        sent: bytes of blobs that were uploaded; None when the registry had the image already.
    """

    image: Image
    sent: int | None


@dataclass(slots=True)
class Registry:
    """A registry at `host:port`."""

    address: str
    _places: dict[str, str] = field(default_factory=dict)
    """Digest of a blob → a repository that has it, from where the registry takes it over without a transfer."""

    def push(self, layout: Layout, images: Iterable[Image]) -> Iterator[Pushed]:
        """Push images, and give each when it is there; only what is missing is sent.

        Raises:
            ImagesError: the registry cannot be reached, or refuses.
        """
        for image in images:
            repository, tag = path_of(image.name)
            if self._digest_of(repository, tag) == image.top.digest:
                self._places.update({one.digest: repository for one in (*image.layers, image.config)})
                yield Pushed(image, None)
                continue
            sent = sum(self._push_blob(layout, repository, blob) for blob in (*image.layers, image.config))
            if image.top != image.manifest:
                self._put_manifest(layout, repository, image.manifest.digest, image.manifest)
            self._put_manifest(layout, repository, tag, image.top)
            yield Pushed(image, sent)

    def _digest_of(self, repository: str, tag: str) -> str:
        """Of what a tag stands for; empty when there is no such tag."""
        status, headers = self._send("HEAD", f"/v2/{repository}/manifests/{tag}", headers={"Accept": _ACCEPT})
        return headers.get("Docker-Content-Digest") or "" if status == 200 else ""

    def _push_blob(self, layout: Layout, repository: str, blob: Descriptor) -> int:
        """Bring a blob into a repository; returns the bytes that were sent."""
        status, _ = self._send("HEAD", f"/v2/{repository}/blobs/{blob.digest}")
        source = self._places.setdefault(blob.digest, repository)
        if status == 200:
            return 0
        mount = "" if source == repository else "?" + urlencode({"mount": blob.digest, "from": source})
        status, headers = self._expect("POST", f"/v2/{repository}/blobs/uploads/{mount}")
        if status == 201:
            return 0
        target = urlsplit(headers["Location"])
        query = f"{target.query}&{urlencode({'digest': blob.digest})}".lstrip("&")
        file = layout.blob(blob.digest)
        self._expect("PUT", f"{target.path}?{query}", file, {"Content-Type": "application/octet-stream"})
        return blob.size

    def _put_manifest(self, layout: Layout, repository: str, reference: str, manifest: Descriptor) -> None:
        headers = {"Content-Type": manifest.media_type}
        self._expect("PUT", f"/v2/{repository}/manifests/{reference}", layout.blob(manifest.digest), headers)

    def _expect(
        self, method: str, path: str, body: Path | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, http.client.HTTPMessage]:
        status, found = self._send(method, path, body, headers)
        if status >= _REDIRECT_OR_WORSE:
            raise ImagesError(f"registry {self.address} refused {method} {path.partition('?')[0]}: status {status}")
        return status, found

    def _send(
        self, method: str, path: str, body: Path | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, http.client.HTTPMessage]:
        size = {"Content-Length": str(body.stat().st_size if body else 0)} if method in {"POST", "PUT"} else {}
        try:
            with closing(http.client.HTTPConnection(self.address, timeout=_SECONDS)) as connection:
                if body is None:
                    connection.request(method, path, headers={**size, **(headers or {})})
                else:
                    with body.open("rb") as content:
                        connection.request(method, path, content, {**size, **(headers or {})})
                answer = connection.getresponse()
                answer.read()
                return answer.status, answer.headers
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ImagesError(
                f"registry {self.address} not reachable by plain HTTP: {error}; check the address, or start it"
            ) from error


def path_of(name: str) -> tuple[str, str]:
    """Repository and tag of a name without its host: mirrors of a registry have its paths."""
    path, _, tag = name.rpartition(":")
    host, _, rest = path.partition("/")
    is_host = "." in host or ":" in host or host == "localhost"
    return (rest if is_host else path), tag
