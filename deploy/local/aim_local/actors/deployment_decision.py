"""What a Deployment needs next, from it and its ReplicaSets. Pure functions.

A changed template gets all its pods at once, and of the old ones those stay that serve until as many new ones do. How
many may be too many or too few meanwhile, revisions, history and deadlines are left to the real lane.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aim_local.actors.objects import condition, controlled_by, short_hash, timed
from aim_local.actors.replica_set_decision import HASH_LABEL, available_in, replicas_of
from controller_runtime import JsonObject

_AVAILABLE: Final = {
    True: ("MinimumReplicasAvailable", "Deployment has minimum availability."),
    False: ("MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
}
_PROGRESSING: Final = {
    True: ("NewReplicaSetAvailable", 'ReplicaSet "{}" has successfully progressed.'),
    False: ("ReplicaSetUpdated", 'ReplicaSet "{}" is progressing.'),
}
_COUNTED: Final = ("replicas", "readyReplicas", "availableReplicas")
_HASH_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class DeploymentStep:
    """The next step.

    Attributes:
        create: the ReplicaSet to make.
        scale: ReplicaSets with the replicas they should have.
        delete: ReplicaSets that nobody needs any more.
        status: the status to write; None if it is right already.
    """

    create: JsonObject | None = None
    scale: tuple[tuple[JsonObject, int], ...] = ()
    delete: tuple[JsonObject, ...] = ()
    status: JsonObject | None = None


def next_step(deployment: JsonObject, replica_sets: Sequence[JsonObject], now: str) -> DeploymentStep:
    """Decide."""
    name = replica_set_name(deployment)
    new = next((one for one in replica_sets if one["metadata"]["name"] == name), None)
    if new is None:
        return DeploymentStep(create=replica_set_for(deployment))
    old = sorted((one for one in replica_sets if one is not new), key=lambda one: one["metadata"]["creationTimestamp"])
    wanted = _wanted(deployment)
    targets, missing = [(new, wanted)], wanted - available_in(new)
    for one in old:
        kept = max(0, min(available_in(one), missing))
        targets.append((one, kept))
        missing -= kept
    scale = tuple((one, count) for one, count in targets if replicas_of(one) != count)
    empty = [one for one in old if not replicas_of(one) and not (one.get("status") or {}).get("replicas")]
    status = _status(deployment, new, replica_sets, now)
    return DeploymentStep(None, scale, tuple(empty), status if status != deployment.get("status") else None)


def replica_set_name(deployment: JsonObject) -> str:
    """Name of the ReplicaSet of the present template; the same template gives the same one."""
    return f"{deployment['metadata']['name']}-{_template_hash(deployment)}"


def replica_set_for(deployment: JsonObject) -> JsonObject:
    """The ReplicaSet of the present template."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    digits = {HASH_LABEL: _template_hash(deployment)}
    template = spec["template"]
    own_labels = {**((template.get("metadata") or {}).get("labels") or {}), **digits}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": replica_set_name(deployment),
            "namespace": metadata["namespace"],
            "labels": own_labels,
            "ownerReferences": [controlled_by(deployment)],
        },
        "spec": {
            "replicas": _wanted(deployment),
            "selector": {"matchLabels": {**(spec["selector"].get("matchLabels") or {}), **digits}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": own_labels}},
        },
    }


def _wanted(deployment: JsonObject) -> int:
    return int(deployment["spec"].get("replicas", 1))


def _template_hash(deployment: JsonObject) -> str:
    return short_hash(deployment["spec"]["template"], _HASH_DIGITS)


def _status(deployment: JsonObject, new: JsonObject, replica_sets: Sequence[JsonObject], now: str) -> JsonObject:
    wanted, statuses = _wanted(deployment), [one.get("status") or {} for one in replica_sets]
    counts = {name: sum(int(one.get(name, 0)) for one in statuses) for name in _COUNTED}
    counts["updatedReplicas"] = int((new.get("status") or {}).get("replicas", 0))
    counts["unavailableReplicas"] = max(0, sum(map(replicas_of, replica_sets)) - counts["availableReplicas"])
    enough = counts["availableReplicas"] >= wanted
    done = counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == wanted
    reason, message = _PROGRESSING[done]
    conditions = (
        condition("Available", enough, *_AVAILABLE[enough]),
        condition("Progressing", True, reason, message.format(new["metadata"]["name"])),
    )
    return {
        **{name: count for name, count in counts.items() if count},
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "conditions": timed(conditions, (deployment.get("status") or {}).get("conditions") or (), now),
    }
