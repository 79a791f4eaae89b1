"""Boxes and arrows as SVG: columns from left to right, no layout to be tuned by hand."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from itertools import accumulate
from typing import Final

_CHARACTER: Final = 7.4
"""Width of one in pixels, on average, of a text of 13 pixels."""
_SMALL: Final = 6.2
"""The same of a small one."""
_HEIGHT: Final = 46
_GAP: Final = 28
_MARGIN: Final = 20
_STYLE: Final = """\
.card{fill:#fff}.box{fill:#f6f7f9;stroke:#8a94a3}.subject{fill:#fdeceb;stroke:#c8372d;stroke-width:2}
.other{fill:#fff;stroke:#8a94a3;stroke-dasharray:4 3}
text{font:13px system-ui,sans-serif;fill:#1c2129;text-anchor:middle}
.small{font-size:11px;fill:#56606e}.edge{fill:none;stroke:#56606e;stroke-width:1.3}.head{fill:#56606e}.paper{fill:#fff}
@media(prefers-color-scheme:dark){.card,.paper{fill:#16191f}.box{fill:#232831;stroke:#727d8c}
.subject{fill:#43211f;stroke:#ef7a70}.other{fill:#16191f;stroke:#727d8c}text{fill:#e6e9ee}.small{fill:#a7b0bd}
.edge{stroke:#a7b0bd}.head{fill:#a7b0bd}}"""

_HEAD: Final = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="head" d="M0 0L8 4L0 8z"/></marker>'
)


class Look(StrEnum):
    """What a box is."""

    KIND = "box"
    SUBJECT = "subject"
    """What the picture is about."""
    OTHER = "other"
    """Foreign: users, Kubernetes, KServe, gateways, registries."""


@dataclass(frozen=True, slots=True)
class Box:
    """One part; its name is what edges refer to."""

    name: str
    note: str = ""
    look: Look = Look.KIND


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow, with a word or two."""

    start: str
    end: str
    word: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn.

    Attributes:
        title: said in place of the picture.
        columns: of boxes, from left to right.
    """

    title: str
    columns: Sequence[Sequence[Box]]
    edges: Sequence[Edge]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a box is: its left edge, its middle, its width."""

    column: int
    left: float
    middle: float
    width: float

    @property
    def right(self) -> float:
        return self.left + self.width


def svg(picture: Picture) -> str:
    """The picture as a file; equal pictures give equal files."""
    places, width, height = _placed(picture)
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(picture.title)}</title>",
        f"<style>{_STYLE}</style>",
        _HEAD,
        f'<rect class="card" width="{width:.0f}" height="{height:.0f}" rx="8"/>',
        *(line for edge in picture.edges for line in _arrow(places[edge.start], places[edge.end])),
        *(line for column in picture.columns for box in column for line in _box(box, places[box.name])),
        *(line for edge in picture.edges for line in _word(edge, places)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _placed(picture: Picture) -> tuple[Mapping[str, _Place], float, float]:
    """Where each box is, and the size of everything."""
    widths = [max(_width(box) for box in column) for column in picture.columns]
    words = [_room(picture, number) for number in range(len(widths))]
    lefts = list(accumulate((a + b for a, b in zip(widths, words, strict=True)), initial=float(_MARGIN)))
    tallest = max(len(column) for column in picture.columns)
    height = tallest * _HEIGHT + (tallest - 1) * _GAP + 2 * _MARGIN
    places = {}
    for number, column in enumerate(picture.columns):
        top = (height - len(column) * _HEIGHT - (len(column) - 1) * _GAP) / 2
        for row, box in enumerate(column):
            middle = top + row * (_HEIGHT + _GAP) + _HEIGHT / 2
            places[box.name] = _Place(number, lefts[number], middle, widths[number])
    return places, lefts[-1] - words[-1] + _MARGIN, height


def _room(picture: Picture, number: int) -> float:
    """Between a column and the next: the words of the arrows there."""
    here, there = ({box.name for box in column} for column in (picture.columns[number], _next(picture, number)))
    between = (edge for edge in picture.edges if {edge.start, edge.end} & here and {edge.start, edge.end} & there)
    return 40 + _SMALL * max((len(edge.word) for edge in between), default=0)


def _next(picture: Picture, number: int) -> Sequence[Box]:
    return picture.columns[number + 1] if number + 1 < len(picture.columns) else ()


def _width(box: Box) -> float:
    return max(len(box.name) * _CHARACTER, len(box.note) * _SMALL) + 24


def _box(box: Box, place: _Place) -> Iterator[str]:
    top, centre = place.middle - _HEIGHT / 2, place.left + place.width / 2
    area = f'x="{place.left:.1f}" y="{top:.1f}" width="{place.width:.1f}" height="{_HEIGHT}"'
    yield f'<rect class="{box.look}" {area} rx="6"/>'
    yield f'<text x="{centre:.1f}" y="{place.middle + (-2 if box.note else 5):.1f}">{escape(box.name)}</text>'
    if box.note:
        yield f'<text class="small" x="{centre:.1f}" y="{place.middle + 14:.1f}">{escape(box.note)}</text>'


def _ends(start: _Place, end: _Place) -> tuple[float, float, float, float]:
    """Where an arrow begins and ends."""
    if start.column == end.column:
        centre, down = start.left + start.width / 2, 1 if end.middle > start.middle else -1
        return centre, start.middle + down * _HEIGHT / 2, centre, end.middle - down * _HEIGHT / 2
    if start.column < end.column:
        return start.right, start.middle, end.left, end.middle
    return start.left, start.middle, end.right, end.middle


def _arrow(start: _Place, end: _Place) -> Iterator[str]:
    x, y, to_x, to_y = _ends(start, end)
    half = (x + to_x) / 2
    bend = f"C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    yield f'<path class="edge" marker-end="url(#head)" d="M{x:.1f} {y:.1f}{bend}"/>'


def _word(edge: Edge, places: Mapping[str, _Place]) -> Iterator[str]:
    if edge.word:
        start, end = places[edge.start], places[edge.end]
        x, y, to_x, to_y = _ends(start, end)
        width, middle, centre = len(edge.word) * _SMALL + 6, (y + to_y) / 2, (x + to_x) / 2
        centre += width / 2 + 4 if start.column == end.column else 0
        yield f'<rect class="paper" x="{centre - width / 2:.1f}" y="{middle - 8:.1f}" width="{width:.1f}" height="16"/>'
        yield f'<text class="small" x="{centre:.1f}" y="{middle + 4:.1f}">{escape(edge.word)}</text>'
