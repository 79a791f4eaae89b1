"""Takes over what another operator owned before: its fields become ours, so that an apply can drop them (FW-209).

An apply removes only what its own manager owned. Entries are handed over and never just deleted, because nobody can
drop what nobody owns. The order makes it safe against a kill: first the fields become ours, together with the loss of
the mark that a child is up to date; whoever comes next finds an object that has to be applied.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from controller_runtime import annotation_keys
from controller_runtime.bus.part import FieldOwner, Part
from controller_runtime.bus.published import entries_of
from controller_runtime.json import JsonObject
from controller_runtime.kube.client import KubeClient

STATUS: Final = "status"
"""The subresource that a status is written through."""
_ITSELF: Final = "."
"""The member of a field set that stands for the field which has the set."""


def is_left(part: Part[Any], obj: JsonObject, subresource: str = "") -> bool:
    """Whether a predecessor still owns fields that were written through this subresource."""
    left = entries_of(part.predecessors, obj) if part.predecessors else ()
    return any(entry.get("subresource", "") == subresource for entry in left)


def handed_over(
    managed: Sequence[JsonObject], predecessors: Collection[FieldOwner], manager: str, subresource: str = ""
) -> list[JsonObject] | None:
    """The managedFields with what predecessors own in the Apply entry of a manager; `None` if they own nothing."""
    ours = FieldOwner(manager, "Apply", subresource)
    old = [entry for entry in managed if _owner(entry) in predecessors and _owner(entry).subresource == subresource]
    if not old:
        return None
    own = [entry for entry in managed if _owner(entry) == ours]
    # An applier has one entry, of whatever version; its own is the one whose time and version are right.
    first, *rest = [*own, *old]
    fields = first.get("fieldsV1") or {}
    for entry in rest:
        fields = _union(fields, entry.get("fieldsV1") or {})
    entry = {**first, "manager": manager, "operation": "Apply", "fieldsV1": fields}
    return [*(one for one in managed if one not in own and one not in old), entry]


async def take_over(
    kube: KubeClient, part: Part[Any], obj: JsonObject, manager: str, subresource: str = ""
) -> JsonObject:
    """Make what predecessors own of an object a manager's; returns the object as it is then.

    Raises:
        KubeError: a conflict if the object has changed between the look and the write.
    """
    metadata = obj["metadata"]
    namespace = metadata.get("namespace") or None
    live = await kube.get(part.kind, metadata["name"], namespace)
    fields = handed_over(live["metadata"].get("managedFields") or (), part.predecessors, manager, subresource)
    if fields is None or live["metadata"]["uid"] != metadata["uid"]:
        return live
    hashed = annotation_keys.APPLIED_HASH in (live["metadata"].get("annotations") or {})
    unmarked = {"annotations": {annotation_keys.APPLIED_HASH: None}} if hashed and not subresource else {}
    # Through a subresource, the server would take no notice of managedFields.
    return await kube.merge_patch(
        part.kind,
        metadata["name"],
        namespace,
        {"metadata": {"managedFields": fields, **unmarked}},
        resource_version=live["metadata"]["resourceVersion"],
        field_manager=manager,
    )


def _owner(entry: JsonObject) -> FieldOwner:
    return FieldOwner(str(entry.get("manager")), str(entry.get("operation")), str(entry.get("subresource") or ""))


def _union(one: JsonObject, other: JsonObject) -> JsonObject:
    """Both field sets. An empty member is the field itself, and says so in a set that also has members of it."""
    merged = dict(one)
    for name, below in other.items():
        if name not in merged:
            merged[name] = below
        elif name != _ITSELF and merged[name] != below:
            merged[name] = _union(_spelled_out(merged[name]), _spelled_out(below))
    return merged


def _spelled_out(fields: JsonObject) -> JsonObject:
    return fields or {_ITSELF: {}}
