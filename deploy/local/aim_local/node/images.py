"""Images of single programs, made without a builder: an OCI archive is three JSON documents and a layer."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from aim_local.assets import Program as Asset
from controller_runtime import JsonObject

PAUSE_IMAGE: Final = "localhost/pause:1"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_NAMES: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
HELPER: Final = "localhost/helper:1"
"""A shell, for what provisioners do in a pod of their own."""
IMAGED: Final = (
    Asset.PAUSE,
    Asset.COREDNS,
    Asset.LOCAL_PATH,
    Asset.TRAEFIK,
    Asset.METRICS_SERVER,
    Asset.KSERVE,
    Asset.KEDA,
    Asset.KEDA_ADAPTER,
    Asset.OTEL_SCALER,
    Asset.OTEL_OPERATOR,
    Asset.OTEL_SIDECAR,
)
"""Programs that run in pods of the node."""


def image_of(asset: Asset) -> str:
    """Name of a program's image on the node."""
    return f"localhost/{asset}:1"


def write_image(file: Path, name: str, entrypoint: Iterable[str], contents: Mapping[str, Path]) -> None:
    """Write an archive that containerd imports.

    Args:
        file: where to.
        name: with a tag, as pods name it.
        entrypoint: what its containers run.
        contents: path in the image → file of this machine; a file that is executable stays so.
    """
    layer = _layer(contents)
    config = _encoded(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(entrypoint), "User": "65532:65532", "Env": ["PATH=/bin:/"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _encoded(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(config, _CONFIG),
            "layers": [_descriptor(layer, _LAYER)],
        }
    )
    listed = {**_descriptor(manifest, _MANIFEST), "annotations": dict.fromkeys(_NAMES, name)}
    index = _encoded({"schemaVersion": 2, "manifests": [listed]})
    members = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": index,
        **{f"blobs/sha256/{_digest(one).partition(':')[2]}": one for one in (layer, config, manifest)},
    }
    partial = file.with_suffix(".partial")
    with tarfile.open(partial, "w") as archive:
        for path, content in members.items():
            _add(archive, path, content, 0o644)
    partial.rename(file)


def _layer(contents: Mapping[str, Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for path, file in sorted(contents.items()):
            _add(layer, path.lstrip("/"), file.read_bytes(), 0o755 if file.stat().st_mode & 0o100 else 0o644)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, path: str, content: bytes, mode: int) -> None:
    # Owner and times are those of a new TarInfo: root, and none.
    info = tarfile.TarInfo(path)
    info.size = len(content)
    info.mode = mode
    archive.addfile(info, io.BytesIO(content))


def _descriptor(content: bytes, media_type: str) -> JsonObject:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _encoded(document: JsonObject) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
