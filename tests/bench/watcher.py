"""An independent watcher: when each object was first seen to be as wished."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeAlias

from aim_local.actors.runtime import Informer
from controller_runtime import JsonObject, Key, KubeClient
from controller_runtime.api.kind_name import KindName

Accept: TypeAlias = Callable[[JsonObject], bool]


class Arrivals:
    """First sightings in one kind, by the monotonic clock of this process. Made by `arrivals`."""

    def __init__(self, accept: Accept) -> None:
        self._accept = accept
        self._changed = asyncio.Event()
        self.present: dict[Key, JsonObject] = {}
        self.seen: dict[Key, float] = {}

    def on_change(self, key: Key, obj: JsonObject, *, gone: bool) -> None:
        """Take a change."""
        if gone:
            self.present.pop(key, None)
            self.seen.pop(key, None)
        else:
            self.present[key] = obj
            if key not in self.seen and self._accept(obj):
                self.seen[key] = time.monotonic()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until_seen(self, keys: Iterable[Key], seconds: float) -> dict[Key, float]:
        """When each of the objects was first as wished.

        Raises:
            TimeoutError: not all were in time; names some that lack.
        """
        wanted = set(keys)
        # Not the difference with the keys: it looks at all of them, for each change and each who waits.
        await self._until(lambda: {key for key in wanted if key not in self.seen}, seconds)
        return {key: self.seen[key] for key in wanted}

    async def until_gone(self, keys: Iterable[Key], seconds: float) -> None:
        """Wait until none of the objects is left.

        Raises:
            TimeoutError: some are still there; names some.
        """
        unwanted = set(keys)
        await self._until(lambda: unwanted & self.present.keys(), seconds)

    async def _until(self, missing: Callable[[], set[Key]], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while missing():
                    await self._changed.wait()
        except TimeoutError:
            left = sorted(missing())
            raise TimeoutError(
                f"after {seconds:g} s {len(left)} are missing: {', '.join(map(str, left[:3]))}"
            ) from None


@asynccontextmanager
async def arrivals(client: KubeClient, kind: KindName, accept: Accept) -> AsyncIterator[Arrivals]:
    """Watch a kind while the context is open; what is there already is known when it is entered."""
    informer = Informer(client, kind)
    found = Arrivals(accept)
    informer.listen(lambda key, obj: found.on_change(key, obj, gone=informer.get(key) is None))
    async with asyncio.TaskGroup() as group:
        following = group.create_task(informer.run())
        try:
            await informer.synced.wait()
            yield found
        finally:
            following.cancel()


def has_condition(kind: str) -> Accept:
    """Whether a condition of the status is True."""

    def accept(obj: JsonObject) -> bool:
        return _holds((obj.get("status") or {}).get("conditions"), kind)

    return accept


def route_accepted(obj: JsonObject) -> bool:
    """Whether every gateway of an HTTPRoute accepted it."""
    parents = (obj.get("status") or {}).get("parents") or []
    return bool(parents) and all(_holds(one.get("conditions"), "Accepted") for one in parents)


def is_running(obj: JsonObject) -> bool:
    """Whether an AIMService runs."""
    return bool((obj.get("status") or {}).get("status") == "Running")


def _holds(conditions: list[JsonObject] | None, kind: str) -> bool:
    return any(one["type"] == kind and one["status"] == "True" for one in conditions or ())
