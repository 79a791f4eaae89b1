"""A small kind and its entries, for tests of the cache and its feeds."""

from typing import Any

from controller_runtime import Index, JsonObject, Key, Kind, Part, Resource, label_index, owner_index
from controller_runtime.log.wire.version import Entry, Version

WIDGET = Kind("example.com", "v1", "Widget", "widgets", namespaced=True, model=Resource)


def widgets(name: str = "widgets") -> Part[Resource]:
    """A part of widgets; every call makes another part, as parts compare by identity."""
    return Part(name, WIDGET)


def widget(name: str, uid: str = "u1", rv: int = 1, *, namespace: str = "ns", **fields: Any) -> JsonObject:
    """The JSON of a widget; ``labels`` and ``owner`` go to its metadata, the rest beside it."""
    metadata: JsonObject = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(rv)}
    if labels := fields.pop("labels", None):
        metadata["labels"] = labels
    if owner := fields.pop("owner", None):
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Owner", "name": owner, "uid": owner}]
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, **fields}


def entry_of(
    part: Part[Resource], obj: JsonObject, sequence: int | None = None, epoch: str = "e1", store_id: str = ""
) -> Entry[Resource]:
    """An entry holding the object."""
    metadata = obj["metadata"]
    version = Version(metadata["uid"], metadata["resourceVersion"], sequence, epoch, store_id)
    return Entry.of(part, Key(metadata["namespace"], metadata["name"]), obj, version)


def colour_index(part: Part[Resource]) -> Index[Resource]:
    """By the label ``colour``."""
    return label_index(part, "colour")


def by_owner(part: Part[Resource]) -> Index[Resource]:
    """By owner UID."""
    return owner_index(part)
