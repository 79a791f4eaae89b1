"""Following blockers from object to object."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aim_cli.cluster.refs import Cluster, JsonObject, Ref, ref_of
from aim_cli.cluster.resources import CLAIM, EVENT, HTTP_ROUTE, INFERENCE_SERVICE
from aim_cli.why.blockers import Blocker, Search, Towards, blockers_of, last_seen

_DEEPEST: Final = 10
"""Objects in a row; a chain of the platform has seven."""
_MOST: Final = 5
"""Objects of one search that are followed."""
_MADE: Final = frozenset({CLAIM, HTTP_ROUTE, INFERENCE_SERVICE})
"""What the platform makes by itself for an object."""


_UNBOUND: Final = "unbound immediate PersistentVolumeClaims"
"""What the scheduler says of a pod whose claim has no volume: why not, the claim's Events say."""
_ROOTS: Final = frozenset(
    {"GPUNotAvailable", "GPUNotSchedulable", "VRAMNotAvailable", "NodeNotReady", "ProvisioningFailed", "FailedCreate"}
)
"""Reasons behind which there is no other."""


def rank(way: tuple["Link", ...]) -> tuple[bool, bool, int]:
    """Sorts ways, the one to read first first: causes before their consequences, then the longest (FW-605)."""
    last = way[-1].blocker
    is_consequence = last is not None and _UNBOUND in last.message
    return is_consequence, last is None or last.reason not in _ROOTS, -len(way)


@dataclass(frozen=True, slots=True)
class Link:
    """An object, and what keeps it from being ready; ``blocker`` is ``None`` where the object itself is missing."""

    ref: Ref
    blocker: Blocker | None


def causes(cluster: Cluster, start: Ref, obj: JsonObject) -> list[tuple[Link, ...]]:
    """The ways from the object to what is in the way at last, the longest first; none if nothing is."""
    found: list[tuple[Link, ...]] = []
    seen = {start}

    def follow(ref: Ref, current: JsonObject, before: tuple[Link, ...]) -> None:
        for blocker in blockers_of(ref.kind, current):
            way = (*before, Link(ref, blocker))
            went_on = False
            for further, there in _there(cluster, blocker.towards):
                if further in seen or len(way) >= _DEEPEST:
                    continue
                seen.add(further)
                if there is None and further.kind in _MADE:
                    # Whoever would make it says itself what it waits for; that it is missing is no cause.
                    continue
                if there is None:
                    found.append((*way, Link(further, None)))
                    went_on = True
                elif blockers_of(further.kind, there):
                    follow(further, there, way)
                    went_on = True
            if not went_on:
                found.append(way)

    follow(start, obj, ())
    return sorted(found, key=len, reverse=True)


def _there(cluster: Cluster, towards: Iterable[Towards]) -> list[tuple[Ref, JsonObject | None]]:
    found: list[tuple[Ref, JsonObject | None]] = []
    for one in towards:
        if isinstance(one, Search):
            some = cluster.search(one.kind, one.namespace, one.labels, one.fields)
            matching = [obj for obj in some if one.matches(obj)]
            if one.kind == EVENT:
                # What happened last is what is in the way now.
                matching = sorted(matching, key=last_seen)[-1:]
            found += [(ref_of(one.kind, obj), obj) for obj in matching[:_MOST]]
            continue
        there = cluster.find(one)
        # Of what may not be read nobody can say that it is missing.
        if there is not None or str(one) not in cluster.unasked:
            found.append((one, there))
    return found
