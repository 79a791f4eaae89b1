"""The kubelet: runs the pods of the node, one task per pod, and reports what becomes of them."""

import asyncio
from typing import final

import structlog

from aim_local.actors.failures import (
    Ending,
)
from aim_local.actors.objects import is_going, now_text, uid_of
from aim_local.actors.pod_run import NodeContext, PodRun
from aim_local.actors.pod_status import ended
from aim_local.actors.workers import Workers
from aim_local.keys import Key
from aim_shared.api.kinds import POD
from aim_shared.json import JsonObject
from aim_shared.kube.errors import KubeError

_log = structlog.get_logger(__name__)


@final
class Kubelet:
    """Starts a pod when it appears, stops it when it goes."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._runs: dict[Key, tuple[str, asyncio.Task[None]]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.workers = Workers("kubelet", self._handle)
        node.pods.listen(lambda key, _: self.workers.add(key))

    async def run(self) -> None:
        """Run pods until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            await self.workers.run()

    async def _handle(self, key: Key) -> None:
        pod = self._node.pods.get(key)
        run = self._runs.get(key)
        if run is not None and (pod is None or is_going(pod) or uid_of(pod) != run[0]):
            run[1].cancel()
            await asyncio.wait((run[1],))
            self._runs.pop(key, None)
            self._node.logs.drop_pod(*key)
        if pod is None:
            return
        if is_going(pod):
            await self._confirm_end(pod)
        elif key not in self._runs and _is_mine(pod, self._node.settings.node):
            assert self._group is not None
            self._runs[key] = (uid_of(pod), self._group.create_task(self._play(key), name=f"pod {key}"))

    async def _confirm_end(self, pod: JsonObject) -> None:
        """Pods that were given time to end are gone when the kubelet says that they have."""
        if pod["spec"].get("nodeName") != self._node.settings.node:
            return
        await self._node.writer.status(POD, pod, ended(pod, now_text(), Ending()))
        # A pod that has ended needs no more time: this second deletion takes effect at once.
        await self._node.writer.delete(POD, pod)

    async def _play(self, key: Key) -> None:
        while True:
            try:
                return await PodRun(self._node, key).play()
            except KubeError as error:
                _log.info("will play the pod again", pod=str(key), error=str(error))
                await asyncio.sleep(self._node.settings.retry_delay)


def _is_mine(pod: JsonObject, node: str) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return pod["spec"].get("nodeName", "") in ("", node) and phase not in ("Succeeded", "Failed")
