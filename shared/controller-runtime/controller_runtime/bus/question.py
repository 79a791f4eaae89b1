"""Questions: what a decision asked the world, so that whoever asked is found when an answer changes.

There are a dozen for each object, and ten thousand objects. So a question is a number: its hash. Two that share one
wake a decision too many once in a while; none is ever missed.
"""

from typing import Final, TypeAlias

from controller_runtime.bus.part import GroupId, Key

Question: TypeAlias = int
"""Means the same in one process only."""

WHOLE: Final = "*"


def about_object(part: str, key: Key) -> Question:
    """What is the object of that name, if there is one?"""
    return hash((part, key))


def about_group(group: GroupId) -> Question:
    """Which objects are found under a value of an index; what does one group of a summary say?"""
    return hash(group)


def about_part(part: str) -> Question:
    """Which objects are there at all?"""
    return hash((part, WHOLE))
