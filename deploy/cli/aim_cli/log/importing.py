"""``aim import``: what a file of `aim export` holds, before anybody relies on it (FW-688).

Nothing is put into a broker, which would give messages numbers and times of its own: commands read the file in place.
"""

from collections import Counter
from pathlib import Path
from typing import Final

from aim_cli.answer import Answer, counted
from aim_cli.errors import Exit
from aim_cli.log.credentials import credentials
from aim_cli.log.file import Held, documents, read

_COVER: Final = "***"


def examined(path: Path) -> Answer:
    """Read all of a file, and tell what is in it.

    Raises:
        UnreadableError: there is no such file, or it is damaged or none of ours.
    """
    held = read(path)
    bare = sorted({one for line in documents(held) for one in credentials(line) if not one.startswith(_COVER)})
    told = _lines(path, held)
    remarks = (f"{counted(len(bare), 'credential')} in it not covered: give it to nobody",) if bare else ()
    return Answer(_data(path, held, len(bare)), told, Exit.FOUND if bare else Exit.WELL, remarks)


def _data(path: Path, held: Held, bare: int) -> dict[str, object]:
    times = sorted(one.record.at for one in held.decisions)
    return {
        "file": str(path),
        "decisions": dict(sorted(Counter(one.record.service for one in held.decisions).items())),
        "from": times[0].isoformat() if times else None,
        "to": times[-1].isoformat() if times else None,
        "versions": len(held.versions),
        "parts": sorted({part for part, _ in held.parts}),
        "namespaces": _namespaces(held),
        "completeSince": held.begins.isoformat(),
        "uncovered": bare,
    }


def _lines(path: Path, held: Held) -> tuple[str, ...]:
    services = sorted(Counter(one.record.service for one in held.decisions).items())
    by = ", ".join(f"{number} of {service}" for service, number in services)
    times = sorted(one.record.at for one in held.decisions)
    when = f", {times[0]:%Y-%m-%d %H:%M:%S} to {times[-1]:%H:%M:%S} UTC" if times else ""
    return (
        f"{path}: {counted(len(held.decisions), 'decision')}{f' ({by})' if by else ''}{when}",
        f"objects: {counted(len(held.versions), 'version')} in {', '.join(_namespaces(held)) or 'no namespace'}",
        f"take them again: aim replay {path}",
        f"look at them: AIM_NATS_URL={path} aim timeline KIND NAME",
    )


def _namespaces(held: Held) -> list[str]:
    return sorted({one.key.namespace for one in (*held.versions, *held.present) if one.key.namespace})
