"""An independent watcher: when each object was first seen to be as wished."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from aim_domain import kinds
from aim_local.actors.runtime import Informer
from controller_runtime import JsonObject, Key, KubeClient
from controller_runtime.kind_names import KindName

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
    found = Arrivals(accept)
    async with _following(client, kind, found):
        yield found


@asynccontextmanager
async def _following(client: KubeClient, kind: KindName, observer: "Arrivals | ProgressReports") -> AsyncIterator[None]:
    informer = Informer(client, kind)
    informer.listen(lambda key, obj: observer.on_change(key, obj, gone=informer.get(key) is None))
    async with asyncio.TaskGroup() as group:
        following = group.create_task(informer.run())
        try:
            await informer.synced.wait()
            yield
        finally:
            following.cancel()


class ProgressReports:
    """How often each AIMService reported that something is under way. Made by `progress_reports`.

    A state is reported when it lasts longer than its hold (FW-510), so their number depends on the speed of the machine
    and is at most that of the states, `STATES`.
    """

    STATES: Final = 5
    """Of a service whose cache is ready: no pods, pods pending, pods starting, pods ready, workload ready."""

    def __init__(self) -> None:
        self._counts: Counter[Key] = Counter()
        self._last: dict[Key, JsonObject] = {}

    def on_change(self, key: Key, obj: JsonObject, *, gone: bool) -> None:
        """Take a version."""
        status = obj.get("status") or {}
        if not gone and status != self._last.get(key, {}) and _is_progressing(status):
            self._counts[key] += 1
        if gone:
            self._last.pop(key, None)
        else:
            self._last[key] = status

    def total(self, keys: Iterable[Key]) -> int:
        """Reports of some objects together."""
        return sum(self._counts[key] for key in keys)

    def most(self, keys: Iterable[Key]) -> int:
        """Reports of the object that made most."""
        return max((self._counts[key] for key in keys), default=0)


@asynccontextmanager
async def progress_reports(client: KubeClient) -> AsyncIterator[ProgressReports]:
    """Watch AIMServices while the context is open."""
    found = ProgressReports()
    async with _following(client, kinds.AIM_SERVICE, found):
        yield found


def _is_progressing(status: JsonObject) -> bool:
    found: list[JsonObject] = [one for one in status.get("conditions") or () if one["type"] == "Ready"]
    ready = found[0] if found else {}
    return (ready.get("status"), ready.get("reason")) == ("False", "Progressing")


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
