"""Fixtures for tests that need the simulated cluster behind the embedded control plane."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest_asyncio
from support.controlplane import RawApi

from aim_local.actors import ActorSettings, SimulatedCluster
from aim_local.engine import Backends
from controller_runtime import JsonObject, KubeClient, load_connection
from embedded_apiserver import ControlPlane

NAMESPACE = "ml-team"
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


@asynccontextmanager
async def simulated_cluster(
    controlplane: ControlPlane, folder: Path, settings: ActorSettings | None = None
) -> AsyncIterator[Backends]:
    """Actors against the control plane; yields what the engine would answer from."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    backends = Backends()
    chosen = settings or ActorSettings(folder / "data", delay=0.005, retry_delay=0.05)
    async with (
        KubeClient(await load_connection(str(kubeconfig)), service="local-actors") as client,
        SimulatedCluster(client, chosen, backends).running(),
    ):
        yield backends


@pytest_asyncio.fixture
async def backends(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> AsyncIterator[Backends]:
    """Running actors with short delays, and a namespace for the test's objects."""
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    async with simulated_cluster(controlplane, tmp_path) as found:
        yield found


def path(collection: str, name: str = "") -> str:
    """Path in the test's namespace of a collection such as `batch/v1/jobs`, or of an object in it."""
    group, _, plural = collection.rpartition("/")
    root = "/api/v1" if group == "v1" else f"/apis/{group}"
    base = f"{root}/namespaces/{NAMESPACE}/{plural}"
    return f"{base}/{name}" if name else base


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A Job of the platform, in short."""

    name: str = "discover-qwen"
    image: str = IMAGE
    labels: tuple[tuple[str, str], ...] = (
        ("app.kubernetes.io/component", "discovery"),
        ("aim.eai.amd.com/template", "qwen"),
    )
    container: str = "discovery"
    fail: str = ""
    backoff_limit: int = 0

    env: tuple[tuple[str, str], ...] = ()
    args: tuple[str, ...] = ()

    def build(self, **spec: object) -> JsonObject:
        """The object."""
        annotations = {"local.aim/fail": self.fail} if self.fail else {}
        pod: JsonObject = {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": self.container,
                    "image": self.image,
                    "args": list(self.args),
                    "env": [{"name": name, "value": value} for name, value in self.env],
                }
            ],
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "namespace": NAMESPACE, "annotations": annotations},
            "spec": {
                "backoffLimit": self.backoff_limit,
                "template": {"metadata": {"labels": dict(self.labels)}, "spec": pod},
                **spec,
            },
        }


def inference_service(name: str = "qwen-chat", image: str = IMAGE, **predictor: object) -> JsonObject:
    """An InferenceService as serving builds it."""
    container = {
        "name": "kserve-container",
        "image": image,
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
    }
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"aim.eai.amd.com/service.name": name},
            "annotations": {"serving.kserve.io/autoscalerClass": "none"},
        },
        "spec": {"predictor": {"containers": [container], "minReplicas": 1, "maxReplicas": 1, **predictor}},
    }


def holds(obj: JsonObject, condition: str) -> bool:
    """Whether a condition is True."""
    status = obj.get("status")
    conditions = status.get("conditions") or () if isinstance(status, dict) else ()
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)
