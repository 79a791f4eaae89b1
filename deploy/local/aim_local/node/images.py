"""Images of single programs, made without a builder: an OCI archive is three JSON documents and a layer.

`Runtime` brings them to the containerd of a node.
"""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from aim_local.assets import Program as Asset
from aim_local.assets import Toolset
from aim_local.node.requirements import NodeError, program
from aim_local.node.settings import NodeSettings
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


MANIFESTS: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""What a registry is asked for."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a node's containerd has."""

    settings: NodeSettings
    toolset: Toolset

    def import_images(self) -> None:
        """Bring images of single programs to it; those that it has stay."""
        folder = self.settings.folder / "images"
        folder.mkdir(parents=True, exist_ok=True)
        busybox = Path(program("busybox"))
        wanted = {image_of(one): (f"/{one}", {f"/{one}": self.toolset.program(one)}) for one in IMAGED}
        shells = {f"/bin/{name}": busybox for name in ("sh", "mkdir", "rm")}
        wanted[HELPER] = ("/bin/sh", shells)
        for name, (entrypoint, contents) in wanted.items():
            stamp = "\n".join(f"{path}={file.resolve()}:{file.stat().st_mtime_ns}" for path, file in contents.items())
            archive = folder / f"{name.partition('/')[2].partition(':')[0]}.tar"
            mark = archive.with_suffix(".imported")
            if not (mark.exists() and mark.read_text(encoding="utf-8") == stamp and self.settings.containerd.is_dir()):
                write_image(archive, name, (entrypoint,), contents)
                self.ctr("images", "import", str(archive))
                archive.unlink()
                mark.write_text(stamp, encoding="utf-8")

    def drop_replaced(self) -> Sequence[str]:
        """Remove images whose tag means another one in the node's registry by now; their names.

        No pod with `imagePullPolicy: IfNotPresent` would ever get the new one.
        """
        found = [line.split()[:3] for line in self.ctr("images", "ls").splitlines()[1:]]
        replaced = [
            name for name, _, digest in found if "@" not in name and self._in_registry(name) not in {"", digest}
        ]
        for name in replaced:
            self.ctr("images", "rm", name, missing=True)
        return replaced

    def _in_registry(self, name: str) -> str:
        """Digest that a name has in the registry; empty where it has none."""
        repository, _, tag = name.partition("/")[2].rpartition(":")
        url = f"http://{self.settings.registry}/v2/{repository}/manifests/{tag}"
        accepted = {"accept": ", ".join(MANIFESTS)}
        try:
            with urlopen(Request(url, method="HEAD", headers=accepted), timeout=10) as answer:
                return str(answer.headers.get("docker-content-digest", ""))
        except OSError:
            return ""

    def remove_containers(self) -> bool:
        """End and remove all containers; whether there were any."""
        for one in self.ctr("tasks", "ls", "-q").split():
            self.ctr("tasks", "rm", "-f", one, missing=True)
        found = self.ctr("containers", "ls", "-q").split()
        for one in found:
            self.ctr("containers", "rm", one, missing=True)
        return bool(found)

    def ctr(self, *arguments: str, missing: bool = False) -> str:
        """What ctr prints; ``missing`` says that what it acts on may be gone.

        Raises:
            NodeError: it fails.
        """
        command = (program("ctr"), "-a", str(self.settings.socket), "-n", "k8s.io", *arguments)
        ran = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
        if ran.returncode and not missing:
            raise NodeError(
                f"`{' '.join(command)}` failed: {ran.stderr.strip()}; "
                f"see {self.settings.logs}/{self.settings.program('containerd')}.log"
            )
        return ran.stdout


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
