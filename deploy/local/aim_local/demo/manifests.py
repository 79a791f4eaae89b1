"""The demo's manifests, read from YAML and applied as kubectl does."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from aim_domain import labels
from aim_domain.kinds import GATEWAY, kind_of
from controller_runtime import JsonObject, KubeClient
from controller_runtime.bus.trace import new_traceparent
from controller_runtime.kube.kinds import ResourceKind
from controller_runtime.telemetry import tracing

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
"""The folder of example manifests; those whose names begin with a digit make up the demo."""
_MANAGER: Final = "kubectl"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to apply."""

    kind: ResourceKind
    body: JsonObject

    def __str__(self) -> str:
        metadata = self.body["metadata"]
        where = f"{metadata['namespace']}/" if "namespace" in metadata else ""
        return f"{self.kind.kind} {where}{metadata['name']}"


def read_manifests(files: Sequence[Path]) -> list[Manifest]:
    """All objects of the files, in order.

    Raises:
        ValueError: an object's kind is not one that the demo can apply.
    """
    return [_manifest(file, body) for file in files for body in yaml.safe_load_all(file.read_text("utf-8")) if body]


def demo_files(folder: Path = EXAMPLES) -> list[Path]:
    """The manifests of the demo, in the order of their names."""
    return sorted(folder.glob("[0-9]*.yaml"))


async def apply_all(client: KubeClient, manifests: Sequence[Manifest]) -> str:
    """Apply the objects one after the other, all in one trace; returns its id.

    Without the annotation each object begins a trace of its own.
    """
    traceparent, began = new_traceparent(), time.time()
    for manifest in manifests:
        await client.apply(manifest.kind, _in_trace(manifest.body, traceparent), _MANAGER)
    tracing.root("kubectl apply", traceparent, began, {"aim.objects": [str(manifest) for manifest in manifests]})
    return traceparent.split("-")[1]


def _in_trace(body: JsonObject, traceparent: str) -> JsonObject:
    metadata = body["metadata"]
    annotations = {labels.ANNOTATION_TRACEPARENT: traceparent, **metadata.get("annotations", {})}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def _manifest(file: Path, body: JsonObject) -> Manifest:
    if (body["apiVersion"], body["kind"]) == (GATEWAY.api_version, GATEWAY.kind):
        return Manifest(GATEWAY, body)
    kind = kind_of(body["apiVersion"], body["kind"])
    if kind is None:
        raise ValueError(f"{file}: {body['apiVersion']} {body['kind']} can't be applied here; use kubectl")
    return Manifest(kind, body)
