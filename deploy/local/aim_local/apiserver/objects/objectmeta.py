"""The OpenAPI schema of `metav1.ObjectMeta` with its merge keys, as every kind carries it."""

from typing import Any, Final

from aim_shared.json import JsonObject

_STRING: Final = {"type": "string"}
_TIME: Final = {"type": "string", "format": "date-time", "nullable": True}
_STRING_MAP: Final = {"type": "object", "additionalProperties": {"type": "string"}}

_OWNER_REFERENCE: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "apiVersion": _STRING,
        "blockOwnerDeletion": {"type": "boolean"},
        "controller": {"type": "boolean"},
        "kind": _STRING,
        "name": _STRING,
        "uid": _STRING,
    },
    "x-kubernetes-map-type": "atomic",
}

_MANAGED_FIELDS_ENTRY: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "apiVersion": _STRING,
        "fieldsType": _STRING,
        "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "manager": _STRING,
        "operation": _STRING,
        "subresource": _STRING,
        "time": _TIME,
    },
}

_PROPERTIES: Final[dict[str, Any]] = {
    "annotations": _STRING_MAP,
    "creationTimestamp": _TIME,
    "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
    "deletionTimestamp": _TIME,
    "finalizers": {
        "type": "array",
        "items": _STRING,
        "x-kubernetes-list-type": "set",
        "x-kubernetes-patch-strategy": "merge",
    },
    "generateName": _STRING,
    "generation": {"type": "integer", "format": "int64"},
    "labels": _STRING_MAP,
    "managedFields": {"type": "array", "items": _MANAGED_FIELDS_ENTRY, "x-kubernetes-list-type": "atomic"},
    "name": _STRING,
    "namespace": _STRING,
    "ownerReferences": {
        "type": "array",
        "items": _OWNER_REFERENCE,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["uid"],
        "x-kubernetes-patch-merge-key": "uid",
        "x-kubernetes-patch-strategy": "merge",
    },
    "resourceVersion": _STRING,
    "selfLink": _STRING,
    "uid": _STRING,
}

OBJECT_META: Final[JsonObject] = {
    "type": "object",
    "properties": _PROPERTIES,
    "x-kubernetes-preserve-unknown-fields": False,
}
"""ObjectMeta: labels and annotations granular, finalizers a set, ownerReferences a map by uid."""
