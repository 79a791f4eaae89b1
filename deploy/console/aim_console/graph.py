"""What belongs to an object as a drawing: boxes in columns, their signs, and lines between them (FW-635)."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic, TypeAlias, TypeVar

from aim_cli.cluster.refs import Ref
from aim_cli.cluster.states import Weight, weight_of
from aim_cli.objects.tree import Node
from aim_cli.why.blockers import Link

_MARKS: Final = {Weight.WELL: "well", Weight.UNDER_WAY: "way", Weight.HURT: "hurt", Weight.BROKEN: "broken"}
# What needs no attention is not well for that: no sign for what does not fit, goes, is not there, or has no state.
_NEITHER: Final = {"NotAvailable": "rest", "Terminating": "way", "missing": "hurt", "not known": "rest", "": "rest"}


def mark_of(state: str) -> str:
    """The name of the sign for a state."""
    return _NEITHER.get(state) or _MARKS[weight_of(state)]


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
    """What stands in each column, in the order in which it was added."""
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


MOST: Final = 100
"""Boxes of a drawing; a larger one is unreadable."""
WIDTH: Final = 210
HEIGHT: Final = 68
_COLUMN: Final = WIDTH + 46
_ROW: Final = HEIGHT + 12
_MARGIN: Final = 4
_LETTERS: Final = 28


@dataclass(frozen=True, slots=True)
class Box:
    """One object; `x` and `y` of its upper left corner, in pixels.

    Attributes:
        name: in lines that fit, shortened where it takes more than two.
        cause: whether this is what is in the way at last.
    """

    ref: Ref
    href: str
    name: tuple[str, ...]
    state: str
    mark: str
    reason: str
    x: float
    y: float
    cause: bool


@dataclass(frozen=True, slots=True)
class Line:
    """From what an object is made for, uses or waits for (``made``, ``uses``, ``waits``); the data of an SVG path."""

    relation: str
    path: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """All of it.

    Attributes:
        left_out: objects for which there was no room.
    """

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    left_out: int

    @property
    def relations(self) -> frozenset[str]:
        """Of all lines."""
        return frozenset(line.relation for line in self.lines)


def drawing(root: Node, ways: Iterable[Sequence[Link]], address: Callable[[Ref], str]) -> Drawing:
    """Draw a tree, in which an object may stand twice, and the ways to what is in the way of its root.

    Args:
        ways: from the root; what is not in the tree is drawn as well.
        address: of the page of an object.
    """
    nodes: dict[Ref, Node] = {}
    edges: dict[tuple[Ref, Ref], str] = {}
    _gather(root, nodes, edges)
    some = list(ways)
    for way in some:
        for link in way:
            reason = "" if link.blocker is None else link.blocker.reason
            nodes.setdefault(link.ref, Node(link.ref, "", "missing" if link.blocker is None else "", reason))
        edges |= {(one.ref, other.ref): "waits" for one, other in pairwise(way)}
    cause = some[0][-1].ref if some else None
    shown = list(nodes)[:MOST]
    drawn = {edge: relation for edge, relation in edges.items() if set(edge) <= set(shown)}
    laid = laid_out(shown, drawn)
    boxes = tuple(_box(nodes[ref], laid.spots[ref], root.ref, address, cause=ref == cause) for ref in shown)
    return Drawing(
        max(box.x for box in boxes) + WIDTH + _MARGIN,
        max(box.y for box in boxes) + HEIGHT + _MARGIN,
        boxes,
        # What is waited for lies over the others.
        tuple(sorted(_lines(laid, drawn), key=lambda line: line.relation == "waits")),
        len(nodes) - len(shown),
    )


def _gather(node: Node, nodes: dict[Ref, Node], edges: dict[tuple[Ref, Ref], str]) -> None:
    if not node.again:
        nodes[node.ref] = node
    else:
        nodes.setdefault(node.ref, node)
    for below in node.below:
        edges.setdefault((node.ref, below.ref), below.relation)
        _gather(below, nodes, edges)


def _box(node: Node, spot: Spot, root: Ref, address: Callable[[Ref], str], *, cause: bool) -> Box:
    ref = node.ref
    name = ref.name if ref.namespace in ("", root.namespace) else f"{ref.namespace}/{ref.name}"
    x, y = _corner(spot)
    return Box(ref, address(ref), name_lines(name), node.state, mark_of(node.state), node.reason, x, y, cause)


def name_lines(name: str) -> tuple[str, ...]:
    """A name in one line or two; names that are made differ at both ends, so what goes is the middle."""
    if len(name) <= _LETTERS:
        return (name,)
    if len(name) > 2 * _LETTERS:
        return (f"{name[: _LETTERS - 1]}…", name[-_LETTERS:])
    # Names are read in the parts that hyphens make of them.
    breaks = [place + 1 for place, letter in enumerate(name) if letter in "-/."]
    fits = [place for place in breaks if place <= _LETTERS and len(name) - place <= _LETTERS]
    place = min(fits, key=lambda one: abs(len(name) - 2 * one), default=(len(name) + 1) // 2)
    return (name[:place], name[place:])


def _corner(spot: Spot) -> tuple[float, float]:
    return _MARGIN + spot[0] * _COLUMN, round(_MARGIN + spot[1] * _ROW, 1)


def _lines(laid: Laid[Ref], edges: dict[tuple[Ref, Ref], str]) -> Iterable[Line]:
    for edge, relation in edges.items():
        points = [(x, y + HEIGHT / 2) for x, y in map(_corner, laid.ways[edge])]
        back = points[-1][0] <= points[0][0]
        # From the side of a box to the facing side of the next; through a column straight.
        parts = []
        for number, ((x, y), (to_x, to_y)) in enumerate(pairwise(points)):
            begin, end = (x, to_x + WIDTH) if back else (x + WIDTH, to_x)
            middle = (begin + end) / 2
            start = f"{'M' if number == 0 else 'L'}{begin:g} {y:g}"
            parts.append(f"{start}C{middle:g} {y:g} {middle:g} {to_y:g} {end:g} {to_y:g}")
        yield Line(relation, "".join(parts))
