"""The Deployment and ReplicaSet controllers: rollouts, and the pods that ReplicaSets have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from aim_local.actors.objects import (
    REPLICA_SET,
    condition,
    controlled_by,
    is_going,
    is_ready,
    labels_of,
    matches,
    now_text,
    short_hash,
    timed,
    uid_of,
)
from aim_local.actors.runtime import Informer, Workers, Writer
from controller_runtime import JsonObject, Key
from controller_runtime.kind_names import DEPLOYMENT
from controller_runtime.kinds import POD

HASH_LABEL: Final = "pod-template-hash"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class ReplicaSetStep:
    """The next step: how many pods to make, which to remove, and the status to write if it is not right already."""

    create: int
    delete: tuple[JsonObject, ...]
    status: JsonObject | None


def next_replica_set_step(replica_set: JsonObject, pods: Sequence[JsonObject]) -> ReplicaSetStep:
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
        delete: ReplicaSets that are no longer needed.
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
    wanted = _wanted_replicas(deployment)
    targets, missing = [(new, wanted)], wanted - available_in(new)
    for one in old:
        kept = max(0, min(available_in(one), missing))
        targets.append((one, kept))
        missing -= kept
    scale = tuple((one, count) for one, count in targets if replicas_of(one) != count)
    empty = [one for one in old if not replicas_of(one) and not (one.get("status") or {}).get("replicas")]
    status = _rollout_status(deployment, new, replica_sets, now)
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
            "replicas": _wanted_replicas(deployment),
            "selector": {"matchLabels": {**(spec["selector"].get("matchLabels") or {}), **digits}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": own_labels}},
        },
    }


def _wanted_replicas(deployment: JsonObject) -> int:
    return int(deployment["spec"].get("replicas", 1))


def _template_hash(deployment: JsonObject) -> str:
    return short_hash(deployment["spec"]["template"], _HASH_DIGITS)


def _rollout_status(
    deployment: JsonObject, new: JsonObject, replica_sets: Sequence[JsonObject], now: str
) -> JsonObject:
    wanted, statuses = _wanted_replicas(deployment), [one.get("status") or {} for one in replica_sets]
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


@final
class Deployments:
    """Acts on each Deployment and ReplicaSet when it or a child changes; children are grouped by controller."""

    def __init__(self, writer: Writer, *, deployments: Informer, replica_sets: Informer, pods: Informer) -> None:
        self._writer = writer
        self._deployments = deployments
        self._replica_sets = replica_sets
        self._pods = pods
        self.deployment_workers = Workers("deployments", self._handle_deployment)
        self.replica_set_workers = Workers("replicasets", self._handle_replica_set)
        deployments.listen(lambda key, _: self.deployment_workers.add(key))
        replica_sets.listen(self._on_replica_set)
        pods.listen(self._on_pod)

    def _on_replica_set(self, key: Key, replica_set: JsonObject) -> None:
        self.replica_set_workers.add(key)
        for owner in replica_set["metadata"].get("ownerReferences") or ():
            if owner.get("controller") and owner["kind"] == DEPLOYMENT.kind:
                self.deployment_workers.add(Key(key.namespace, owner["name"]))

    def _on_pod(self, key: Key, pod: JsonObject) -> None:
        for owner in pod["metadata"].get("ownerReferences") or ():
            if owner.get("controller") and owner["kind"] == REPLICA_SET.kind:
                self.replica_set_workers.add(Key(key.namespace, owner["name"]))

    async def _handle_deployment(self, key: Key) -> None:
        deployment = self._deployments.get(key)
        if deployment is None or is_going(deployment):
            return
        children = [one for one in self._replica_sets.group(uid_of(deployment)).values() if not is_going(one)]
        step = next_step(deployment, children, now_text())
        if step.create is not None:
            self._replica_sets.put_if(await self._writer.create(REPLICA_SET, step.create))
        for replica_set, replicas in step.scale:
            change = {"spec": {"replicas": replicas}}
            self._replica_sets.put_if(await self._writer.patch(REPLICA_SET, replica_set, change))
        for replica_set in step.delete:
            await self._writer.delete(REPLICA_SET, replica_set)
        if step.status is not None:
            self._deployments.put_if(await self._writer.status(DEPLOYMENT, deployment, step.status))

    async def _handle_replica_set(self, key: Key) -> None:
        replica_set = self._replica_sets.get(key)
        if replica_set is None or is_going(replica_set):
            return
        step = next_replica_set_step(replica_set, list(self._pods.group(uid_of(replica_set)).values()))
        for _ in range(step.create):
            self._pods.put_if(await self._writer.create(POD, pod_for(replica_set)))
        for pod in step.delete:
            await self._writer.delete(POD, pod)
        # Pods that were just made are counted when they come back.
        if step.status is not None and not step.create:
            self._replica_sets.put_if(await self._writer.status(REPLICA_SET, replica_set, step.status))
