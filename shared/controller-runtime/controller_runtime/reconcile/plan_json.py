"""A plan as canonical JSON, for the decision record and for comparing in a replay.

Equal plans give equal JSON: parts appear by name, children in the order in which they are written, absent members not
at all.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

from controller_runtime.errors import ClassifiedError
from controller_runtime.json import JsonObject, canonical
from controller_runtime.reconcile.child_body import in_order
from controller_runtime.reconcile.conditions import timestamp
from controller_runtime.reconcile.plan import Child, Delete, Effect, Event, Patch, Plan, Subject


def plan_to_json(plan: Plan) -> JsonObject:
    """The plan with sorted, complete and minimal content."""
    children = [*in_order(c for c in plan.children if c.owned), *in_order(c for c in plan.children if not c.owned)]
    return _compact(
        patches=[_patch(patch) for patch in plan.patches],
        deletes=[_delete(delete) for delete in plan.deletes],
        children=[_child(child) for child in children],
        status=plan.status,
        events=[_event(event) for event in plan.events],
        effects=[_effect(effect) for effect in plan.effects],
        requeueAfter=plan.requeue_after,
        retry=None if plan.retry is None else error_to_json(plan.retry),
        retryWithin=plan.retry_within,
    )


def error_to_json(error: ClassifiedError) -> JsonObject:
    """A classified error."""
    return {"category": error.category.value, "reason": error.reason, "message": error.message}


_DIGESTED_SINGLY: Final = 100
_NAMES: Final = ("part", "namespace", "name", "kind", "key", "reason")


def abridged(plan: JsonObject, members: Iterable[str]) -> JsonObject:
    """The plan with digests instead of the content of some members: equal plans still are equal, others are not.

    Args:
        plan: as `plan_to_json` makes it.
    """
    return {**plan, **{name: _digests(plan[name]) for name in members if name in plan}}


def _digests(member: object) -> object:
    if not isinstance(member, list) or len(member) > _DIGESTED_SINGLY:
        return {"digest": _digest(member)}
    return [{**_identity(item), "digest": _digest(item)} for item in member]


def _identity(item: JsonObject) -> JsonObject:
    metadata = (item.get("body") or {}).get("metadata") or {}
    return {name: value for name in _NAMES if (value := item.get(name, metadata.get(name)))}


def _digest(value: object) -> str:
    return hashlib.blake2b(canonical(value), digest_size=12).hexdigest()


def is_nothing(plan: Plan) -> bool:
    """Whether the plan asks for nothing at all, not even to look again."""
    return not plan_to_json(plan)


def _patch(patch: Patch) -> JsonObject:
    return _compact(
        part=patch.part.name,
        namespace=patch.namespace,
        name=patch.name,
        resourceVersion=patch.resource_version,
        body=patch.body,
        why=patch.why,
    )


def _delete(delete: Delete) -> JsonObject:
    return _compact(part=delete.part.name, namespace=delete.namespace, name=delete.name, uid=delete.uid, why=delete.why)


def _child(child: Child) -> JsonObject:
    members = {"part": child.part.name, "mode": child.mode.value, "owned": child.owned, "body": child.body}
    limits = [quota.most for quota in child.quotas]
    return {**members, "quota": limits[0] if len(limits) == 1 else limits} if limits else members


def _event(event: Event) -> JsonObject:
    return _compact(
        type=event.type.value,
        reason=event.reason,
        message=event.message,
        standing=event.standing or None,
        condition=event.condition,
        status=event.status,
        about=None if event.about is None else _subject(event.about),
        ofDeletes=event.of_deletes or None,
    )


def _subject(subject: Subject) -> JsonObject:
    return _compact(part=subject.part.name, namespace=subject.namespace, name=subject.name, uid=subject.uid)


def _effect(effect: Effect) -> JsonObject:
    return _compact(
        kind=effect.kind,
        key=effect.key,
        params=effect.params,
        notBefore=None if effect.not_before is None else timestamp(effect.not_before),
    )


def _compact(**members: object) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None and value not in ("", [], ())}
