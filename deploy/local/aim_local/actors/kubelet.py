"""The kubelets: run the pods of our nodes, one task per pod, and report what becomes of them."""

import asyncio
from typing import Final, final

import structlog

from aim_local.actors.failures import Ending
from aim_local.actors.objects import is_going, now_text, uid_of
from aim_local.actors.pod_run import NodeContext, PodRun
from aim_local.actors.pod_status import ended
from aim_local.actors.workers import Workers
from controller_runtime import JsonObject, Key, KubeError
from controller_runtime.kinds import POD

_log = structlog.get_logger(__name__)
_STOPPED: Final = Ending(143)
"""How a container ends that SIGTERM ends."""
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@final
class Kubelet:
    """Starts a pod when it is bound to one of our nodes, stops it when it goes."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._nodes = frozenset(node.settings.nodes)
        self._runs: dict[Key, tuple[str, asyncio.Task[None]]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.workers = Workers("kubelet", self._handle)
        node.pods.listen(self._on_pod)

    def _on_pod(self, key: Key, pod: JsonObject) -> None:
        """Reports of our own are no news: a pod concerns the kubelet when it comes, goes or is replaced."""
        run = self._runs.get(key)
        gone = self._node.pods.get(key) is None or is_going(pod)
        known = run is not None and run[0] == uid_of(pod)
        if gone or (not known and pod["spec"].get("nodeName") in self._nodes):
            self.workers.add(key)

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
        if pod is None or pod["spec"].get("nodeName") not in self._nodes:
            return
        if is_going(pod):
            await self._confirm_end(pod)
        elif key not in self._runs and _phase(pod) not in _ENDED:
            assert self._group is not None
            self._runs[key] = (uid_of(pod), self._group.create_task(self._play(key), name=f"pod {key}"))

    async def _confirm_end(self, pod: JsonObject) -> None:
        """Pods that were given time to end are gone when the kubelet says that they have."""
        if _phase(pod) not in _ENDED:
            await self._node.writer.status(POD, pod, ended(pod, now_text(), _STOPPED))
        await self._node.writer.remove_ended(pod)

    async def _play(self, key: Key) -> None:
        while True:
            try:
                return await PodRun(self._node, key).play()
            except KubeError as error:
                _log.info("pod failed; retrying", pod=str(key), error=str(error))
                await asyncio.sleep(self._node.settings.retry_delay)


def _phase(pod: JsonObject) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")
