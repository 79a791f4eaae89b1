"""How long an answer from outside may make anybody wait (FW-427).

A server names the wait (``Retry-After`` and its relatives), so the number can be anything. It is bounded where it is
read, and where it is slept out: what waits in place is short, because it holds a slot or a task meanwhile.
"""

from typing import Final

LONGEST_ANNOUNCED: Final = 3600.0
"""Seconds; a longer announcement counts as this much. Asking once an hour is no burden to anybody."""

LONGEST_IN_PLACE: Final = 10.0
"""Seconds that a request is held up for an announced wait; one that has to wait longer ends with an error."""


def bounded(announced: float) -> float:
    """The seconds for which an announced wait is respected."""
    return min(max(0.0, announced), LONGEST_ANNOUNCED)
