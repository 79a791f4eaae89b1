"""What a ReplicaSet needs next, from it and its pods. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aim_local.actors.objects import controlled_by, is_going, is_ready, labels_of, matches
from controller_runtime import JsonObject

HASH_LABEL: Final = "pod-template-hash"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class ReplicaSetStep:
    """The next step: how many pods to make, which to remove, and the status to write if it is not right already."""

    create: int
    delete: tuple[JsonObject, ...]
    status: JsonObject | None


def next_step(replica_set: JsonObject, pods: Sequence[JsonObject]) -> ReplicaSetStep:
    """Decide; pods that ended or are going do not count."""
    active = [pod for pod in pods if not is_going(pod) and _phase(pod) not in _ENDED]
    missing = replicas_of(replica_set) - len(active)
    surplus = sorted(active, key=_worth)[: max(0, -missing)]
    status = _status(replica_set, active)
    return ReplicaSetStep(max(0, missing), tuple(surplus), status if status != replica_set.get("status") else None)


def replicas_of(replica_set: JsonObject) -> int:
    """How many pods it should have."""
    return int(replica_set["spec"].get("replicas", 1))


def available_in(replica_set: JsonObject) -> int:
    """How many of its pods serve."""
    return int((replica_set.get("status") or {}).get("availableReplicas", 0))


def pod_for(replica_set: JsonObject) -> JsonObject:
    """One more pod; the API server completes the name."""
    template = replica_set["spec"]["template"]
    metadata = template.get("metadata") or {}
    made: JsonObject = {
        "generateName": f"{replica_set['metadata']['name']}-",
        "namespace": replica_set["metadata"]["namespace"],
        "labels": metadata.get("labels") or {},
        "ownerReferences": [controlled_by(replica_set)],
    }
    if metadata.get("annotations"):
        made["annotations"] = metadata["annotations"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": template["spec"]}


def _status(replica_set: JsonObject, active: Sequence[JsonObject]) -> JsonObject:
    wanted = (replica_set["spec"]["template"].get("metadata") or {}).get("labels") or {}
    ready = sum(map(is_ready, active))
    counts = {
        "fullyLabeledReplicas": sum(matches(wanted, labels_of(pod)) for pod in active),
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    return {
        "replicas": len(active),
        "observedGeneration": replica_set["metadata"].get("generation", 1),
        **{name: count for name, count in counts.items() if count},
    }


def _phase(pod: JsonObject) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _worth(pod: JsonObject) -> tuple[bool, bool, bool, str]:
    """Order in which pods go: without a node, not running, not ready, then the younger."""
    placed = bool(pod["spec"].get("nodeName"))
    # ISO times sort as text; the digits' complement turns the order round.
    age = "".join(chr(255 - ord(letter)) for letter in pod["metadata"].get("creationTimestamp", ""))
    return placed, _phase(pod) == "Running", is_ready(pod), age
