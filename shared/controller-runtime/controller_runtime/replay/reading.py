"""What the replay of some decisions reads from the log: at first the present, and of the past what that does not tell.

An object that has not changed since a decision is known from the state stream. Of one that has, a section of its chain
is read: the last version that was logged before the decisions, those that were logged while they were taken, and the
next one behind, which proves that there is no other. Only where that does not tell either, all of it is read.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Final, TypeAlias

from controller_runtime.bus.chain import Chain, LoggedVersion, chained, place_of
from controller_runtime.bus.history import History, LoggedSpan, PartOf, Span, StoredDecision
from controller_runtime.bus.part import Key
from controller_runtime.replay.past import Past

Present: TypeAlias = dict[PartOf, dict[Key, LoggedVersion]]
"""What the state stream holds, by part."""

Named: TypeAlias = Mapping[tuple[str, Key], Chain]
"""All that is kept of objects that decisions name."""

NEAR: Final = 2_000
"""Messages of the history between two decisions for which it is cheaper to read them than to begin anew."""
_LOOK_BACK: Final = timedelta(seconds=10)
"""For clocks that differ, and for worlds that lag behind. With more, more is read; with less, more often."""
_LOG_LAG: Final = timedelta(seconds=2)
"""For versions that are logged a moment after they were published."""


async def stretches(
    log: History, decisions: Sequence[StoredDecision], near: int = NEAR
) -> list[Sequence[StoredDecision]]:
    """Decisions, in stretches in which everything that was logged is worth reading; costs a few requests for each."""
    if not decisions:
        return []
    places = await _places(log, decisions, near)
    cuts = [number for number, (one, other) in enumerate(pairwise(places), 1) if abs(other - one) > near]
    return [decisions[first:last] for first, last in pairwise([0, *cuts, len(decisions)])]


async def _places(log: History, decisions: Sequence[StoredDecision], near: int) -> list[int]:
    """How far the history was at each decision, give or take what is near."""
    places = [0] * len(decisions)
    for end in (0, -1):
        places[end] = await log.sequence_at(decisions[end].stored)
    unknown = [(0, len(decisions) - 1)]
    while unknown:
        first, last = unknown.pop()
        between = range(first + 1, last)
        if not between:
            continue
        if abs(places[last] - places[first]) <= near:
            places[first + 1 : last] = [places[first]] * len(between)
            continue
        middle = (first + last) // 2
        places[middle] = await log.sequence_at(decisions[middle].stored)
        unknown += [(first, middle), (middle, last)]
    return places


class Reading:
    """Reads for the replay of one stretch.

    Args:
        named: what the records name.
        present: what was read of the present so far; one for all stretches of a replay.

    Attributes:
        past: what was read so far.
    """

    def __init__(self, log: History, stretch: Sequence[StoredDecision], named: Named, present: Present) -> None:
        self._log = log
        begun = min(min(one.stored, one.record.at) for one in stretch)
        ended = max(one.stored for one in stretch)
        self._span = Span(begun - _LOOK_BACK, ended + _LOG_LAG)
        self._named = named
        self._present = present
        self._parts: dict[PartOf, PartReading] = {}
        self.past = Past()
        self.past.add(named)

    async def read_on(self, where: PartOf, keys: Collection[Key]) -> None:
        """Read what a decision lacks of a part: of these objects; without any, of all that are not known yet."""
        part = self._parts.get(where)
        if part is not None:
            await part.read_on(keys)
        else:
            if where not in self._present:
                self._present |= await self._log.present({where})
            named = {key: chain for (name, key), chain in self._named.items() if _belongs(name, key, where)}
            part = self._parts[where] = PartReading(self._log, where, self._span, self._present[where], named)
        # Asked last: what was dropped while this read may be missing in what it read.
        self.past.begins = await self._log.begins()
        self.past.add_part(where, part.chains, complete=part.complete)


class PartReading:
    """What was read of one part.

    Args:
        span: the moments at which it will be looked at, with some room.
        present: all that the state stream holds of it.
        whole: of which objects everything was read already.

    Attributes:
        chains: by object.
        complete: whether the history knows of no other objects.
    """

    def __init__(
        self,
        log: History,
        where: PartOf,
        span: Span,
        present: Mapping[Key, LoggedVersion],
        whole: Mapping[Key, Chain],
    ) -> None:
        self._log = log
        self._where = where
        self._span = span
        self._present = present
        self._logged: LoggedSpan | None = None
        self._read: Mapping[Key, Sequence[LoggedVersion]] = {}
        self._asked: set[Key] = set()
        self._nowhere: set[Key] = set()
        told = {key: Chain((version,), version, begins=False) for key, version in present.items()}
        self.chains: Mapping[Key, Chain] = {**told, **whole}
        self.complete = False

    async def read_on(self, keys: Collection[Key]) -> None:
        """Read more of these objects; without any, of all that are not known yet."""
        if not keys:
            keys = await self._log.keys(self._where) - self.chains.keys()
            self.complete = True
        again = self._asked.intersection(keys)
        found = await self._read_sections(set(keys) - again)
        found |= await self._read_nexts(again & self._nowhere)
        found |= await self._read_whole(again - self._nowhere)
        self._nowhere -= again
        self.chains = {**self.chains, **found}

    async def _read_sections(self, keys: set[Key]) -> dict[Key, Chain]:
        """Of each the last version before the span, those in it, and the next one behind it.

        Most of those of which there is nothing up to the end of the span came later; that the others are as many as the
        world held proves it without another look.
        """
        if not keys:
            return {}
        self._asked |= keys
        before = await self._log.last_before(self._where[0], keys, self._span.since)
        if self._logged is None:
            self._logged = await self._log.during(self._where, self._span, len(before))
            self._read = _by_key((*self._logged.within, *self._logged.behind))
        read = {key: [*_if_any(before.get(key)), *self._read.get(key, ())] for key in keys}
        self._nowhere |= {key for key in keys if key not in before and not read[key]}
        open_ended = {key for key in keys - self._nowhere if not self._is_up_to_present(key, read[key])}
        nexts = await self._nexts(open_ended - {one.key for one in self._logged.behind})
        return {key: self._section(key, read[key], nexts, begins=key not in before) for key in keys}

    async def _read_nexts(self, keys: set[Key]) -> dict[Key, Chain]:
        """Of objects of which there is nothing up to the end of the span."""
        nexts = await self._nexts(keys)
        return {key: self._section(key, (), nexts, begins=True) for key in keys}

    async def _read_whole(self, keys: set[Key]) -> dict[Key, Chain]:
        found = await self._log.chains((self._where[0], key) for key in keys) if keys else {}
        return {key: chain for (_, key), chain in found.items()}

    async def _nexts(self, keys: set[Key]) -> dict[Key, LoggedVersion | None]:
        """The first version of each behind what was read of the part; ``None`` if there is none."""
        behind = None if self._logged is None else self._logged.next
        found = [] if behind is None else await self._log.next_after(self._where[0], keys, behind)
        return {**dict.fromkeys(keys), **{one.key: one for one in found}}

    def _section(
        self, key: Key, read: Iterable[LoggedVersion], nexts: Mapping[Key, LoggedVersion | None], *, begins: bool
    ) -> Chain:
        following = nexts.get(key)
        versions = [*read, *_if_any(following)]
        present = self._present.get(key)
        ends = (key in nexts and following is None) or self._is_up_to_present(key, versions)
        return Chain(chained(versions, present if ends else None), present, begins, ends)

    def _is_up_to_present(self, key: Key, read: Iterable[LoggedVersion]) -> bool:
        """Whether the last version that was read is the present one, or the one before it."""
        present, last = self._present.get(key), max(read, key=place_of, default=None)
        if present is None or last is None:
            return False
        return last.place in {present.place, (present.state.epoch, present.state.previous)}


def _belongs(part: str, key: Key, where: PartOf) -> bool:
    # The facts of a service lie under its name.
    return part == where[0] and where[1] in ("", key.namespace)


def _if_any(version: LoggedVersion | None) -> Iterable[LoggedVersion]:
    return () if version is None else (version,)


def _by_key(versions: Iterable[LoggedVersion]) -> Mapping[Key, Sequence[LoggedVersion]]:
    found: defaultdict[Key, list[LoggedVersion]] = defaultdict(list)
    for version in versions:
        found[version.key].append(version)
    return found
