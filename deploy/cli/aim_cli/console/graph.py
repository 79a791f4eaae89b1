"""What belongs to an object as a drawing: boxes that lead to pages, and lines between them (FW-671). Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from aim_cli.cluster.refs import Ref
from aim_cli.console.layers import Laid, Spot, laid_out
from aim_cli.console.signs import mark_of
from aim_cli.objects.tree import Node
from aim_cli.why.chain import Link

MOST: Final = 100
"""Boxes of a drawing; a larger one nobody can read."""
WIDTH: Final = 210
HEIGHT: Final = 54
_COLUMN: Final = WIDTH + 46
_ROW: Final = HEIGHT + 12
_MARGIN: Final = 4
_LETTERS: Final = 30


@dataclass(frozen=True, slots=True)
class Box:
    """One object; `x` and `y` of its upper left corner, in pixels.

    Attributes:
        name: shortened to fit.
        cause: whether this is what is in the way at last.
    """

    ref: Ref
    href: str
    name: str
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
    return Box(ref, address(ref), shortened(name), node.state, mark_of(node.state), node.reason, x, y, cause)


def shortened(name: str) -> str:
    """Names that are made differ at both ends, so what goes is the middle."""
    if len(name) <= _LETTERS:
        return name
    half = (_LETTERS - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


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
