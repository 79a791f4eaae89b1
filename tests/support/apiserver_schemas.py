"""Schemas and objects for tests of the embedded API server's object machinery."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from controller_runtime import JsonObject
from embedded_apiserver.objects.schema import Schema

CRDS = Path(__file__).parents[2] / "deploy" / "crds"


@cache
def crd_schema(plural: str) -> JsonObject:
    """The openAPIV3Schema of one of the platform's CRDs."""
    crd: JsonObject = yaml.load((CRDS / f"{plural}.yaml").read_text(), Loader=yaml.CSafeLoader)
    schema: JsonObject = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def conditions_schema() -> JsonObject:
    """A list-map of conditions whose status is required."""
    text = {"type": "string"}
    item = {
        "type": "object",
        "required": ["type", "status"],
        "properties": {"type": text, "status": text, "reason": text, "message": text},
    }
    return {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }


@cache
def widget_schema() -> Schema:
    """A schema with every kind of list and map that ownership distinguishes."""
    text: dict[str, Any] = {"type": "string"}
    number: dict[str, Any] = {"type": "integer"}
    port = {
        "type": "object",
        "properties": {"port": number, "protocol": {**text, "default": "TCP"}, "name": text},
    }
    spec = {
        "type": "object",
        "properties": {
            "replicas": number,
            "color": text,
            "nested": {"type": "object", "properties": {"a": text, "b": text}},
            "data": {"type": "object", "additionalProperties": text},
            "selector": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
            "args": {"type": "array", "items": text},
            "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "ports": {
                "type": "array",
                "items": port,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
            },
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    status = {
        "type": "object",
        "properties": {"phase": {**text, "default": "Pending"}, "count": number, "conditions": conditions_schema()},
    }
    return Schema.compile({"type": "object", "properties": {"spec": spec, "status": status}})


def widget(**spec: Any) -> JsonObject:
    """A widget with this spec."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": spec,
    }


def widget_status(**status: Any) -> JsonObject:
    """A widget that says only its status."""
    return {**{key: value for key, value in widget().items() if key != "spec"}, "status": status}


def condition(kind: str, status: str = "True", **more: str) -> JsonObject:
    """A condition."""
    return {"type": kind, "status": status, **more}
