"""Following blockers from object to object."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aim_cli.why.blockers import Blocker, Ref, Search, Towards, blockers_of
from controller_runtime import JsonObject, Kind

_DEEPEST: Final = 8
"""Objects in a row; a chain of the platform has five."""
_MOST: Final = 5
"""Objects of one search that are followed."""


class Cluster(Protocol):
    """What is asked about objects."""

    async def find(self, ref: Ref) -> JsonObject | None:
        """The object; ``None`` if there is none."""

    async def search(self, kind: Kind[Any], namespace: str) -> Iterable[JsonObject]:
        """All objects of a kind, in a namespace if it has any."""


@dataclass(frozen=True, slots=True)
class Link:
    """An object, and what keeps it from being ready; ``blocker`` is ``None`` where the object itself is missing."""

    ref: Ref
    blocker: Blocker | None


async def causes(cluster: Cluster, start: Ref, obj: JsonObject) -> list[tuple[Link, ...]]:
    """The ways from the object to what is in the way at last, the longest first; none if nothing is."""
    found: list[tuple[Link, ...]] = []
    seen = {start}

    async def follow(ref: Ref, current: JsonObject, before: tuple[Link, ...]) -> None:
        for blocker in blockers_of(ref.kind, current):
            way = (*before, Link(ref, blocker))
            went_on = False
            for further, there in await _there(cluster, blocker.towards):
                if further in seen or len(way) >= _DEEPEST:
                    continue
                seen.add(further)
                if there is None:
                    found.append((*way, Link(further, None)))
                    went_on = True
                elif blockers_of(further.kind, there):
                    await follow(further, there, way)
                    went_on = True
            if not went_on:
                found.append(way)

    await follow(start, obj, ())
    return sorted(found, key=len, reverse=True)


async def _there(cluster: Cluster, towards: Iterable[Towards]) -> list[tuple[Ref, JsonObject | None]]:
    found: list[tuple[Ref, JsonObject | None]] = []
    for one in towards:
        if isinstance(one, Search):
            matching = [obj for obj in await cluster.search(one.kind, one.namespace) if one.matches(obj)]
            found += [(_ref(one.kind, obj), obj) for obj in matching[:_MOST]]
        else:
            found.append((one, await cluster.find(one)))
    return found


def _ref(kind: Kind[Any], obj: JsonObject) -> Ref:
    return Ref(kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
