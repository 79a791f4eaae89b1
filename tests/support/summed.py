"""What a summary says, summed up from scratch instead of kept by a cache."""

from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel

from controller_runtime import Resource, Summary

T = TypeVar("T", bound=Resource)
E = TypeVar("E", bound=BaseModel)


def items_of(summary: Summary[T, E], objects: Iterable[T], group: str) -> tuple[E, ...]:
    """The items of one group, in the order of a cache."""
    said = {item for obj in objects for name, item in summary.contributions(obj) if name == group}
    return tuple(sorted(said, key=lambda item: item.model_dump_json()))
