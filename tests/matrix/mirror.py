"""The cluster as it is, followed by watches of its own, past every proxy and fault."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from matrix.oracle import ObjectKey, key_of

from aim_domain import kinds
from controller_runtime import JsonObject, KubeClient
from controller_runtime.kind_names import KindName
from controller_runtime.kube.reflector import Delete, Reflector, Restarted, Upsert, as_sent

CHILDREN: Final[tuple[KindName, ...]] = (
    kinds.AIM_SERVICE,
    kinds.AIM_MODEL,
    kinds.AIM_CLUSTER_MODEL,
    kinds.AIM_SERVICE_TEMPLATE,
    kinds.AIM_CLUSTER_SERVICE_TEMPLATE,
    kinds.AIM_TEMPLATE_CACHE,
    kinds.AIM_ARTIFACT,
    kinds.AIM_CLUSTER_MODEL_SOURCE,
    kinds.INFERENCE_SERVICE,
    kinds.HTTP_ROUTE,
    kinds.PERSISTENT_VOLUME_CLAIM,
    kinds.JOB,
    kinds.POD,
    kinds.CONFIG_MAP,
    kinds.ROLE_BINDING,
    kinds.HORIZONTAL_POD_AUTOSCALER,
)
"""What the platform makes, and what is made because of that."""


class Seen(NamedTuple):
    """Something that happened to an object."""

    key: ObjectKey
    obj: JsonObject
    deleted: bool


class Mirror:
    """All objects of `CHILDREN`; what waits is enqueued by each change."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, JsonObject] = {}
        self.seen: list[Seen] = []
        """What happened since `forget`."""
        self._changed = asyncio.Event()
        self._complete: set[str] = set()

    def forget(self) -> None:
        """Begin a new story."""
        self.seen = []

    def within(
        self, namespace: str, also: Callable[[ObjectKey, JsonObject], bool] = lambda *_: False
    ) -> list[JsonObject]:
        """The objects of a namespace, and others."""
        return [obj for key, obj in self.objects.items() if key.namespace == namespace or also(key, obj)]

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds; it is asked after every change. False: it did not in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    self._changed.clear()
                    if holds():
                        return True
                    await self._changed.wait()
        return holds()

    async def quiet(self, seconds: float, within: float) -> bool:
        """Wait until nothing has changed for some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while True:
                    self._changed.clear()
                    try:
                        async with asyncio.timeout(seconds):
                            await self._changed.wait()
                    except TimeoutError:
                        return True
        return False

    async def follow(self, client: KubeClient, kind: KindName) -> None:
        """Keep one kind up to date until cancelled."""
        async with Reflector(client, kind, as_sent) as reflector:
            async for event in reflector:
                match event:
                    case Restarted(objects):
                        self._replace(kind.kind, objects)
                    case Upsert(obj):
                        self._put(obj)
                    case Delete(obj):
                        self._remove(obj)
                self._changed.set()

    async def complete(self) -> None:
        """Wait until every kind was listed."""
        await self.until(lambda: len(self._complete) == len(CHILDREN), 30)

    def _replace(self, kind: str, objects: Iterable[JsonObject]) -> None:
        self._complete.add(kind)
        listed = {key_of(obj): obj for obj in objects}
        for key in [key for key in self.objects if key.kind == kind and key not in listed]:
            self._remove(self.objects[key])
        for key, obj in listed.items():
            if self.objects.get(key) != obj:
                self._put(obj)

    def _put(self, obj: JsonObject) -> None:
        self.objects[key_of(obj)] = obj
        self.seen.append(Seen(key_of(obj), obj, deleted=False))

    def _remove(self, obj: JsonObject) -> None:
        self.objects.pop(key_of(obj), None)
        self.seen.append(Seen(key_of(obj), obj, deleted=True))


@asynccontextmanager
async def mirrored(client: KubeClient) -> AsyncIterator[Mirror]:
    """A mirror that is complete, and kept up to date meanwhile."""
    mirror = Mirror()
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(mirror.follow(client, kind)) for kind in CHILDREN]
        await mirror.complete()
        try:
            yield mirror
        finally:
            for one in following:
                one.cancel()
