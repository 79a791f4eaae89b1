"""A folder with images in the form of the OCI image layout: what every builder can fill, and every registry takes.

A blob is a file that is named by its digest, so what images share is there once, as on a registry and on a node.
"""

import fcntl
import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from aim_packaging.tree import TIME
from controller_runtime import JsonObject

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_NAME: Final = "org.opencontainers.image.ref.name"
_CREATED: Final = "2025-01-01T00:00:00Z"
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A blob: its media type, its digest, its size in bytes."""

    media_type: str
    digest: str
    size: int

    @classmethod
    def of(cls, entry: JsonObject) -> Self:
        """That of an entry of a manifest or an index."""
        return cls(entry["mediaType"], entry["digest"], entry["size"])

    def entry(self) -> JsonObject:
        """As a manifest or an index has it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer, with the digest of its archive before compression."""

    blob: Descriptor
    diff_id: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a layout.

    Attributes:
        name: with host and tag, e.g. `docker.io/library/nats:2.12.2-alpine`.
        top: what the name stands for: the manifest, or an index with it as the only entry.
        manifest: for linux on this machine's architecture.
        config: its settings; their digest is the id of the image.
        layers: the lowest first.
    """

    name: str
    top: Descriptor
    manifest: Descriptor
    config: Descriptor
    layers: tuple[Descriptor, ...]

    @property
    def size(self) -> int:
        """Compressed bytes of all layers."""
        return sum(one.size for one in self.layers)


@dataclass(frozen=True, slots=True)
class File:
    """A file of a layer."""

    path: str
    content: bytes
    mode: int = 0o644


class MissingImageError(Exception):
    """The layout has no image of that name."""


class Layout:
    """A layout in a folder, which is made when something is put into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from changing it: they replace the list of images, and remove what none of them has."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def images(self) -> list[Image]:
        """All images, by name."""
        return [self._image(name, top) for name, top in sorted(self._names().items())]

    def image(self, name: str) -> Image:
        """One image.

        Raises:
            MissingImageError: there is none of that name.
        """
        top = self._names().get(name)
        if top is None:
            raise MissingImageError(f"image {name} missing in {self.folder}; run `make images`")
        return self._image(name, top)

    def blob(self, digest: str) -> Path:
        """The file of a blob."""
        algorithm, _, text = digest.partition(":")
        return self.folder / "blobs" / algorithm / text

    def document(self, digest: str) -> JsonObject:
        """A blob that is a JSON object."""
        found: JsonObject = json.loads(self.blob(digest).read_bytes())
        return found

    def layers_of(self, image: Image) -> tuple[Layer, ...]:
        """The layers of an image, to put further ones above."""
        ids = self.document(image.config.digest)["rootfs"]["diff_ids"]
        return tuple(Layer(blob, diff_id) for blob, diff_id in zip(image.layers, ids, strict=True))

    def put_layer(self, files: Iterable[File]) -> Layer:
        """Add a layer with these files; the same files give the same layer."""
        archive = _archive(files)
        packed = gzip.compress(archive, compresslevel=6, mtime=0)
        return Layer(self._put(LAYER, packed), f"sha256:{hashlib.sha256(archive).hexdigest()}")

    def put_image(
        self, name: str, layers: Iterable[Layer], settings: Mapping[str, object], *, as_index: bool = False
    ) -> Image:
        """Add an image of layers that are here, or replace that of the name.

        Args:
            settings: `Entrypoint`, `Env`, `Labels`, `User` and the like.
            as_index: let the name stand for an index with the image, as registries have it for several platforms.
        """
        taken = tuple(layers)
        document = {
            "architecture": architecture(),
            "os": "linux",
            "created": _CREATED,
            "config": dict(settings),
            "rootfs": {"type": "layers", "diff_ids": [one.diff_id for one in taken]},
            "history": [{"created": _CREATED, "created_by": "aim_packaging"} for _ in taken],
        }
        config = self._put(CONFIG, _encoded(document))
        blobs = tuple(one.blob for one in taken)
        return self.put_manifest(name, config, blobs, as_index=as_index)

    def put_manifest(
        self, name: str, config: Descriptor, layers: tuple[Descriptor, ...], *, as_index: bool = False
    ) -> Image:
        """Add an image whose blobs are here, or replace that of the name."""
        entries = [one.entry() for one in layers]
        document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config.entry(), "layers": entries}
        manifest = top = self._put(MANIFEST, _encoded(document))
        if as_index:
            entry = {**manifest.entry(), "platform": {"os": "linux", "architecture": architecture()}}
            top = self._put(INDEX, _encoded({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}))
        self._write_names({**self._names(), name: top})
        return Image(name, top, manifest, config, layers)

    def put_compressed(self, diff_id: str, archive: Path) -> Descriptor:
        """Add a layer that a builder gave uncompressed; one that was added before is not compressed again."""
        known = self.folder / "compressed" / diff_id.partition(":")[2]
        if known.is_file():
            found = known.read_text(encoding="utf-8").strip()
            if self.blob(found).is_file():
                return Descriptor(LAYER, found, self.blob(found).stat().st_size)
        digest = hashlib.sha256()
        with self._new_file() as target:
            with archive.open("rb") as source, gzip.GzipFile("", "wb", 6, target, mtime=0) as packed:
                while chunk := source.read(_CHUNK):
                    packed.write(chunk)
            target.seek(0)
            while chunk := target.read(_CHUNK):
                digest.update(chunk)
            size = target.tell()
        blob = Descriptor(LAYER, f"sha256:{digest.hexdigest()}", size)
        self._keep(Path(target.name), blob)
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(blob.digest, encoding="utf-8")
        return blob

    def put_blob(self, media_type: str, content: bytes) -> Descriptor:
        """Add a blob, or find it there."""
        return self._put(media_type, content)

    def prune(self) -> int:
        """Remove blobs that no image has any longer; returns their bytes."""
        used = {digest for image in self.images() for digest in _digests(image)}
        files = [one for one in self.folder.glob("blobs/*/*") if f"{one.parent.name}:{one.name}" not in used]
        freed = sum(one.stat().st_size for one in files)
        for one in files:
            one.unlink()
        return freed

    def _image(self, name: str, top: Descriptor) -> Image:
        document = self.document(top.digest)
        manifest = top
        if top.media_type == INDEX:
            manifest = Descriptor.of(document["manifests"][0])
            document = self.document(manifest.digest)
        layers = tuple(Descriptor.of(one) for one in document["layers"])
        return Image(name, top, manifest, Descriptor.of(document["config"]), layers)

    def _names(self) -> dict[str, Descriptor]:
        file = self.folder / "index.json"
        if not file.is_file():
            return {}
        entries = json.loads(file.read_bytes())["manifests"]
        named = ((one.get("annotations", {}).get(_NAME), one) for one in entries)
        return {name: Descriptor.of(one) for name, one in named if name}

    def _write_names(self, names: Mapping[str, Descriptor]) -> None:
        entries = [{**one.entry(), "annotations": {_NAME: name}} for name, one in sorted(names.items())]
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}', encoding="utf-8")
        place = self.folder / "index.json.new"
        place.write_bytes(_encoded({"schemaVersion": 2, "manifests": entries}))
        place.replace(self.folder / "index.json")

    def _put(self, media_type: str, content: bytes) -> Descriptor:
        blob = Descriptor(media_type, f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))
        if not self.blob(blob.digest).is_file():
            with self._new_file() as target:
                target.write(content)
            self._keep(Path(target.name), blob)
        return blob

    def _new_file(self) -> "tempfile._TemporaryFileWrapper[bytes]":
        folder = self.folder / "blobs/sha256"
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.NamedTemporaryFile(dir=folder, prefix=".new-", delete=False)

    def _keep(self, file: Path, blob: Descriptor) -> None:
        """Give a whole file its name: what an interruption leaves is never taken for a blob."""
        file.chmod(0o644)
        file.replace(self.blob(blob.digest))


def architecture() -> str:
    """This machine's, as images name it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def _digests(image: Image) -> Iterator[str]:
    yield from (image.top.digest, image.manifest.digest, image.config.digest)
    yield from (one.digest for one in image.layers)


def _archive(files: Iterable[File]) -> bytes:
    """A tar archive of files and the folders above them, which depends on nothing but them."""
    place = io.BytesIO()
    folders: set[str] = set()
    with tarfile.open(fileobj=place, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(files, key=lambda one: one.path):
            for above in reversed(Path(file.path).parents[:-1]):
                if str(above) not in folders:
                    folders.add(str(above))
                    archive.addfile(_entry(str(above), tarfile.DIRTYPE, 0o755))
            entry = _entry(file.path, tarfile.REGTYPE, file.mode)
            entry.size = len(file.content)
            archive.addfile(entry, io.BytesIO(file.content))
    return place.getvalue()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = kind, mode, TIME
    return entry


def _encoded(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
