"""What is sent for a child: the desired object completed with owner, hash and trace context (FW-203…FW-212, FW-409)."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from controller_runtime import annotation_keys
from controller_runtime.bus.part import Part
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.json import JsonObject
from controller_runtime.reconcile.difference import applied_hash
from controller_runtime.reconcile.plan import Child, WriteMode


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


def in_order(children: Iterable[Child]) -> list[Child]:
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
