"""The status of a Deployment from its ReplicaSets, with the conditions of the real controller. Pure functions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from aim_local.actors.objects import condition, stamp, time_of
from aim_local.actors.replica_set_decision import available_in, replicas_of
from controller_runtime import JsonObject

_AVAILABLE: Final = "Available"
_PROGRESSING: Final = "Progressing"
_COMPLETE: Final = "NewReplicaSetAvailable"
_MINIMUM: Final = {
    True: ("MinimumReplicasAvailable", "Deployment has minimum availability."),
    False: ("MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
}
_COUNTED: Final = ("readyReplicas", "availableReplicas")


def status_of(
    deployment: JsonObject, new: JsonObject, replica_sets: Sequence[JsonObject], now: datetime, unavailable: int
) -> tuple[JsonObject, float | None]:
    """The status, and the seconds until the rollout may have taken too long; None if it is not waited for.

    ``unavailable`` pods may be missing.
    """
    wanted = int(deployment["spec"].get("replicas", 1))
    counts = _counts(new, replica_sets)
    status: JsonObject = {name: count for name, count in counts.items() if count}
    status["observedGeneration"] = deployment["metadata"].get("generation", 1)
    enough = counts["availableReplicas"] >= wanted - unavailable
    progressing, again = _progressing(deployment, new, counts, wanted, now)
    conditions = [condition(_AVAILABLE, enough, *_MINIMUM[enough])]
    if progressing is not None:
        conditions.append(progressing)
    status["conditions"] = _timed(deployment, conditions, counts, now)
    return status, again


def _counts(new: JsonObject, replica_sets: Sequence[JsonObject]) -> dict[str, int]:
    statuses = [one.get("status") or {} for one in replica_sets]
    counts = {name: sum(int(one.get(name, 0)) for one in statuses) for name in ("replicas", *_COUNTED)}
    counts["updatedReplicas"] = int((new.get("status") or {}).get("replicas", 0))
    counts["unavailableReplicas"] = max(0, sum(map(replicas_of, replica_sets)) - sum(map(available_in, replica_sets)))
    return counts


def _progressing(
    deployment: JsonObject, new: JsonObject, counts: dict[str, int], wanted: int, now: datetime
) -> tuple[JsonObject | None, float | None]:
    deadline, name = deployment["spec"].get("progressDeadlineSeconds"), new["metadata"]["name"]
    if deadline is None:
        return None, None
    before = _present(deployment, _PROGRESSING)
    same = counts["replicas"] == counts["updatedReplicas"] and name in before.get("message", "")
    if before.get("reason") == _COMPLETE and same:
        return condition(_PROGRESSING, True, _COMPLETE, before["message"]), None
    if counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == wanted:
        return condition(_PROGRESSING, True, _COMPLETE, f'ReplicaSet "{name}" has successfully progressed.'), None
    if not before or not new.get("status"):
        return condition(_PROGRESSING, True, "NewReplicaSetCreated", f'Created new replica set "{name}"'), deadline
    left = deadline - (now - time_of(before.get("lastUpdateTime") or stamp(now))).total_seconds()
    if left <= 0 and not _moved(deployment, counts):
        why = f'ReplicaSet "{name}" has timed out progressing.'
        return condition(_PROGRESSING, False, "ProgressDeadlineExceeded", why), None
    return condition(_PROGRESSING, True, "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'), max(left, 1.0)


def _moved(deployment: JsonObject, counts: dict[str, int]) -> bool:
    """Whether the rollout came further since the status was written."""
    before = deployment.get("status") or {}
    fewer_old = counts["replicas"] - counts["updatedReplicas"] < before.get("replicas", 0) - before.get(
        "updatedReplicas", 0
    )
    return fewer_old or any(counts[name] > before.get(name, 0) for name in ("updatedReplicas", *_COUNTED))


def _present(deployment: JsonObject, type_: str) -> JsonObject:
    conditions = (deployment.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == type_), {})


def _timed(
    deployment: JsonObject, conditions: list[JsonObject], counts: dict[str, int], now: datetime
) -> list[JsonObject]:
    moved, result = _moved(deployment, counts), []
    for one in conditions:
        old = _present(deployment, one["type"])
        same = old.get("status") == one["status"]
        unchanged = same and old.get("reason") == one["reason"] and not (moved and one["type"] == _PROGRESSING)
        times = {
            "lastTransitionTime": (old.get("lastTransitionTime") if same else None) or stamp(now),
            "lastUpdateTime": (old.get("lastUpdateTime") if unchanged else None) or stamp(now),
        }
        result.append({**one, **times})
    return result
