"""The body that is sent for a child, and whether a write would change anything (FW-011, FW-013, FW-203, FW-409)."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from controller_runtime import annotation_keys, quantity
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.json import JsonObject, canonical
from controller_runtime.log.wire.part import Part
from controller_runtime.reconcile.plan import Child, WriteMode

_UNCOUNTED: Final = frozenset({annotation_keys.APPLIED_HASH, annotation_keys.TRACEPARENT})
"""Annotations that never make a difference (FW-205, FW-409)."""

_QUANTITY_MAPS: Final = frozenset({"requests", "limits", "capacity", "allocatable"})
_QUANTITY_MEMBERS: Final = frozenset({"storage", "size", "sizeLimit", "minVram", "divisor", "averageValue"})


def applied_hash(body: JsonObject) -> str:
    """Hash of which members a desired object has, without the hash and trace annotations; their values do not count.

    A changed value shows in the comparison. Were it in the hash, too, a change of scale would roll all pods of an
    InferenceService: KServe copies its annotations to them.
    """
    return hashlib.sha256(canonical(_members(_comparable(body)))).hexdigest()[:32]


def _members(value: object) -> object:
    """A value reduced to its structure; what is empty is as good as absent."""
    if isinstance(value, dict):
        members = {key: _members(member) for key, member in value.items() if member not in (None, {}, [])}
        return {key: member for key, member in members.items() if member != {}}
    return [_members(item) for item in value] if isinstance(value, list | tuple) else ""


def needs_apply(desired: JsonObject, live: JsonObject | None) -> bool:
    """Whether a child has to be applied (FW-409): absent, hash absent or different, or no longer a subset.

    Equality would differ for ever, because others add defaults; a subset alone misses members that were removed.
    """
    if live is None:
        return True
    stored_hash = (live["metadata"].get("annotations") or {}).get(annotation_keys.APPLIED_HASH)
    return stored_hash != applied_hash(desired) or not is_subset(_comparable(desired), live)


def _comparable(desired: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in desired["metadata"].items() if key != "annotations"}
    annotations = desired["metadata"].get("annotations") or {}
    metadata["annotations"] = {key: value for key, value in annotations.items() if key not in _UNCOUNTED}
    return {**desired, "metadata": metadata}


def is_subset(desired: object, live: object, path: tuple[str, ...] = ()) -> bool:
    """Maps by key, lists by index and equal length, owner references by UID, quantities by value (FW-409)."""
    if desired is None or (not desired and live is None and isinstance(desired, dict | list)):
        # Servers drop empty collections of built-in kinds; counting that as a difference would apply for ever.
        return True
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(
            is_subset(value, live.get(key), (*path, key)) for key, value in desired.items()
        )
    if isinstance(desired, list | tuple):
        return _is_list_subset(desired, live, path)
    return desired == live or (_is_quantity(path) and _same_quantity(desired, live))


FieldPath: TypeAlias = tuple[str | int, ...]
"""Members and indexes from the root of an object to one of its fields."""


def differing(desired: JsonObject, live: JsonObject) -> Iterator[tuple[FieldPath, object]]:
    """The fields for which `is_subset` fails, as deep as both sides have the same shape, with the desired value.

    Stamps that never make a difference are left out (FW-205).
    """
    yield from _differing(_comparable(desired), live, (), ())


def _differing(
    desired: object, live: object, at: FieldPath, path: tuple[str, ...]
) -> Iterator[tuple[FieldPath, object]]:
    if is_subset(desired, live, path):
        return
    if isinstance(desired, dict) and isinstance(live, dict):
        for name, value in desired.items():
            yield from _differing(value, live.get(name), (*at, name), (*path, name))
    elif isinstance(desired, list | tuple) and isinstance(live, list) and _is_by_index(desired, live, path):
        for index, (item, other) in enumerate(zip(desired, live, strict=True)):
            yield from _differing(item, other, (*at, index), path)
    else:
        yield at, desired


def _is_by_index(desired: Sequence[Any], live: Sequence[Any], path: tuple[str, ...]) -> bool:
    return len(desired) == len(live) and path != ("metadata", "ownerReferences")


def _is_list_subset(desired: Sequence[Any], live: object, path: tuple[str, ...]) -> bool:
    if not isinstance(live, list):
        return False
    if path == ("metadata", "ownerReferences"):
        by_uid = {reference["uid"]: reference for reference in live}
        return all(is_subset(reference, by_uid.get(reference["uid"])) for reference in desired)
    return len(desired) == len(live) and all(
        is_subset(item, other, path) for item, other in zip(desired, live, strict=True)
    )


def _is_quantity(path: tuple[str, ...]) -> bool:
    return bool(path) and (path[-1] in _QUANTITY_MEMBERS or (len(path) > 1 and path[-2] in _QUANTITY_MAPS))


def _same_quantity(one: object, other: object) -> bool:
    if not (isinstance(one, int | str) and isinstance(other, int | str)):
        return False
    left, right = quantity.parse_or_none(one), quantity.parse_or_none(other)
    return left is not None and right is not None and left.value == right.value


def same_status(desired: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """Whether two statuses mean the same: absent and null alike, conditions in any order (FW-011)."""
    # Nearly every pass changes nothing, and most statuses come out as they are stored, to the letter.
    return desired == stored or _status_form(desired) == _status_form(stored)


def _status_form(status: Mapping[str, Any]) -> bytes:
    conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
    return canonical(_plain({**status, "conditions": conditions}))


def _plain(value: object) -> object:
    if isinstance(value, dict):
        reduced = {key: _plain(member) for key, member in value.items()}
        return {key: member for key, member in reduced.items() if member not in (None, {}, [])}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class Target:
    """The reconciled object, as far as carrying out its plan needs it.

    Attributes:
        raw: its JSON as the pass saw it.
        traceparent: trace context of the pass, stamped on what it creates.
    """

    part: Part[Any]
    raw: JsonObject
    traceparent: str | None = None

    @property
    def namespace(self) -> str:
        return str(self.raw["metadata"].get("namespace") or "")

    @property
    def name(self) -> str:
        return str(self.raw["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.raw["metadata"]["uid"])

    @property
    def generation(self) -> int:
        return int(self.raw["metadata"].get("generation") or 0)


def with_owner(target: Target, child: Child) -> JsonObject:
    """The body with the controller reference of an owned child (FW-210).

    Raises:
        ValueError: the reference would reach out of its namespace (FW-212), which is a mistake of the reconciler.
    """
    if not child.owned:
        return child.body
    if target.part.kind.namespaced and (not child.part.kind.namespaced or child.namespace != target.namespace):
        raise ValueError(
            f"{target.part.kind.kind} {target.namespace}/{target.name} cannot own {child.part.kind.kind} "
            f"{child.namespace}/{child.name}: owners must be cluster-scoped or in the same namespace"
        )
    reference = {
        "apiVersion": target.part.kind.api_version,
        "kind": target.part.kind.kind,
        "name": target.name,
        "uid": target.uid,
        "controller": True,
    }
    metadata = child.body["metadata"]
    others = [owner for owner in metadata.get("ownerReferences") or () if owner["uid"] != target.uid]
    return {**child.body, "metadata": {**metadata, "ownerReferences": [*others, reference]}}


def to_create(body: JsonObject, traceparent: str | None, *, hashed: bool) -> JsonObject:
    """The object for a first write, with the trace context stamped and, if it is to be compared later, the hash."""
    stamps = {annotation_keys.TRACEPARENT: traceparent} if traceparent else {}
    return _annotated(body, {**stamps, **({annotation_keys.APPLIED_HASH: applied_hash(body)} if hashed else {})})


def to_update(body: JsonObject, live: JsonObject) -> JsonObject:
    """The object for a later apply: it keeps its trace context and names the UID, lest it be made again (FW-409)."""
    stored = (live["metadata"].get("annotations") or {}).get(annotation_keys.TRACEPARENT)
    stamps = {annotation_keys.TRACEPARENT: stored} if stored else {}
    stamped = _annotated(body, {**stamps, annotation_keys.APPLIED_HASH: applied_hash(body)})
    return {**stamped, "metadata": {**stamped["metadata"], "uid": live["metadata"]["uid"]}}


def _annotated(body: JsonObject, stamps: dict[str, str]) -> JsonObject:
    if not stamps:
        return body
    metadata = body["metadata"]
    return {**body, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **stamps}}}


def foreign_owner(target: Target, child: Child, live: JsonObject) -> ClassifiedError | None:
    """The error of an owned child whose name another object's child has already (FW-207)."""
    controller = _controller(live)
    if not child.owned or controller is None or controller["uid"] == target.uid:
        return None
    return ClassifiedError(
        Category.INVALID_SPEC,
        "AlreadyExists",
        f"{child.part.kind.kind} {child.namespace}/{child.name} exists already and is controlled by "
        f"{controller['kind']} {controller['name']}; rename or delete one of the two",
    )


def _controller(live: JsonObject) -> JsonObject | None:
    references: Iterable[JsonObject] = live["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def children_in_order(children: Iterable[Child]) -> list[Child]:
    """Children in the order of FW-204: by group, version and kind, then namespace, then name.

    The kinds come first because some children refer to others. Children that are only created keep the plan's order
    within their kind: what is created first may be a decision (MS-236).
    """
    return sorted(children, key=_rank)


def _rank(child: Child) -> tuple[str, bool, str, str]:
    kind = _kind_text(child.part)
    return (kind, True, "", "") if child.mode is WriteMode.CREATE else (kind, False, child.namespace, child.name)


def _kind_text(part: Part[Any]) -> str:
    return f"{part.kind.group}/{part.kind.version}, Kind={part.kind.kind}"


_REFERRERS: Final = {
    "ConfigMap": frozenset({"Job", "InferenceService"}),
    "PersistentVolumeClaim": frozenset({"Job"}),
}


def refers_to(child: Child, failed: Child) -> bool:
    """Whether the child is pointless without another one that failed (FW-204)."""
    if child.part.kind.kind not in _REFERRERS.get(failed.part.kind.kind, ()) or child.namespace != failed.namespace:
        return False
    return json.dumps(failed.name) in json.dumps(child.body)
