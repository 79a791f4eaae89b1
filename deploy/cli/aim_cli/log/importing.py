"""``aim import``: what a file of `aim export` holds, before anybody relies on it (FW-688).

Nothing is put into a broker, which would give messages numbers and times of its own: commands read the file in place.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Final

from aim_cli.answer import Answer, counted
from aim_cli.errors import Exit
from aim_cli.log.connecting import SUFFIX
from aim_cli.log.credentials import credentials
from aim_cli.log.file import Entry, scan
from controller_runtime.bus.history import StoredDecision

_COVER: Final = "***"


@dataclass(slots=True)
class _Counts:
    """What is told of a file; nothing of its lines is kept (FW-741)."""

    begins: datetime
    parts: list[str]
    decisions: Counter[str] = field(default_factory=Counter)
    versions: int = 0
    namespaces: set[str] = field(default_factory=set)
    first: datetime | None = None
    last: datetime | None = None
    uncovered: set[int] = field(default_factory=set)

    def add(self, entry: Entry) -> None:
        """Count a line."""
        self.uncovered.update(hash(one) for one in credentials(entry.line) if not one.startswith(_COVER))
        if isinstance(entry.value, StoredDecision):
            at = entry.value.record.at
            self.decisions[entry.value.record.service] += 1
            self.first = min(self.first or at, at)
            self.last = max(self.last or at, at)
        elif entry.value is not None:
            self.versions += entry.line["is"] == "version"
            self.namespaces.update(filter(None, (entry.value.key.namespace,)))


def examined(path: Path) -> Answer:
    """Read all of a file, and tell what is in it.

    Raises:
        UnreadableError: there is no such file, it is damaged or none of ours, or it is too large (FW-741).
    """
    entries = scan(path)
    head = next(entries).line
    counts = _Counts(datetime.fromisoformat(head["begins"]), sorted({part for part, _ in head["parts"]}))
    for entry in entries:
        counts.add(entry)
    bare = len(counts.uncovered)
    remarks = (f"{counted(bare, 'credential')} in it not covered: share it with no one",) if bare else ()
    return Answer(_data(path, counts), _lines(path, counts), Exit.FOUND if bare else Exit.WELL, remarks)


def _data(path: Path, counts: _Counts) -> dict[str, object]:
    return {
        "file": str(path),
        "decisions": dict(sorted(counts.decisions.items())),
        "from": counts.first.isoformat() if counts.first else None,
        "to": counts.last.isoformat() if counts.last else None,
        "versions": counts.versions,
        "parts": counts.parts,
        "namespaces": sorted(counts.namespaces),
        "completeSince": counts.begins.isoformat(),
        "uncovered": len(counts.uncovered),
    }


def _lines(path: Path, counts: _Counts) -> tuple[str, ...]:
    by = ", ".join(f"{number} of {service}" for service, number in sorted(counts.decisions.items()))
    when = ""
    if counts.first is not None and counts.last is not None:
        when = f", {counts.first:%Y-%m-%d %H:%M:%S} to {counts.last:%H:%M:%S} UTC"
    return (
        f"{path}: {counted(counts.decisions.total(), 'decision')}{f' ({by})' if by else ''}{when}",
        f"objects: {counted(counts.versions, 'version')} in {', '.join(sorted(counts.namespaces)) or 'no namespace'}",
        f"take them again: aim replay {quote(str(path))}",
        f"look at them: {_to_look(path)}",
    )


def _to_look(path: Path) -> str:
    """A command that works when it is typed: an address is that of a file by the end of its name (FW-620)."""
    name = quote(str(path))
    if path.name.endswith(SUFFIX):
        return f"AIM_NATS_URL={name} aim timeline KIND NAME"
    readable = quote(f"{path}{SUFFIX}")
    return f"mv {name} {readable} && AIM_NATS_URL={readable} aim timeline KIND NAME"
