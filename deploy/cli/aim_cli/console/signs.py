"""The sign of a state: signs differ in shape, not in colour alone (FW-635)."""

from typing import Final

from aim_cli.cluster.states import Weight, weight_of

_MARKS: Final = {Weight.WELL: "well", Weight.UNDER_WAY: "way", Weight.HURT: "hurt", Weight.BROKEN: "broken"}
# What needs nobody is not well for that: no sign says so of what does not fit, goes, is not there, or has no state.
_NEITHER: Final = {"NotAvailable": "rest", "Terminating": "way", "missing": "hurt", "not known": "rest", "": "rest"}


def mark_of(state: str) -> str:
    """The name of the sign for a state."""
    return _NEITHER.get(state) or _MARKS[weight_of(state)]
