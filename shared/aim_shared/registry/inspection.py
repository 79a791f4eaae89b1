"""Reading an image's configuration: manifest, platform manifest, configuration blob (DI-083…DI-086)."""

from aim_shared.registry.image_reference import ImageReference
from aim_shared.registry.manifests import (
    ACCEPT,
    ImageConfig,
    config_digest,
    digest_of,
    parse_config,
    parse_object,
    platform_digest,
    verify_digest,
)
from aim_shared.registry.session import Session


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
    url = await session.url(session.endpoint.repository_path(repository, f"manifests/{version}"))
    body = (await session.get(url, ACCEPT)).body
    if verified:
        verify_digest(body, version, f"the manifest of {repository}@{version} from {session.endpoint}")
    return body


async def _blob(session: Session, repository: str, digest: str) -> bytes:
    url = await session.url(session.endpoint.repository_path(repository, f"blobs/{digest}"))
    body = (await session.get(url, "*/*")).body
    verify_digest(body, digest, f"blob {digest} of {repository} from {session.endpoint}")
    return body
