"""A custom kind of the API suite with one field for each feature of a structural schema."""

from typing import Final

from support.controlplane import RawApi
from support.suite_widgets import define

from controller_runtime import JsonObject

SPECIMENS: Final = "/apis/specimen.example.com/v1/namespaces/$ns/specimens"

_STRING: Final[JsonObject] = {"type": "string"}
_CONDITIONS: Final[JsonObject] = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": _STRING,
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": _STRING,
        },
    },
}
_SPEC: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "number": {"type": "number", "minimum": 1, "maximum": 10, "exclusiveMaximum": True},
        "count": {"type": "integer", "format": "int32", "multipleOf": 2},
        "amount": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "maybe": {"type": "string", "nullable": True, "default": "here"},
        "plain": {"type": "string", "default": "there"},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "table": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
        "tags": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set", "maxItems": 3},
        "steps": {"type": "array", "items": _STRING},
        "unit": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": _STRING, "b": _STRING}},
        "nested": {"type": "object", "properties": {"inner": {"type": "string", "default": "deep"}}},
        "either": {
            "type": "object",
            "properties": {"one": _STRING, "two": _STRING},
            "oneOf": [{"required": ["one"]}, {"required": ["two"]}],
        },
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "growing": {
            "type": "integer",
            "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "must not shrink"}],
        },
        "link": {
            "type": "string",
            "maxLength": 100,
            "x-kubernetes-validations": [
                {"rule": "isURL(self) && url(self).getScheme() == 'https'", "message": "must be an https URL"}
            ],
        },
        "coded": {
            "type": "string",
            "maxLength": 20,
            "x-kubernetes-validations": [
                {
                    "rule": "self.startsWith('q')",
                    "reason": "FieldValueForbidden",
                }
            ],
        },
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.low) || !has(self.high) || self.low <= self.high", "message": "low must not exceed high"},
        {"rule": "!has(oldSelf.text) || has(self.text)", "message": "text can't be removed"},
    ],
}
_STATUS: Final[JsonObject] = {
    "type": "object",
    "default": {"origin": "definition"},
    "properties": {
        "origin": _STRING,
        "conditions": _CONDITIONS,
        "phase": _STRING,
        "observedGeneration": {"type": "integer"},
    },
}


def specimen(name: str, /, **spec: object) -> JsonObject:
    """A Specimen."""
    return {"apiVersion": "specimen.example.com/v1", "kind": "Specimen", "metadata": {"name": name}, "spec": spec}


def specimen_status(name: str, /, **status: object) -> JsonObject:
    """A Specimen as a manager of its status applies it."""
    return {"apiVersion": "specimen.example.com/v1", "kind": "Specimen", "metadata": {"name": name}, "status": status}


async def define_specimens(api: RawApi) -> None:
    """Install the kind, which all tests share."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"plural": "specimens", "kind": "Specimen"}
    spec = {"group": "specimen.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    await define(
        api,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "specimens.specimen.example.com"},
            "spec": spec,
        },
    )
