"""What two releases do not agree about, and which of it is meant so. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controller_runtime.json import JsonObject


class Finding(NamedTuple):
    """One thing that breaks somebody.

    Attributes:
        where: the definition with its version, the stream or the kind of message.
        path: of the field, setting or member in it; empty for the whole.
        what: is different now.
        breaks: whom, and how.
    """

    where: str
    path: str
    what: str
    breaks: str

    @property
    def name(self) -> str:
        """What the list of those that are meant so says of it."""
        return f"{self.where} {self.path or '.'}: {self.what}"

    def __str__(self) -> str:
        return f"{self.name}; {self.breaks}"


@dataclass(frozen=True, slots=True)
class Judged:
    """Findings sorted by what the list says.

    Attributes:
        open: those that nobody has given a reason for.
        meant: those that somebody has, with the reason.
        stale: names in the list that are no finding.
    """

    open: tuple[Finding, ...]
    meant: tuple[tuple[Finding, str], ...]
    stale: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """Whether somebody has to look, at a break or at the list (FW-667)."""
        return bool(self.open or self.stale)


def judged(findings: Sequence[Finding], reasons: Mapping[str, str]) -> Judged:
    """Sort findings; ``reasons`` by name, in which ``*`` stands for any characters."""
    patterns = {name: re.compile(".*".join(map(re.escape, name.split("*")))) for name in reasons}
    by_finding = [(one, [name for name in reasons if patterns[name].fullmatch(one.name)]) for one in findings]
    used = {name for _, names in by_finding for name in names}
    return Judged(
        tuple(one for one, names in by_finding if not names),
        tuple((one, reasons[names[0]]) for one, names in by_finding if names),
        tuple(name for name in reasons if name not in used),
    )


def reasons_of(entries: Iterable[JsonObject]) -> dict[str, str]:
    """The list, as it is written: ``finding`` and ``reason`` each.

    Raises:
        ValueError: an entry lacks one of them, or stands there twice.
    """
    found: dict[str, str] = {}
    for entry in entries:
        name, reason = str(entry.get("finding") or ""), str(entry.get("reason") or "").strip()
        if set(entry) != {"finding", "reason"} or not name or not reason:
            raise ValueError(f"an entry needs a finding and a reason, and nothing else: {entry}")
        if name in found:
            raise ValueError(f"{name!r} stands there twice")
        found[name] = reason
    return found
