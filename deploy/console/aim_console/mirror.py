"""The present of the platform as the broker tells it, in the memory of this process (FW-630).

No request to the API server: whatever the five services know of the cluster, this knows from the same streams.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Never, TypeVar

from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.errors import UnreachableError
from aim_cli.log.connecting import broker, layout
from aim_cli.log.refusals import refused_by_broker
from aim_cli.parts import PARTS
from aim_domain import labels
from aim_domain.kind_names import JOB, POD, KindName
from aim_domain.parts import NAMESPACES
from controller_runtime import Cache, Change, Depth, Index, Key, Part
from controller_runtime import Resource as Meta
from controller_runtime.log import FACTS_PART, BusConnection, CacheFeed, Entry, History

T = TypeVar("T")
OBJECT_PARTS: Final = tuple(part for part in PARTS if part.name != FACTS_PART)


def _owners(obj: Meta) -> list[str]:
    return [one.uid for one in obj.metadata.owner_references]


# Not by namespace as well: what is made for an object of the cluster may be in any. The caller compares the
# references, and sees what they may list, so that a stranger's claim to be a child shows nothing (FW-594).
_OWNED: Final[Mapping[str, Index[Any]]] = {
    part.name: Index(part, "owners", _owners, Depth.METADATA) for part in OBJECT_PARTS
}

_SEARCHED: Final = (
    labels.KSERVE_INFERENCE_SERVICE,
    labels.CACHE_NAME,
    labels.TEMPLATE,
    labels.JOB_NAME,
)
"""Labels by whose values `aim why` looks for pods and Jobs."""


def _labels_of(obj: Meta) -> list[str]:
    return [f"{name}={value}" for name in _SEARCHED if (value := obj.metadata.labels.get(name))]


_LABELLED: Final[Mapping[str, Index[Any]]] = {
    part.name: Index(part, "labels", _labels_of, Depth.METADATA)
    for part in OBJECT_PARTS
    if part.kind.resource in (JOB.resource, POD.resource)
}


@dataclass(frozen=True, slots=True)
class PartLine:
    """How much is known of one part.

    Attributes:
        known: whether it was ever complete; of kinds that the cluster does not have it never is.
        age: seconds since its publisher last confirmed it; ``None`` if it never did.
        epoch: that it is in; empty before the first version.
    """

    name: str
    objects: int
    known: bool
    fresh: bool
    age: float | None
    epoch: str = ""


class Mirror:
    """What there is, and how often that changed.

    Attributes:
        version: rises with every change.
        lost_at: since when the broker has not answered; ``None`` while it does.
        following: of a `mirror`; when it ends, nothing more is learnt.
        ended: set when no listener receives changes any more, because the process is about to end.
    """

    following: asyncio.Future[None]

    def __init__(self, connection: BusConnection) -> None:
        self.version = 0
        self.lost_at: datetime | None = None
        self.ended = asyncio.Event()
        self.history = History(connection, layout())
        self.connection = connection
        self._cache = Cache(OBJECT_PARTS, (*_OWNED.values(), *_LABELLED.values()))
        self._feed = CacheFeed(self._cache, connection, "console", self._note_changes, None, layout=layout())
        self._moved = asyncio.Event()
        self._made: dict[tuple[str, Callable[..., Any]], dict[Key, Any]] = {}
        self._parts = {part.name: part for part in OBJECT_PARTS}

    def _note_changes(self, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            for (part, _), kept in self._made.items():
                if part == change.part.name:
                    kept.pop(change.key, None)
        if changes:
            self._move()

    def _move(self) -> None:
        self.version += 1
        self._moved.set()

    def end(self) -> None:
        """Let everybody go who waits for a change."""
        self.ended.set()
        self._move()

    async def run(self) -> None:
        """Follow the broker until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._feed.run())
            group.create_task(self._follow_connection())

    async def _follow_connection(self) -> None:
        while True:
            session = await self.connection.wait_connected()
            self.lost_at = None
            self._move()
            await self.connection.wait_lost(session)
            self.lost_at = datetime.now(UTC)
            self._move()

    async def wait_changed(self, version: int) -> int:
        """Wait until the version is another one; returns it."""
        while self.version == version:
            self._moved.clear()
            await self._moved.wait()
        return self.version

    @property
    def was_reached(self) -> bool:
        """Whether the broker has ever answered."""
        return self.version > 0

    @property
    def complete(self) -> bool:
        """Whether every part that the services need is known."""
        return all(line.known for line in self.parts if not self._parts[line.name].optional)

    @property
    def refused(self) -> str:
        """What the broker refuses that is needed to know everything, and what to do; empty if nothing (FW-731)."""
        return refused_by_broker(self.connection.statistics)

    @property
    def stale(self) -> list[str]:
        """Parts without a checkpoint, of those that the services need or that were known once."""
        return [one.name for one in self.parts if not one.fresh and (one.known or not self._parts[one.name].optional)]

    @property
    def parts(self) -> tuple[PartLine, ...]:
        """Each part, by name."""
        lines = (
            PartLine(one.part, one.objects, one.synced, one.fresh, one.age, self._cache.epoch(self._parts[one.part]))
            for one in self._feed.statistics.parts
        )
        return tuple(sorted(lines, key=lambda line: line.name))

    @property
    def namespaces(self) -> set[str]:
        """Namespaces with an object of any kind."""
        return {entry.key.namespace for part in OBJECT_PARTS for entry in self._cache.all(part) if entry.key.namespace}

    def creation_times(self, namespaces: Iterable[str]) -> dict[str, datetime]:
        """When namespaces were made, of those that are there; none while that is not confirmed."""
        if not self._cache.is_fresh(NAMESPACES):
            return {}
        known = ((name, self._cache.get(NAMESPACES, Key("", name))) for name in namespaces)
        reported = (
            (name, entry.raw["metadata"].get("creationTimestamp")) for name, entry in known if entry is not None
        )
        return {name: datetime.fromisoformat(at) for name, at in reported if at}

    def holds(self, kind: KindName) -> bool:
        """Whether objects of a kind are published at all."""
        return any(part.kind.resource == kind.resource for part in OBJECT_PARTS)

    def object(self, ref: Ref) -> JsonObject | None:
        """One object."""
        key = Key(ref.namespace, ref.name)
        for part in OBJECT_PARTS:
            if part.kind.resource == ref.kind.resource and (entry := self._cache.get(part, key)) is not None:
                return _json(entry, ref.kind)
        return None

    def objects(self, kind: KindName, namespace: str, owner: str, label: str = "") -> Iterable[JsonObject]:
        """Objects of a kind: of a namespace, of the owner with a UID, or with a label, unless these are empty."""
        for part in OBJECT_PARTS:
            if part.kind.resource == kind.resource:
                entries = self._select(part, owner, label)
                # Only what is wanted is decoded, which takes longer than everything else.
                yield from (_json(entry, kind) for entry in entries if namespace in ("", entry.key.namespace))

    def _select(self, part: Part[Any], owner: str, label: str) -> Iterable[Entry[Any]]:
        if owner:
            return self._cache.select(_OWNED[part.name], owner)
        index = _LABELLED.get(part.name)
        if index is not None and label.partition("=")[0] in _SEARCHED and "=" in label:
            return self._cache.select(index, label)
        return self._cache.all(part)

    def each(
        self, kind: KindName, namespace: str, make: Callable[[KindName, JsonObject], T]
    ) -> Iterator[tuple[str, T]]:
        """What a function makes of each object of a kind, once for each version, with its namespace (FW-675)."""
        for part in OBJECT_PARTS:
            if part.kind.resource != kind.resource:
                continue
            kept = self._made.setdefault((part.name, make), {})
            for entry in self._cache.all(part):
                if namespace in ("", entry.key.namespace):
                    if entry.key not in kept:
                        kept[entry.key] = make(kind, _json(entry, kind))
                    yield entry.key.namespace, kept[entry.key]

    def unknowns(self, _: KindName) -> Mapping[Ref, str]:
        """None: what is not known here yet, the page says of the part."""
        return {}

    def owned(self, kind: KindName, owner: str) -> Iterator[Ref]:
        """The names of what an owner has."""
        for part in OBJECT_PARTS:
            if part.kind.resource == kind.resource:
                entries = self._cache.select(_OWNED[part.name], owner)
                yield from (Ref(kind, entry.key.namespace, entry.key.name) for entry in entries)


def _json(entry: Entry[Any], kind: KindName) -> JsonObject:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **entry.raw}


@asynccontextmanager
async def mirror(nats_url: str, *, at_once: bool = True) -> AsyncIterator[Mirror]:
    """A mirror that follows the broker.

    Args:
        at_once: whether the broker has to answer before anything else is done.

    Raises:
        UnreachableError: it does not, and had to.
    """
    async with broker(nats_url, at_once=at_once) as connection:
        found = Mirror(connection)
        found.following = asyncio.ensure_future(found.run())
        try:
            yield found
        finally:
            found.following.cancel()
            await asyncio.wait((found.following,))


async def wait_ended(serving: "asyncio.Future[Any]", present: Mirror) -> Never:
    """Wait until the pages are served no more, or nothing more is learnt from the broker (FW-677).

    Raises:
        UnreachableError: one of them ended; what made it end is raised where that is known.
    """
    lasting = {serving: "the server of the pages", present.following: "what follows the message broker"}
    done, _ = await asyncio.wait(lasting, return_when=asyncio.FIRST_COMPLETED)
    first = next(one for one in lasting if one in done)
    if not first.cancelled():
        first.result()
    raise UnreachableError(f"{lasting[first]} has ended; restart the console")
