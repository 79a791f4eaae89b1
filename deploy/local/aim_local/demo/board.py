"""Everything worth showing, kept from watches, with a signal for every change."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, final

from aim_domain import kinds
from aim_local.actors.runtime import Informer
from aim_local.demo.summary import Mood, Summary, summarise
from controller_runtime import JsonObject, Key, KubeClient
from controller_runtime.kind_names import KindName

PREDICATES: Final[tuple[KindName, ...]] = (
    kinds.AIM_SERVICE,
    kinds.AIM_MODEL,
    kinds.AIM_SERVICE_TEMPLATE,
    kinds.AIM_TEMPLATE_CACHE,
    kinds.AIM_ARTIFACT,
    kinds.PERSISTENT_VOLUME_CLAIM,
    kinds.JOB,
    kinds.INFERENCE_SERVICE,
    kinds.POD,
    kinds.HTTP_ROUTE,
)
"""Kinds of which each object in the demo's namespace has a line, from cause to effect."""
COUNTED: Final[tuple[KindName, ...]] = (
    kinds.AIM_CLUSTER_MODEL_SOURCE,
    kinds.AIM_CLUSTER_MODEL,
    kinds.AIM_CLUSTER_SERVICE_TEMPLATE,
)
"""Kinds of the catalogue, of which only the number in each state is shown."""

OnChange: TypeAlias = Callable[[str, Key, Summary | None], None]
"""Takes the kind, the key and the new summary of an object; None when it is gone."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the board."""

    kind: str
    name: str
    summary: Summary


@final
class Board:
    """The present state of the demo's objects."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._namespace = namespace
        self._informers = {kind.kind: Informer(client, kind) for kind in (*PREDICATES, *COUNTED)}
        self._summaries: dict[tuple[str, Key], Summary] = {}
        self._changed = asyncio.Event()
        self._listeners: list[OnChange] = []
        for kind, informer in self._informers.items():
            informer.listen(partial(self._on_change, kind))

    def listen(self, listener: OnChange) -> None:
        """Be called at every change of a summary."""
        self._listeners.append(listener)

    def get(self, kind: str, key: Key) -> JsonObject | None:
        """An object as last seen."""
        return self._informers[kind].get(key)

    def all(self, kind: str) -> list[JsonObject]:
        """All objects of a kind."""
        return list(self._informers[kind].objects.values())

    async def wait_changed(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that depends on the board."""
        while not holds():
            await self.wait_changed()

    def lines(self) -> Iterator[Line]:
        """What to show now."""
        for kind in PREDICATES:
            for key in sorted(self._informers[kind.kind].objects):
                summary = self._summaries[kind.kind, key]
                # The line of a Job stands for its pods that ended well.
                if key.namespace == self._namespace and (kind.kind, summary.state) != (kinds.POD.kind, "Succeeded"):
                    yield Line(kind.kind, key.name, summary)
        for kind in COUNTED:
            found = [self._summaries[kind.kind, key] for key in self._informers[kind.kind].objects]
            if found:
                yield Line(kind.kind, f"({len(found)})", _count(found))

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Keep the board up to date while the context is open."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.run()) for one in self._informers.values()]
            try:
                for informer in self._informers.values():
                    await informer.synced.wait()
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def _on_change(self, kind: str, key: Key, obj: JsonObject) -> None:
        identity = (kind, key)
        now = summarise({"kind": kind, **obj}) if self._informers[kind].get(key) is not None else None
        before = self._summaries.get(identity)
        if now is None:
            self._summaries.pop(identity, None)
        else:
            self._summaries[identity] = now
        if now != before:
            for listener in self._listeners:
                listener(kind, key, now)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _count(found: list[Summary]) -> Summary:
    states = Counter(one.state for one in found)
    moods = {one.mood for one in found}
    worst = next(mood for mood in (Mood.BAD, Mood.WAITING, Mood.GOOD) if mood in moods)
    return Summary(", ".join(f"{count} {state}" for state, count in states.most_common()), "", worst)
