"""The Job controller: pods for Jobs, and the Jobs' status from them."""

from datetime import UTC, datetime
from typing import final

from aim_local.actors.informer import Informer
from aim_local.actors.job_decision import next_step, pod_for
from aim_local.actors.objects import is_going, uid_of
from aim_local.actors.settings import ActorSettings
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from controller_runtime import JsonObject, Key
from controller_runtime.kinds import JOB, POD


@final
class Jobs:
    """Acts on each Job when it or one of its pods changes; ``pods`` are grouped by controller."""

    def __init__(self, writer: Writer, settings: ActorSettings, jobs: Informer, pods: Informer) -> None:
        self._writer = writer
        self._settings = settings
        self._jobs = jobs
        self._pods = pods
        self.workers = Workers("jobs", self._handle)
        jobs.listen(lambda key, _: self.workers.add(key))
        pods.listen(self._on_pod)

    def _on_pod(self, key: Key, pod: JsonObject) -> None:
        for owner in pod["metadata"].get("ownerReferences") or ():
            if owner.get("controller") and owner["kind"] == JOB.kind:
                self.workers.add(Key(key.namespace, owner["name"]))

    async def _handle(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        if job is None or is_going(job):
            return None
        pods = list(self._pods.group(uid_of(job)).values())
        step = next_step(job, pods, datetime.now(UTC), self._settings.retry_delay)
        if step.expired:
            await self._writer.delete(JOB, job)
            return None
        if step.create is not None:
            await self._create(job, step.create)
        for pod in step.stop_pods:
            await self._writer.delete(POD, pod)
        if step.status is not None:
            written = await self._writer.status(JOB, job, step.status)
            if written is not None:
                self._jobs.put(written)
        return step.again

    async def _create(self, job: JsonObject, attempt: int) -> None:
        pod = pod_for(job, attempt)
        if self._pods.get(Key.of(pod)) is not None:
            return
        created = await self._writer.create(POD, pod)
        if created is not None:
            self._pods.put(created)
