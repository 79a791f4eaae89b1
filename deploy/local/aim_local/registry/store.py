"""Content of the local registry: manifests, blobs and tags, addressed by digest like in any OCI registry."""

import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller_runtime import JsonObject, dumps

MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"
CONFIG_TYPE: Final = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE: Final = "application/vnd.oci.image.layer.v1.tar+gzip"

# Two zero blocks are an empty tar archive.
_EMPTY_TAR: Final = bytes(1024)
_LAYER: Final = gzip.compress(_EMPTY_TAR, mtime=0)
_CREATED: Final = "2025-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """A manifest's bytes as they are served, with their media type."""

    media_type: str
    body: bytes

    @property
    def digest(self) -> str:
        """`sha256:` digest of the bytes."""
        return digest_of(self.body)


@dataclass(frozen=True, slots=True)
class StoredImage:
    """Digests of an image that was put in."""

    digest: str
    """What the tag points to: the index, or the manifest."""
    manifest_digest: str
    config_digest: str


@dataclass(slots=True)
class _RepositoryContent:
    tags: dict[str, str] = field(default_factory=dict)
    manifests: dict[str, StoredManifest] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)


class ImageStore:
    """Repositories in memory. Names are paths such as `amdenterpriseai/aim-base`."""

    def __init__(self) -> None:
        self._repositories: dict[str, _RepositoryContent] = {}

    def put(
        self,
        repository: str,
        tag: str,
        *,
        labels: Mapping[str, str] | None = None,
        env: Sequence[str] = (),
        as_index: bool = True,
    ) -> StoredImage:
        """Make a linux/amd64 image and tag it; with `as_index` under an index that has an attestation child too."""
        config = self.put_blob(repository, dumps(_config(labels or {}, env)))
        layer = self.put_blob(repository, _LAYER)
        manifest = self.put_manifest(repository, MANIFEST_TYPE, dumps(self._manifest(repository, config, layer)))
        top = (
            self.put_manifest(repository, INDEX_TYPE, dumps(self._index(repository, manifest)))
            if as_index
            else manifest
        )
        self.tag(repository, tag, top)
        return StoredImage(top, manifest, config)

    def put_blob(self, repository: str, body: bytes) -> str:
        """Add a blob and return its digest."""
        digest = digest_of(body)
        self._content(repository).blobs[digest] = body
        return digest

    def put_manifest(self, repository: str, media_type: str, body: bytes) -> str:
        """Add a manifest of any content and return its digest."""
        manifest = StoredManifest(media_type, body)
        self._content(repository).manifests[manifest.digest] = manifest
        return manifest.digest

    def tag(self, repository: str, tag: str, digest: str) -> None:
        """Point a tag to a manifest."""
        self._content(repository).tags[tag] = digest

    def untag(self, repository: str, tag: str) -> None:
        """Remove a tag; its manifest stays reachable by digest."""
        del self._content(repository).tags[tag]

    def corrupt_blob(self, repository: str, digest: str, body: bytes) -> None:
        """Serve other bytes under a digest, as a broken proxy would."""
        self._content(repository).blobs[digest] = body

    def corrupt_manifest(self, repository: str, digest: str, body: bytes) -> None:
        """Serve other bytes under a manifest's digest."""
        content = self._content(repository)
        content.manifests[digest] = StoredManifest(content.manifests[digest].media_type, body)

    def repositories(self) -> list[str]:
        """Names in ascending order."""
        return sorted(self._repositories)

    def tags(self, repository: str) -> list[str] | None:
        """Tags in ascending order; None if there is no such repository."""
        content = self._repositories.get(repository)
        return None if content is None else sorted(content.tags)

    def manifest(self, repository: str, reference: str) -> tuple[str, StoredManifest] | None:
        """Digest and manifest of a tag or digest."""
        content = self._repositories.get(repository)
        if content is None:
            return None
        digest = content.tags.get(reference, reference)
        manifest = content.manifests.get(digest)
        return None if manifest is None else (digest, manifest)

    def blob(self, repository: str, digest: str) -> bytes | None:
        """Bytes of a blob."""
        content = self._repositories.get(repository)
        return None if content is None else content.blobs.get(digest)

    def _content(self, repository: str) -> _RepositoryContent:
        return self._repositories.setdefault(repository, _RepositoryContent())

    def _manifest(self, repository: str, config: str, layer: str) -> JsonObject:
        blobs = self._content(repository).blobs
        return {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": CONFIG_TYPE, "digest": config, "size": len(blobs[config])},
            "layers": [{"mediaType": LAYER_TYPE, "digest": layer, "size": len(blobs[layer])}],
        }

    def _index(self, repository: str, manifest: str) -> JsonObject:
        attestation = self.put_manifest(
            repository, MANIFEST_TYPE, dumps({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "layers": []})
        )
        return {
            "schemaVersion": 2,
            "mediaType": INDEX_TYPE,
            "manifests": [
                self._child(repository, attestation, "unknown", "unknown"),
                self._child(repository, manifest, "linux", "amd64"),
            ],
        }

    def _child(self, repository: str, digest: str, system: str, architecture: str) -> JsonObject:
        return {
            "mediaType": MANIFEST_TYPE,
            "digest": digest,
            "size": len(self._content(repository).manifests[digest].body),
            "platform": {"os": system, "architecture": architecture},
        }


def digest_of(body: bytes) -> str:
    """`sha256:` digest of some bytes."""
    return "sha256:" + hashlib.sha256(body).hexdigest()


def _config(labels: Mapping[str, str], env: Sequence[str]) -> JsonObject:
    return {
        "architecture": "amd64",
        "os": "linux",
        "created": _CREATED,
        "config": {"Env": list(env), "Labels": dict(labels), "Entrypoint": ["aim-runtime"]},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(_EMPTY_TAR)]},
        "history": [{"created": _CREATED, "created_by": "aim-local"}],
    }
