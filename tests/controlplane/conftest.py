"""Fixtures of the API suite: the control plane, plain HTTP, kubectl, and a small custom kind."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from support.controlplane import RawApi, api, controlplane

from aim_local.apiserver import ControlPlane
from aim_shared.json import JsonObject

__all__ = ["api", "controlplane"]

WIDGETS = "/apis/test.example.com/v1/namespaces/default/widgets"


def widget_crd() -> JsonObject:
    """A custom kind with defaults, limits, rules, status, scale and printer columns."""
    spec = {
        "type": "object",
        "required": ["size"],
        "x-kubernetes-validations": [{"rule": "self.size != 13", "message": "13 is unlucky", "fieldPath": ".size"}],
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "colour": {"type": "string", "default": "red", "enum": ["red", "blue"]},
            "owner": {
                "type": "string",
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "owner is immutable"}],
            },
            "replicas": {"type": "integer"},
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                },
            },
        },
    }
    status = {
        "type": "object",
        "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}, "note": {"type": "string"}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        ],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
    }
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.test.example.com"},
        "spec": {"group": "test.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def widget(name: str, /, **spec: object) -> JsonObject:
    """A widget of size 3, unless said otherwise."""
    return {
        "apiVersion": "test.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 3} | spec,
    }


@pytest_asyncio.fixture
async def widgets(api: RawApi) -> RawApi:
    """The API with the widget kind."""
    await api.created("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_crd())
    return api


@dataclass(frozen=True, slots=True)
class Ran:
    """The end of a kubectl process."""

    code: int
    out: str
    err: str


Kubectl = Callable[..., Awaitable[Ran]]


@pytest.fixture
def kubectl(controlplane: ControlPlane, tmp_path: Path) -> Kubectl:
    """Runs the real kubectl against the control plane; skipped only where none is installed."""
    binary = shutil.which("kubectl")
    if binary is None:
        pytest.skip("no kubectl on this machine")
    config = tmp_path / "kubeconfig"
    config.write_text(controlplane.kubeconfig())

    async def run(*arguments: str, stdin: str = "", check: bool = True) -> Ran:
        process = await asyncio.create_subprocess_exec(
            binary, "--kubeconfig", str(config), "--cache-dir", str(tmp_path / "cache"), *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(30):
            out, err = await process.communicate(stdin.encode())
        assert process.returncode is not None
        ran = Ran(process.returncode, out.decode(), err.decode())
        assert not check or ran.code == 0, ran
        return ran

    return run
