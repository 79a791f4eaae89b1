"""What images cost: the size that is pulled, what of it other images have too, and in how many layers."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aim_packaging.images.layout import Image

_MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """The compressed sizes of an image, in bytes.

    Attributes:
        own: of layers that no other of the images has.
        shared: of the layers that another one has.
        layers: how many there are, empty ones too.
    """

    name: str
    size: int
    own: int
    shared: int
    layers: int


def rows(images: Iterable[Image]) -> list[Row]:
    """A row for each image."""
    taken = list(images)
    counted = Counter(digest for one in taken for digest in {layer.digest for layer in one.layers})
    found = []
    for one in taken:
        own = sum(layer.size for layer in one.layers if counted[layer.digest] == 1)
        found.append(Row(one.name, one.size, own, one.size - own, len(one.layers)))
    return found


def pulled(images: Iterable[Image]) -> int:
    """Bytes that a node pulls for all images together."""
    return sum({layer.digest: layer.size for one in images for layer in one.layers}.values())


def lines(images: Iterable[Image]) -> Iterator[str]:
    """The table as text."""
    taken = list(images)
    found = rows(taken)
    width = max((len(one.name) for one in found), default=5)
    yield f"{'image':<{width}}  {'size':>9}  {'own':>9}  {'shared':>9}  layers"
    for one in found:
        cells = "  ".join(f"{megabytes(size):>9}" for size in (one.size, one.own, one.shared))
        yield f"{one.name:<{width}}  {cells}  {one.layers:>6}"
    apart = sum(one.size for one in found)
    yield f"all {len(found)} together: {megabytes(pulled(taken))}; each by itself: {megabytes(apart)}"


def megabytes(size: int) -> str:
    """In MB, or in kB where MB would be 0."""
    return f"{size / _MEGABYTE:.1f} MB" if size >= _MEGABYTE / 10 else f"{size / 1000:.1f} kB"
