"""What a Deployment needs next, from it, its ReplicaSets and the clock. Pure functions."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_local.actors.deployment_status import status_of
from aim_local.actors.objects import annotations_of, controlled_by, short_hash
from aim_local.actors.replica_set_decision import HASH_LABEL, available_in, replicas_of
from controller_runtime import JsonObject

REVISION: Final = "deployment.kubernetes.io/revision"
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
_MOST: Final = "deployment.kubernetes.io/max-replicas"
_DEFAULT_HISTORY: Final = 10
_RECREATE: Final = "Recreate"
_HASH_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class DeploymentStep:
    """The next step.

    Attributes:
        create: the ReplicaSet to make.
        scale: ReplicaSets with the replicas they should have.
        delete: ReplicaSets that history has no room for.
        status: the status to write; None if it is right already.
        again: seconds until the rollout may have taken too long.
    """

    create: JsonObject | None = None
    scale: tuple[tuple[JsonObject, int], ...] = ()
    delete: tuple[JsonObject, ...] = ()
    status: JsonObject | None = None
    again: float | None = None


@dataclass(frozen=True, slots=True)
class _Bounds:
    wanted: int
    surge: int
    unavailable: int


def next_step(deployment: JsonObject, replica_sets: Sequence[JsonObject], now: datetime) -> DeploymentStep:
    """Decide as the rolling update does: up within the surge, down as far as enough pods stay available."""
    bounds, new_name = _bounds(deployment), replica_set_name(deployment)
    new = next((one for one in replica_sets if one["metadata"]["name"] == new_name), None)
    old = [one for one in replica_sets if one is not new]
    if new is None:
        return _with_new(deployment, old, bounds, now)
    scale = _up(deployment, new, old, bounds) or tuple(_down(new, old, bounds))
    status, again = status_of(deployment, new, replica_sets, now, bounds.unavailable)
    changed = status if status != deployment.get("status") else None
    finished = not scale and status.get("updatedReplicas", 0) == status.get("replicas", 0) == bounds.wanted
    return DeploymentStep(None, scale, _beyond_history(deployment, old) if finished else (), changed, again)


def replica_set_name(deployment: JsonObject) -> str:
    """Name of the ReplicaSet of the present template; the same template gives the same one."""
    return f"{deployment['metadata']['name']}-{_template_hash(deployment)}"


def replica_set_for(deployment: JsonObject, replicas: int, revision: int) -> JsonObject:
    """The ReplicaSet of the present template."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    digits = {HASH_LABEL: _template_hash(deployment)}
    template = spec["template"]
    own_labels = {**((template.get("metadata") or {}).get("labels") or {}), **digits}
    bounds = _bounds(deployment)
    kept = {name: value for name, value in annotations_of(deployment).items() if "last-applied" not in name}
    numbers = {_DESIRED: bounds.wanted, _MOST: bounds.wanted + bounds.surge, REVISION: revision}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": replica_set_name(deployment),
            "namespace": metadata["namespace"],
            "labels": own_labels,
            "annotations": {**kept, **{name: str(number) for name, number in numbers.items()}},
            "ownerReferences": [controlled_by(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {**(spec["selector"].get("matchLabels") or {}), **digits}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": own_labels}},
        },
    }


def revision_of(replica_set: JsonObject) -> int:
    """Which revision of its Deployment a ReplicaSet holds; 0 if it does not say."""
    text = annotations_of(replica_set).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def _template_hash(deployment: JsonObject) -> str:
    return short_hash(deployment["spec"]["template"], _HASH_DIGITS)


def _with_new(deployment: JsonObject, old: list[JsonObject], bounds: _Bounds, now: datetime) -> DeploymentStep:
    """A template without ReplicaSet gets one, in a Recreate only once the pods of others are gone."""
    if _strategy(deployment) == _RECREATE and any((one.get("status") or {}).get("replicas") for one in old):
        return DeploymentStep(scale=tuple((one, 0) for one in old if replicas_of(one)))
    room = bounds.wanted + bounds.surge - sum(replicas_of(one) for one in old)
    replicas = max(0, min(bounds.wanted, room))
    revision = max((revision_of(one) for one in old), default=0) + 1
    made = replica_set_for(deployment, replicas, revision)
    status, again = status_of(deployment, made, [*old, made], now, bounds.unavailable)
    return DeploymentStep(made, status=status if status != deployment.get("status") else None, again=again)


def _up(
    deployment: JsonObject, new: JsonObject, old: Sequence[JsonObject], bounds: _Bounds
) -> tuple[tuple[JsonObject, int], ...]:
    present = replicas_of(new)
    if present == bounds.wanted:
        return ()
    if present > bounds.wanted:
        return ((new, bounds.wanted),)
    if _strategy(deployment) == _RECREATE:
        return ((new, bounds.wanted),)
    room = bounds.wanted + bounds.surge - present - sum(replicas_of(one) for one in old)
    more = min(room, bounds.wanted - present)
    return ((new, present + more),) if more > 0 else ()


def _down(new: JsonObject, old: Sequence[JsonObject], bounds: _Bounds) -> list[tuple[JsonObject, int]]:
    """Old ReplicaSets shrink: pods that do not serve first, then the oldest."""
    active = sorted((one for one in old if replicas_of(one)), key=lambda one: one["metadata"]["creationTimestamp"])
    least = bounds.wanted - bounds.unavailable
    total = sum(replicas_of(one) for one in (*active, new))
    budget = total - least - (replicas_of(new) - available_in(new))
    if budget <= 0:
        return []
    left = {one["metadata"]["name"]: replicas_of(one) for one in active}
    for one in active:
        idle = min(budget, max(0, replicas_of(one) - available_in(one)))
        left[one["metadata"]["name"]] -= idle
        budget -= idle
    spare = min(budget, sum(available_in(one) for one in (*active, new)) - least)
    for one in active:
        fewer = max(0, min(spare, left[one["metadata"]["name"]]))
        left[one["metadata"]["name"]] -= fewer
        spare -= fewer
    return [(one, left[one["metadata"]["name"]]) for one in active if left[one["metadata"]["name"]] != replicas_of(one)]


def _beyond_history(deployment: JsonObject, old: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    limit = deployment["spec"].get("revisionHistoryLimit", _DEFAULT_HISTORY)
    empty = [one for one in old if not replicas_of(one) and not (one.get("status") or {}).get("replicas")]
    return tuple(sorted(empty, key=revision_of)[: max(0, len(empty) - limit)])


def _strategy(deployment: JsonObject) -> str:
    return str((deployment["spec"].get("strategy") or {}).get("type") or "RollingUpdate")


def _bounds(deployment: JsonObject) -> _Bounds:
    wanted = int(deployment["spec"].get("replicas", 1))
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", "25%"), wanted, math.ceil)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), wanted, math.floor)
    if _strategy(deployment) == _RECREATE:
        return _Bounds(wanted, 0, wanted)
    # Neither up nor down would be a standstill.
    return _Bounds(wanted, surge, min(wanted, unavailable if surge or unavailable else 1))


def _share(value: object, of: int, rounded: Callable[[float], int]) -> int:
    text = str(value)
    return rounded(int(text[:-1]) * of / 100) if text.endswith("%") else int(text)
