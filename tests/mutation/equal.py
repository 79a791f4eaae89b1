"""Changes that no test can notice, each with the reason: the changed code does the same.

A gap in the tests has no place here; it is printed until it is closed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutation.edits import Edit


@dataclass(frozen=True, slots=True)
class Change:
    """A change, named as it is printed: end of the path, function, and how it reads."""

    file: str
    function: str
    what: str

    def is_that(self, edit: Edit) -> bool:
        """Whether it is this one."""
        place = edit.place
        return (place.function, edit.what) == (self.function, self.what) and Path(place.file).match(self.file)


EQUAL: Final[Mapping[Change, str]] = {
    Change("aim_artifacts/source.py", "parse_source", "'/'  ->  '/~'"): (
        "the characters to strip: no path of a source ends with a tilde"
    ),
    Change("runtimeconfig/older.py", "_same_url", "'/'  ->  '/~'"): (
        "the characters to strip: no endpoint ends with a tilde"
    ),
    Change("aim_routing/address.py", "paths_overlap", "'/'  ->  '/~'"): (
        "the characters to strip: no path of a route ends with a tilde"
    ),
    Change(
        "aim_routing/address.py",
        "Address.overlaps",
        "paths_overlap(self.path, other.path)  ->  paths_overlap(other.path, self.path)",
    ): "whether two paths overlap does not depend on which is named first",
    Change("aim_model_sync/schedule.py", "fraction", "'|'  ->  '|~'"): (
        "what is hashed is spread like a random number, whatever stands between its parts"
    ),
    Change("aim_model_sync/reconcile.py", "_conclude", "0  ->  1"): (
        "how many models are missing is only told with the failure that kept them from being made"
    ),
}


def reason(edit: Edit) -> str | None:
    """Why nobody can notice the change; None where somebody should."""
    return next((why for change, why in EQUAL.items() if change.is_that(edit)), None)
