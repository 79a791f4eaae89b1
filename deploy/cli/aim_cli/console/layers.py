"""Where the nodes of a small graph stand: in columns from left to right, with few crossings. Pure.

The way of Sugiyama, Tagawa and Toda (1981) in its plainest form: break rings, give each node a column by its longest
way from the left, lead long edges through places of their own, sort each column by the middle of its neighbours, and
pull each node to these. No library does so where only Python is installed: Graphviz, also as the wheels of pygraphviz
bring it, needs GLib and X11 of the machine, grandalf is not kept any more, igraph has the GPL, and fast-sugiyama 0.5.3
does not end on some graphs of thirty nodes.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic, TypeAlias, TypeVar

N = TypeVar("N", bound=Hashable)

_SWEEPS: Final = 8
_NARROW: Final = 0.4
"""Room that an edge takes on its way through a column, of that of a node."""

Spot: TypeAlias = tuple[int, float]
"""Column, and place in it from above; nodes of a column are at least one apart."""


@dataclass(frozen=True, slots=True)
class Laid(Generic[N]):
    """Where everything stands.

    Attributes:
        spots: of each node.
        ways: of each edge, all spots from its beginning to its end.
    """

    spots: Mapping[N, Spot]
    ways: Mapping[tuple[N, N], tuple[Spot, ...]]


@dataclass(frozen=True, slots=True)
class _Bend(Generic[N]):
    """Where a long edge goes through a column."""

    edge: tuple[N, N]
    column: int


def laid_out(nodes: Sequence[N], edges: Iterable[tuple[N, N]]) -> Laid[N]:
    """Place a graph.

    Args:
        nodes: each once; the order decides where nothing else does, and which edge of a ring is drawn backwards.
        edges: between these; repetitions and edges from a node to itself count for nothing.
    """
    known = list(dict.fromkeys((one, other) for one, other in edges if one != other))
    forward = _without_rings(nodes, known)
    columns = _columns(nodes, forward)
    rails = {edge: _rail(edge, columns) for edge in known}
    stacks = _stacks(nodes, columns, rails.values())
    places = _placed(stacks, _neighbours(rails.values()))
    at = {place: (column, places[place]) for column, stack in enumerate(stacks) for place in stack}
    return Laid({one: at[one] for one in nodes}, {edge: tuple(at[one] for one in rail) for edge, rail in rails.items()})


def _without_rings(nodes: Sequence[N], edges: Sequence[tuple[N, N]]) -> list[tuple[N, N]]:
    """The edges, each that closes a ring turned round."""
    after: dict[N, list[N]] = {one: [] for one in nodes}
    for one, other in edges:
        after[one].append(other)
    found: dict[tuple[N, N], None] = {}
    done, under_way = set[N](), set[N]()

    def visit(one: N) -> None:
        under_way.add(one)
        for other in after[one]:
            found[(other, one) if other in under_way else (one, other)] = None
            if other not in done and other not in under_way:
                visit(other)
        under_way.discard(one)
        done.add(one)

    for one in nodes:
        if one not in done:
            visit(one)
    return list(found)


def _columns(nodes: Sequence[N], edges: Sequence[tuple[N, N]]) -> dict[N, int]:
    """The number of edges on the longest way to each node."""
    before: dict[N, list[N]] = {one: [] for one in nodes}
    for one, other in edges:
        before[other].append(one)
    found: dict[N, int] = {}

    def column(one: N) -> int:
        if one not in found:
            found[one] = max((column(other) + 1 for other in before[one]), default=0)
        return found[one]

    return {one: column(one) for one in nodes}


def _rail(edge: tuple[N, N], columns: Mapping[N, int]) -> list[N | _Bend[N]]:
    """An edge with the places that it goes through."""
    first, last = columns[edge[0]], columns[edge[1]]
    step = 1 if last >= first else -1
    return [edge[0], *(_Bend(edge, column) for column in range(first + step, last, step)), edge[1]]


def _stacks(
    nodes: Sequence[N], columns: Mapping[N, int], rails: Iterable[Sequence[N | _Bend[N]]]
) -> list[list[N | _Bend[N]]]:
    """What stands in each column, in the order in which it was told of."""
    stacks: list[list[N | _Bend[N]]] = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for one in nodes:
        stacks[columns[one]].append(one)
    for rail in rails:
        for place in rail:
            if isinstance(place, _Bend):
                stacks[place.column].append(place)
    return stacks


def _neighbours(rails: Iterable[Sequence[N | _Bend[N]]]) -> dict[N | _Bend[N], list[N | _Bend[N]]]:
    found: dict[N | _Bend[N], list[N | _Bend[N]]] = {}
    for rail in rails:
        for one, other in pairwise(rail):
            found.setdefault(one, []).append(other)
            found.setdefault(other, []).append(one)
    return found


def _placed(
    stacks: list[list[N | _Bend[N]]], neighbours: Mapping[N | _Bend[N], list[N | _Bend[N]]]
) -> dict[N | _Bend[N], float]:
    """How far from above everything is; sorts the stacks."""
    places: dict[N | _Bend[N], float] = {}
    for stack in stacks:
        places |= {one: float(number) for number, one in enumerate(stack)}
    column_of = {one: column for column, stack in enumerate(stacks) for one in stack}
    for sweep in range(_SWEEPS):
        # To the right each column follows the one before it, to the left the one behind.
        near, order = (-1, stacks) if sweep % 2 == 0 else (1, stacks[::-1])
        for stack in order:
            wanted = {}
            for one in stack:
                beside = column_of[one] + near
                those = [places[other] for other in neighbours.get(one, ()) if column_of[other] == beside]
                wanted[one] = sum(those) / len(those) if those else places[one]
            stack.sort(key=wanted.__getitem__)
            places |= zip(stack, _apart([wanted[one] for one in stack], list(map(_room, stack))), strict=True)
    top = min(places.values(), default=0.0)
    return {one: place - top for one, place in places.items()}


def _room(one: object) -> float:
    return _NARROW if isinstance(one, _Bend) else 1.0


def _apart(wanted: Sequence[float], rooms: Sequence[float]) -> list[float]:
    """As near as possible to where each wants to be, in the same order, with room for each.

    The distances are taken out, so that what remains has only to rise: neighbours that fall are put together at the
    middle of what they want, until none do (pool adjacent violators).
    """
    offsets = [0.0]
    for one, other in pairwise(rooms):
        offsets.append(offsets[-1] + (one + other) / 2)
    pools: list[tuple[float, int]] = []
    for wish, offset in zip(wanted, offsets, strict=False):
        total, count = wish - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before, number = pools.pop()
            total, count = total + before, count + number
        pools.append((total, count))
    level = [total / count for total, count in pools for _ in range(count)]
    return [one + offset for one, offset in zip(level, offsets, strict=False)]
