"""Fixtures of the API suite: the control plane, plain HTTP, kubectl, and a small custom kind."""

from collections.abc import AsyncIterator

import pytest_asyncio
from support.suite import SuiteApi, api, kubectl, server

from aim_shared.json import JsonObject

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
__all__ = ["api", "kubectl", "server"]


def gadget_crd() -> JsonObject:
    """The widget's definition as `gadgets` in a group of the test's own."""
    crd = widget_crd()
    crd["metadata"]["name"] = "gadgets.$ns.example.com"
    crd["spec"] |= {"group": "$ns.example.com", "names": {"plural": "gadgets", "kind": "Gadget"}}
    return crd


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
async def widgets(api: SuiteApi) -> SuiteApi:
    """The API with the widget kind, which all tests share."""
    await define(api, widget_crd())
    return api


@pytest_asyncio.fixture
async def gadgets(api: SuiteApi) -> AsyncIterator[SuiteApi]:
    """The API with a kind of the test's own, so that its definition can be changed: the widget under other names."""
    crd = gadget_crd()
    await define(api, crd)
    yield api
    await api.delete(f"{DEFINITIONS}/{crd['metadata']['name']}")


async def define(api: SuiteApi, crd: JsonObject) -> None:
    """Create a definition, unless another test did, and wait until its objects are served."""
    reply = await api.post(DEFINITIONS, crd)
    assert reply.status in (201, 409), reply.body
    spec = crd["spec"]
    where = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    await api.until(where, lambda reply: reply.status == 200, seconds=20)
