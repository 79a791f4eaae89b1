"""Which changes of an object matter to those who look at a part of it."""

from collections.abc import Callable
from typing import TypeVar

from controller_runtime.api.meta import Resource
from controller_runtime.bus.entry import Change

T = TypeVar("T", bound=Resource)


def differs(change: Change[T], shown: Callable[[T], object]) -> bool:
    """Creation, deletion, or a change of what ``shown`` makes of the object; it includes the UID where that counts."""
    before, after = change.before, change.after
    return before is None or after is None or shown(before) != shown(after)
