"""The executor's way into the cache: what is there, what own writes returned, and quotas of what is created."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from controller_runtime.json import JsonObject
from controller_runtime.kube.client import KubeClient
from controller_runtime.log.cache.store import Cache
from controller_runtime.log.wire.part import Key, Part
from controller_runtime.log.wire.version import Change
from controller_runtime.reconcile.plan import Quota
from controller_runtime.telemetry.tracing import current_traceparent


class CacheAccess:
    """Reads children from the cache and takes own writes into it; parts outside the cache count as empty.

    Args:
        tell: takes the changes that own writes make, like those of the feed.
        clock: the clock of the cache's feed, in seconds.
    """

    def __init__(
        self, cache: Cache, tell: Callable[[Sequence[Change[Any]]], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cache = cache
        self._tell = tell
        self._clock = clock
        self._parts = frozenset(part.name for part in cache.parts)

    def live(self, part: Part[Any], key: Key) -> JsonObject | None:
        """The object as the cache knows it."""
        entry = self._cache.get(part, key) if part.name in self._parts else None
        return None if entry is None else entry.raw

    def amount_taken(self, quota: Quota) -> int:
        """What the objects that the cache knows take of a quota; one that cannot be decoded takes nothing."""
        found = (entry.object for entry in self._cache.select(quota.index, quota.value))
        return sum(quota.taken_by(obj) for obj in found if obj is not None)

    def absorb(self, part: Part[Any], obj: JsonObject, *, gone: bool = False) -> None:
        """Take the API server's answer to an own write into the cache (read your own writes).

        Args:
            gone: the write removed the object; then only its namespace, name and UID matter.
        """
        if part.name not in self._parts:
            return
        self._tell(self._deleted(part, obj) if gone else self._changes_of_write(part, obj))

    def _changes_of_write(self, part: Part[Any], obj: JsonObject) -> list[Change[Any]]:
        return self._cache.absorb(part, obj, self._clock(), current_traceparent())

    def _deleted(self, part: Part[Any], obj: JsonObject) -> list[Change[Any]]:
        metadata = obj["metadata"]
        key = Key(str(metadata.get("namespace") or ""), str(metadata["name"]))
        return self._cache.absorb_deleted(part, key, str(metadata["uid"]), self._clock())


class Admission:
    """Lets one creation under a quota through at a time; made for each term of leadership."""

    def __init__(self, cache: CacheAccess, kube: KubeClient) -> None:
        self._cache = cache
        self._kube = kube
        self._turn = asyncio.Lock()
        self._read: set[str] = set()

    @asynccontextmanager
    async def place(self, quotas: Sequence[Quota]) -> AsyncIterator[Quota | None]:
        """The first that has no place; ``None`` = there is one, and no other creation takes it before the block ends.

        Raises:
            KubeError: the objects cannot be counted; then nothing is created (DI-320).
        """
        if not quotas:
            yield None
            return
        async with self._turn:
            for quota in quotas:
                await self._learn(quota.index.part)
            yield next((one for one in quotas if self._cache.amount_taken(one) + one.takes > one.most), None)

    async def _learn(self, part: Part[Any]) -> None:
        if part.name in self._read:
            return
        page = await self._kube.list(part.kind, label_selector=part.label_selector, field_selector=part.field_selector)
        for item in page.items:
            self._cache.absorb(part, item)
        self._read.add(part.name)
