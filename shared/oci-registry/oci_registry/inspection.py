"""Reading an image's configuration: manifest, platform manifest, configuration blob (DI-083…DI-086).

What was read before is confirmed with one HEAD request, which Docker Hub does not count as a pull (MS-374).
"""

from typing import Final

from yarl import URL

from oci_registry.endpoints import Endpoint
from oci_registry.image_reference import ImageReference
from oci_registry.manifests import (
    ACCEPT,
    ImageConfig,
    config_digest,
    digest_of,
    parse_config,
    parse_object,
    platform_digest,
    verify_digest,
)
from oci_registry.session import Session
from oci_registry.traffic import Recent

CAPACITY: Final = 256
"""Configurations remembered per process, a few KiB each."""

_Key = tuple[Endpoint, ImageReference]


class InspectionMemory:
    """The configurations read last, least recently used out first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._known: Recent[_Key, ImageConfig] = Recent(capacity)

    async def inspect(self, session: Session, image: ImageReference) -> ImageConfig:
        """What `inspect` returns; the registry is asked in any case, so that access and existence are checked.

        Raises:
            RegistryError: as `inspect`.
        """
        key = (session.endpoint, image)
        known = self._known.find(key)
        if known is None or not await _still_means(session, image, known.digest):
            known = await inspect(session, image)
        self._known.keep(key, known)
        return known


async def _still_means(session: Session, image: ImageReference, digest: str) -> bool:
    # A registry that refuses HEAD, or does not name the digest, is asked for the whole manifest, which explains errors.
    url = await _manifest_url(session, image.repository.path, image.version)
    answer = await session.head(url, ACCEPT)
    return answer.status == 200 and answer.headers.get("Docker-Content-Digest") == digest


async def inspect(session: Session, image: ImageReference) -> ImageConfig:
    """Labels and environment of the linux/amd64 image that a reference means.

    Raises:
        RegistryError: `auth`, `not-found` or `generic` by its category.
    """
    repository = image.repository.path
    body = await _manifest(session, repository, image.version, verified=image.digest is not None)
    digest, what = digest_of(body), f"the manifest of {image}"
    manifest = parse_object(body, what)
    child = platform_digest(manifest, what)
    if child is not None:
        what = f"manifest {child} of {image}"
        manifest = parse_object(await _manifest(session, repository, child, verified=True), what)
    blob_digest = config_digest(manifest, what)
    blob = await _blob(session, repository, blob_digest)
    return parse_config(blob, digest=digest, config_digest=blob_digest, what=f"configuration {blob_digest} of {image}")


async def _manifest(session: Session, repository: str, version: str, *, verified: bool) -> bytes:
    url = await _manifest_url(session, repository, version)
    body = (await session.get(url, ACCEPT)).body
    if verified:
        verify_digest(body, version, f"the manifest of {repository}@{version} from {session.endpoint}")
    return body


async def _manifest_url(session: Session, repository: str, version: str) -> URL:
    return await session.url(session.endpoint.repository_path(repository, f"manifests/{version}"))


async def _blob(session: Session, repository: str, digest: str) -> bytes:
    url = await session.url(session.endpoint.repository_path(repository, f"blobs/{digest}"))
    body = (await session.get(url, "*/*")).body
    verify_digest(body, digest, f"blob {digest} of {repository} from {session.endpoint}")
    return body
