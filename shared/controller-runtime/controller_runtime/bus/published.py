"""The form in which an object goes over the bus, and in which every world holds it."""

from collections.abc import Collection
from typing import Any, Final

from controller_runtime.bus.part import FieldOwner, Part
from controller_runtime.json import JsonObject

_IDENTITY: Final[tuple[str, ...]] = ("apiVersion", "kind")
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation of client-side apply: a second copy of the whole object, of use to kubectl alone."""


def entries_of(owners: Collection[FieldOwner], obj: JsonObject) -> list[JsonObject]:
    """The entries of managedFields that are of one of these owners."""
    return [
        entry
        for entry in obj["metadata"].get("managedFields") or ()
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) in owners
    ]


def published_form(part: Part[Any], obj: JsonObject) -> JsonObject:
    """The object without managedFields and the last-applied annotation, trimmed as its part says.

    Of managedFields it keeps who of the part's predecessors is in them, so that the object shows that it is to be taken
    over (FW-209).

    Whatever way an object takes into a world (bus, API server, answer to an own write), it has this form there, with
    its members in the same order, so that equal versions are equal byte by byte. The given object is left as it is.
    """
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    if part.predecessors and (left := entries_of(part.predecessors, obj)):
        metadata["managedFields"] = [
            {name: entry[name] for name in FieldOwner._fields if name in entry} for entry in left
        ]
    annotations = metadata.get("annotations")
    if annotations and LAST_APPLIED in annotations:
        kept = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
        metadata.pop("annotations")
        if kept:
            metadata["annotations"] = kept
    # A list of a built-in kind does not say what its objects are, so the client does, behind everything else.
    identity = {name: obj[name] for name in _IDENTITY if name in obj}
    return part.trim({**identity, **obj, "metadata": metadata})
