"""The life of one pod: scheduled, images pulled, container started, ended or restarted."""

import asyncio
from dataclasses import dataclass
from typing import Final, final

from aim_local.actors.container_logs import ContainerKey, ContainerLog, ContainerLogs
from aim_local.actors.environment import UnresolvedReferenceError, resolve_environment
from aim_local.actors.failures import (
    ENDINGS,
    FAIL_ANNOTATION,
    Ending,
    Failure,
    Role,
    failure_for,
    no_access_to_image,
    no_such_image,
)
from aim_local.actors.informer import Informer
from aim_local.actors.objects import annotations_of, now_text
from aim_local.actors.pod_status import UNSCHEDULABLE, crash_looping, ended, evicted, running, unschedulable, waiting
from aim_local.actors.programs import Execution, role_of, run_program
from aim_local.actors.settings import ActorSettings
from aim_local.actors.writer import Writer
from aim_local.keys import Key
from aim_local.registry.images import PRIVATE_PREFIX, find_image
from aim_shared.api.kinds import POD
from aim_shared.json import JsonObject

_LONGEST_RETRY: Final = 30.0
_CATALOGUE_ROLES: Final = frozenset({Role.DISCOVERY, Role.PREDICTOR})


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What the pods of a node share."""

    writer: Writer
    settings: ActorSettings
    pods: Informer
    namespaces: Informer
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
        await self._schedule()
        await self._pull()
        env = await self._environment()
        await asyncio.sleep(self._node.settings.delay)
        await self._start(env)

    @property
    def _failure(self) -> Failure | None:
        """What should go wrong, as annotated at this moment."""
        namespace = self._node.namespaces.get(Key("", self._key.namespace))
        for obj in (self._node.pods.get(self._key), namespace):
            found = failure_for(annotations_of(obj).get(FAIL_ANNOTATION, ""), self._role) if obj else None
            if found is not None:
                return found
        return None

    async def _report(self, status: JsonObject) -> None:
        written = await self._node.writer.status(POD, self._pod, status)
        if written is not None:
            self._pod = written
            self._node.pods.put(written)

    async def _wait(self) -> None:
        """Wait before another try, longer each time."""
        self._attempts += 1
        await asyncio.sleep(min(self._node.settings.retry_delay * 2 ** (self._attempts - 1), _LONGEST_RETRY))

    async def _schedule(self) -> None:
        if self._pod["spec"].get("nodeName"):
            return
        while self._failure is Failure.UNSCHEDULABLE:
            await self._report(unschedulable(self._pod, now_text()))
            await self._node.writer.event(POD, self._pod, "FailedScheduling", UNSCHEDULABLE, warning=True)
            await self._wait()
        await asyncio.sleep(self._node.settings.delay)
        self._pod = await self._node.writer.bind(self._pod, self._node.settings.node)

    async def _pull(self) -> None:
        images = [container.get("image", "") for container in self._pod["spec"]["containers"]]
        while (problem := self._pull_problem(images)) is not None:
            image, text = problem
            await self._report(waiting(self._pod, now_text(), "ErrImagePull", text))
            await self._node.writer.event(
                POD, self._pod, "Failed", f'Failed to pull image "{image}": {text}', warning=True
            )
            await asyncio.sleep(self._node.settings.delay)
            backing_off = f'Back-off pulling image "{image}": ErrImagePull: {text}'
            await self._report(waiting(self._pod, now_text(), "ImagePullBackOff", backing_off))
            await self._wait()
        await asyncio.sleep(self._node.settings.delay)

    def _pull_problem(self, images: list[str]) -> tuple[str, str] | None:
        failure = self._failure
        if failure is Failure.IMAGE_PULL:
            return images[0], no_such_image(images[0])
        if failure is Failure.IMAGE_AUTH:
            return images[0], no_access_to_image(images[0])
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
                await self._wait()

    async def _start(self, env: dict[str, str]) -> None:
        """Run the container; again after each end, where the pod's restart policy says so."""
        restarts = 0
        while True:
            log = self._node.logs.start(ContainerKey(*self._key, self._pod["spec"]["containers"][0]["name"]))
            await self._report(
                running(self._pod, now_text(), ready=self._role is not Role.PREDICTOR, restarts=restarts)
            )
            if self._failure is Failure.EVICTED:
                return await self._report(evicted(self._pod, now_text()))
            try:
                ending = await self._execute(env, log, restarts)
                log.write(ending.log.encode())
            finally:
                log.close()
            if not self._restarts_after(ending):
                return await self._report(ended(self._pod, now_text(), ending))
            restarts += 1
            await self._report(crash_looping(self._pod, now_text(), ending, restarts))
            await self._wait()

    async def _execute(self, env: dict[str, str], log: ContainerLog, restarts: int) -> Ending:
        failure = self._failure
        if failure is not None and failure in ENDINGS:
            await asyncio.sleep(self._node.settings.delay)
            return ENDINGS[failure]
        if failure is Failure.HANG:
            await asyncio.get_running_loop().create_future()
        if self._role is Role.PREDICTOR:
            await asyncio.sleep(self._node.settings.delay)
            log.write(b"INFO: Application startup complete.\n")
            while self._failure is Failure.NOT_READY:
                await self._wait()
            await self._report(running(self._pod, now_text(), ready=True, restarts=restarts))
        container = self._pod["spec"]["containers"][0]
        return await run_program(Execution(self._pod, container, self._role, env, log), self._node.settings)

    def _restarts_after(self, ending: Ending) -> bool:
        policy = self._pod["spec"].get("restartPolicy", "Always")
        return policy == "Always" or (policy == "OnFailure" and ending.code != 0)
