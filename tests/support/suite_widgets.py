"""Two small custom kinds of the API suite: the Widget, which all tests share, and the Gadget, one for each test."""

from typing import Final

from support.controlplane import RawApi

from controller_runtime import JsonObject

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS: Final = "/apis/test.example.com/v1/namespaces/$ns/widgets"
GADGETS: Final = "/apis/$ns.example.com/v1/namespaces/$ns/gadgets"


def widget(name: str, /, **spec: object) -> JsonObject:
    """A valid Widget, with more in its spec."""
    return bare_widget(name, **{"size": 3} | spec)


def bare_widget(name: str, /, **spec: object) -> JsonObject:
    """A Widget with just this spec."""
    return {"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def gadget(name: str, /, **spec: object) -> JsonObject:
    """A valid Gadget, with more in its spec."""
    return widget(name, **spec) | {"apiVersion": "$ns.example.com/v1", "kind": "Gadget"}


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


async def define(api: RawApi, crd: JsonObject) -> None:
    """Create a definition, unless another test did, and wait until its objects are served."""
    reply = await api.post(DEFINITIONS, crd)
    assert reply.status in (201, 409), reply.body
    spec = crd["spec"]
    where = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    await api.until(where, lambda reply: reply.status == 200, seconds=20)
