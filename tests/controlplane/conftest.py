"""Fixtures of the API suite: the control plane, plain HTTP, kubectl, and a small custom kind."""

import pytest_asyncio
from support.controlplane import RawApi, api, controlplane, kubectl

from aim_shared.json import JsonObject

__all__ = ["api", "controlplane", "kubectl"]


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


@pytest_asyncio.fixture
async def widgets(api: RawApi) -> RawApi:
    """The API with the widget kind."""
    await api.created("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_crd())
    return api
