"""The Deployment and ReplicaSet controllers: rollouts, and the pods that ReplicaSets want."""

from typing import final

from aim_local.actors.deployment_decision import next_step as next_rollout
from aim_local.actors.informer import Informer
from aim_local.actors.kinds import DEPLOYMENT, REPLICA_SET
from aim_local.actors.objects import is_going, now_text, uid_of
from aim_local.actors.replica_set_decision import next_step as next_scale
from aim_local.actors.replica_set_decision import pod_for
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from controller_runtime import JsonObject, Key
from controller_runtime.kinds import POD


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
        step = next_rollout(deployment, children, now_text())
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
        step = next_scale(replica_set, list(self._pods.group(uid_of(replica_set)).values()))
        for _ in range(step.create):
            self._pods.put_if(await self._writer.create(POD, pod_for(replica_set)))
        for pod in step.delete:
            await self._writer.delete(POD, pod)
        # Pods that were just made are counted when they come back.
        if step.status is not None and not step.create:
            self._replica_sets.put_if(await self._writer.status(REPLICA_SET, replica_set, step.status))
