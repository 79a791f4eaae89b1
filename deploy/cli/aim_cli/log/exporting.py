"""``aim export``, ``aim import``, tests from decisions: files without credentials (FW-619…FW-625)."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Any, Final, TypeAlias

from aim_cli.answer import Answer, count_of
from aim_cli.errors import Exit, UnreadableError
from aim_cli.log.connecting import SUFFIX, history
from aim_cli.log.file import Entry, documents, scan, take, write
from aim_domain.masking import masked
from controller_runtime.log import DecisionFilter, StoredDecision

Json: TypeAlias = Any
"""Whatever JSON holds."""

_NAMES: Final = re.compile(r"(?:^|[_-])(?:tokens?|secret|passw(?:or)?d|credentials?|auth|key)$", re.IGNORECASE)
"""Of environment variables whose values are confidential."""
_MEMBERS: Final = re.compile(r"(?:token|password|api_?key|secret_?key|access_?key)$", re.IGNORECASE)
_OPTION: Final = re.compile(r"(--?[\w-]*(?:token|secret|password|api-key|access-key))(?:([= ])(\S+))?", re.IGNORECASE)
_SHORTEST: Final = 6
"""What is shorter also stands for something else: it is taken out where it is a credential, not wherever it stands."""


class Cover:
    """Puts the same cover over the same credential wherever it stands, so that what was equal stays equal.

    Attributes:
        known: what was found to be a credential → its cover.
    """

    def __init__(self, documents: Iterable[Json]) -> None:
        found = {value for document in documents for value in credentials(document)}
        self.known: Final = {value: f"***{number}" for number, value in enumerate(sorted(found), 1)}
        # The longest first: one may be part of another.
        everywhere = sorted((one for one in found if len(one) >= _SHORTEST), key=len, reverse=True)
        self._everywhere = re.compile("|".join(map(re.escape, everywhere))) if everywhere else None

    def over(self, value: Json) -> Json:
        """The JSON without credentials."""
        if isinstance(value, dict):
            return {self._text(key): self._member(value, key) for key in value}
        if isinstance(value, list):
            secret = {at for at, _ in _separate(value)}
            return [self._cover_of(one) if at in secret else self.over(one) for at, one in enumerate(value)]
        return self._text(value) if isinstance(value, str) else value

    def _member(self, of: dict[str, Json], key: str) -> Json:
        value = of[key]
        return self._cover_of(value) if isinstance(value, str) and _is_credential(of, key) else self.over(value)

    def _cover_of(self, value: str) -> str:
        return self.known.get(value, value)

    def _text(self, text: str) -> str:
        inner = _json_inside(text)
        if inner is not None:
            return json.dumps(self.over(inner), separators=(",", ":"))
        if self._everywhere is not None:
            text = self._everywhere.sub(lambda match: self.known[match[0]], text)
        return masked(_OPTION.sub(self._option, text))

    def _option(self, match: re.Match[str]) -> str:
        return match[0] if match[3] is None else f"{match[1]}{match[2]}{self.known.get(match[3], match[3])}"


def credentials(value: Json) -> Iterator[str]:
    """Every text in some JSON that stands where a credential does."""
    if isinstance(value, dict):
        yield from (one for key, one in value.items() if isinstance(one, str) and one and _is_credential(value, key))
        for one in value.values():
            yield from credentials(one)
    elif isinstance(value, list):
        yield from (one for _, one in _separate(value))
        for one in value:
            yield from credentials(one)
    elif isinstance(value, str):
        inner = _json_inside(value)
        yield from credentials(inner) if inner is not None else ()
        yield from (match[3] for match in _OPTION.finditer(value) if match[3]) if inner is None else ()


def _is_credential(of: dict[str, Json], key: str) -> bool:
    name = of.get("name")
    if key == "value" and isinstance(name, str):
        return _NAMES.search(name) is not None
    return _MEMBERS.search(key) is not None


def _separate(arguments: list[Json]) -> Iterator[tuple[int, str]]:
    """Arguments that follow the option that they are for."""
    for at, (option, value) in enumerate(pairwise(arguments), 1):
        texts = isinstance(option, str) and isinstance(value, str)
        if texts and _OPTION.fullmatch(option) and "=" not in option and not value.startswith("-"):
            yield at, value


def _json_inside(text: str) -> Json:
    """What kubectl writes into annotations; ``None`` of other texts."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


async def export(nats_url: str, path: Path, wanted: DecisionFilter) -> Answer:
    """Write a file, and tell what is in it.

    Raises:
        UnreachableError: the log cannot be read.
        UnreadableError: the file cannot be written.
    """
    if path.suffix != SUFFIX:
        raise UnreadableError(f"{path} would not be known as a log; end its name with {SUFFIX}")
    async with history(nats_url) as log:
        held = await take(log, wanted)
    if not held.decisions:
        return Answer({}, (), Exit.ABSENT, ("the event log holds no such decision; nothing was written",))
    lines = list(documents(held))
    cover = Cover(lines)
    await asyncio.to_thread(write, path, map(cover.over, lines))
    namespaces = sorted({one.key.namespace for one in (*held.versions, *held.present) if one.key.namespace})
    data = {
        "file": str(path),
        "decisions": len(held.decisions),
        "versions": len(held.versions),
        "parts": sorted({part for part, _ in held.parts}),
        "namespaces": namespaces,
        "covered": len(cover.known),
    }
    holds = f"{count_of(len(held.decisions), 'decision')}, {count_of(len(held.versions), 'version')}"
    reported = (
        f"{path}: {holds} of objects in {', '.join(namespaces) or 'no namespace'}",
        f"try it: aim replay {path}",
    )
    covered = f"{count_of(len(cover.known), 'credential')} covered; what is made from a hash of one comes out otherwise"
    remarks = (covered,) if cover.known else ()
    return Answer(data, reported, Exit.WELL, remarks)


_COVER: Final = "***"


@dataclass(slots=True)
class _Counts:
    """What is reported of a file; nothing of its lines is kept (FW-741)."""

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
    remarks = (f"{count_of(bare, 'credential')} in it not covered: share it with no one",) if bare else ()
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
        f"{path}: {count_of(counts.decisions.total(), 'decision')}{f' ({by})' if by else ''}{when}",
        f"objects: {count_of(counts.versions, 'version')} in {', '.join(sorted(counts.namespaces)) or 'no namespace'}",
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


_TEXT: Final = '''"""Recorded decisions{about}: today's code has to decide the same. Made by `aim replay --as-test`."""

from pathlib import Path

import pytest

from aim_cli.recorded import Recorded, recorded

LOG = Path(__file__).with_suffix("{suffix}")


@pytest.mark.parametrize("decision", recorded(LOG), ids=str)
def test_comes_out_as_recorded(decision: Recorded) -> None:
    again = decision.taken_again()
    assert again.missing == ()
    assert again.differences == ()
'''


async def as_test(nats_url: str, wanted: DecisionFilter, path: Path) -> Answer:
    """Write a test, and beside it the file with what it needs.

    Raises:
        UnreachableError: the log cannot be read.
        UnreadableError: a file cannot be written.
    """
    if path.suffix != ".py":
        raise UnreadableError(f"{path} would not be found as a test; end its name with .py")
    log = path.with_suffix(SUFFIX)
    exported = await export(nats_url, log, wanted)
    if exported.code is not Exit.WELL:
        return exported
    about = f" about {wanted.part} {wanted.namespace or ''}/{wanted.name}" if wanted.name else ""
    try:
        await asyncio.to_thread(path.write_text, _TEXT.format(about=about, suffix=SUFFIX), "utf-8")
    except OSError as error:
        raise UnreadableError(f"{path} cannot be written: {error.strerror}") from error
    assert isinstance(exported.data, dict)
    lines = (f"{path}: a test of {exported.data['decisions']} decisions, from {log}", f"try it: pytest {path}")
    return Answer({**exported.data, "test": str(path)}, lines, Exit.WELL, exported.remarks)
