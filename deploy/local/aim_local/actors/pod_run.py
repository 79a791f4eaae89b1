"""The life of one pod on its node: images pulled, container started, ended or restarted."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final, final

from aim_local.actors.container_logs import ContainerKey, ContainerLog, ContainerLogs
from aim_local.actors.environment import UnresolvedReferenceError, resolve_environment
from aim_local.actors.failures import Ending, Failure, Role, Wanted
from aim_local.actors.informer import Informer
from aim_local.actors.objects import now_text
from aim_local.actors.pod_status import (
    NO_PAST,
    Past,
    crash_looping,
    ended,
    evicted,
    full_name,
    running,
    terminated,
    waiting,
)
from aim_local.actors.programs import Execution, role_of, run_program
from aim_local.actors.pull_errors import PULL_ERRORS, no_access_to_image, no_such_image
from aim_local.actors.settings import ActorSettings
from aim_local.actors.wanted_failures import WantedFailures
from aim_local.actors.writer import Writer
from aim_local.registry.images import PRIVATE_PREFIX, find_image
from controller_runtime import Backoff, JsonObject, Key
from controller_runtime.kinds import POD

_LONGEST_RETRY: Final = 30.0
_SLOW: Final = 30.0
_CATALOGUE_ROLES: Final = frozenset({Role.DISCOVERY, Role.PREDICTOR})
_UNREADY: Final = frozenset({Failure.NOT_READY, Failure.HANG})


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What the pods of our nodes share."""

    writer: Writer
    settings: ActorSettings
    pods: Informer
    failures: WantedFailures
    logs: ContainerLogs


@final
class PodRun:
    """The life of one pod."""

    def __init__(self, node: NodeContext, key: Key) -> None:
        self._node = node
        self._key = key
        pod = node.pods.get(key)
        assert pod is not None
        self._pod = pod
        self._role = role_of(pod)
        self._attempts = 0

    async def play(self) -> None:
        """Live through it; returns when the pod has ended, never when it is a server."""
        await self._pull()
        env = await self._environment()
        await self._start_slowly()
        await self._start(env)

    @property
    def _wanted(self) -> Wanted | None:
        """What should go wrong, as asked for at this moment."""
        return self._node.failures.of_pod(self._node.pods.get(self._key) or self._pod, self._role)

    async def _report(self, status: JsonObject) -> None:
        written = await self._node.writer.status(POD, self._pod, status)
        if written is not None:
            self._pod = written
            self._node.pods.put(written)

    async def _warn(self, reason: str, message: str) -> None:
        await self._node.writer.event(POD, self._pod, reason, message, warning=True)

    async def _back_off(self) -> None:
        """Wait before another try, longer each time; no longer than what went wrong is asked for."""
        self._attempts += 1
        suffered = self._wanted
        backoff = Backoff(base=self._node.settings.retry_delay, cap=_LONGEST_RETRY)
        until = time.monotonic() + backoff.nominal(self._attempts)
        while self._wanted == suffered and (left := until - time.monotonic()) > 0:
            await self._node.failures.changed(left)

    async def _pull(self) -> None:
        images = [container.get("image", "") for container in self._pod["spec"]["containers"]]
        while (problem := self._pull_problem(images)) is not None:
            image, text = problem
            await self._report(waiting(self._pod, now_text(), "ErrImagePull", text))
            await self._warn("Failed", f'Failed to pull image "{image}": {text}')
            await self._warn("Failed", "Error: ErrImagePull")
            await asyncio.sleep(self._node.settings.delay)
            backing_off = f'Back-off pulling image "{image}"'
            await self._report(
                waiting(self._pod, now_text(), "ImagePullBackOff", f"{backing_off}: ErrImagePull: {text}")
            )
            await self._warn("BackOff", backing_off)
            await self._back_off()
        await asyncio.sleep(self._node.settings.delay)

    def _pull_problem(self, images: list[str]) -> tuple[str, str] | None:
        wanted = self._wanted
        if wanted is not None and wanted.failure in PULL_ERRORS:
            return images[0], PULL_ERRORS[wanted.failure](images[0])
        if self._role not in _CATALOGUE_ROLES:
            return None
        for image in images:
            found = find_image(image)
            if found is None:
                return image, no_such_image(image)
            if found.repository.startswith(PRIVATE_PREFIX) and not self._pod["spec"].get("imagePullSecrets"):
                return image, no_access_to_image(image)
        return None

    async def _environment(self) -> dict[str, str]:
        container = self._pod["spec"]["containers"][0]
        while True:
            try:
                return await resolve_environment(self._node.writer.client, self._key.namespace, container)
            except UnresolvedReferenceError as problem:
                await self._report(waiting(self._pod, now_text(), "CreateContainerConfigError", str(problem)))
                await self._warn("Failed", f"Error: {problem}")
                await self._back_off()

    async def _start_slowly(self) -> None:
        """Containers other than servers are slow before they start, servers before they are ready."""
        wanted = self._wanted
        if wanted is not None and wanted.failure is Failure.SLOW_START and self._role is not Role.PREDICTOR:
            await self._report(waiting(self._pod, now_text(), "ContainerCreating"))
            await self._until_other(wanted, time.monotonic() + wanted.seconds(_SLOW))
        await asyncio.sleep(self._node.settings.delay)

    async def _start(self, env: dict[str, str]) -> None:
        """Run the container; again after each end, where the pod's restart policy says so."""
        past = NO_PAST
        while True:
            log = self._node.logs.start(ContainerKey(*self._key, self._pod["spec"]["containers"][0]["name"]))
            await self._report(running(self._pod, now_text(), ready=self._role is not Role.PREDICTOR, past=past))
            try:
                ending = await self._execute(env, log, past)
                log.write(ending.log.encode() if ending else b"")
            finally:
                log.close()
            if ending is None:
                return await self._report(evicted(self._pod, now_text()))
            if not self._restarts_after(ending):
                return await self._report(ended(self._pod, now_text(), ending, past))
            past = Past(past.restarts + 1, terminated(self._pod, ending, now_text()))
            await self._report(crash_looping(self._pod, now_text(), past))
            name = self._pod["spec"]["containers"][0]["name"]
            await self._warn("BackOff", f"Back-off restarting failed container {name} in pod {full_name(self._pod)}")
            await self._back_off()

    async def _execute(self, env: dict[str, str], log: ContainerLog, past: Past) -> Ending | None:
        """Run to the end; None if the pod is thrown out."""
        while (wanted := self._wanted) is not None:
            if wanted.failure is Failure.EVICTED:
                return None
            if wanted.ending is not None:
                await asyncio.sleep(self._node.settings.delay)
                return wanted.ending
            if wanted.failure is not Failure.HANG or self._role is Role.PREDICTOR:
                break
            await self._until_other(wanted, None)
        if self._role is Role.PREDICTOR:
            return await self._serve(log, past)
        container = self._pod["spec"]["containers"][0]
        return await run_program(Execution(self._pod, container, self._role, env, log), self._node.settings)

    async def _serve(self, log: ContainerLog, past: Past) -> Ending | None:
        """Be a server: ready unless something is asked for, until an end is."""
        await asyncio.sleep(self._node.settings.delay)
        log.write(b"INFO: Application startup complete.\n")
        started, is_ready = time.monotonic(), False
        while True:
            wanted = self._wanted
            if wanted is not None and wanted.failure is Failure.EVICTED:
                return None
            if wanted is not None and wanted.ending is not None:
                return wanted.ending
            slow = wanted is not None and wanted.failure is Failure.SLOW_START and not is_ready
            left = started + wanted.seconds(_SLOW) - time.monotonic() if wanted and slow else 0.0
            should = left <= 0 and (wanted is None or wanted.failure not in _UNREADY)
            if should is not is_ready:
                is_ready = should
                await self._report(running(self._pod, now_text(), ready=is_ready, past=past))
                # What was asked for while the status was written is not to be missed.
                continue
            await self._node.failures.changed(left if left > 0 else None)

    async def _until_other(self, wanted: Wanted, until: float | None) -> None:
        """Wait until something else is asked for, or the time has come."""
        while self._wanted == wanted:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            await self._node.failures.changed(left)

    def _restarts_after(self, ending: Ending) -> bool:
        policy = self._pod["spec"].get("restartPolicy", "Always")
        return policy == "Always" or (policy == "OnFailure" and ending.code != 0)
