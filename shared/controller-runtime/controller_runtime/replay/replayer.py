"""Takes recorded decisions again with today's code, from the log alone, and compares."""

import traceback
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from controller_runtime.json import JsonObject, canonical, loads
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.history.reader import DecisionFilter, History, LoggedSpan, PartOf, Span, StoredDecision
from controller_runtime.log.history.versions import Chain, LoggedVersion, chained, place_of
from controller_runtime.log.wire.part import Key
from controller_runtime.manager.settings import Settings, recorded
from controller_runtime.reconcile.decide import Decision, decide
from controller_runtime.reconcile.reconciler import Reconciler, ServiceDefinition
from controller_runtime.reconcile.record import BUG, abridged, plan_to_json
from controller_runtime.replay.past import (
    NotLoadedError,
    Past,
    UnansweredError,
    objects_read,
    scoped_part,
    searched_parts,
)
from controller_runtime.replay.view import ReplayView

_WIDTH = 80


def differences(then: JsonObject, now: JsonObject) -> tuple[str, ...]:
    """Members that differ, each with both values."""
    return tuple(_differences("", then, now))


def _differences(path: str, then: object, now: object) -> list[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        return _in_objects(path, then, now)
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs = enumerate(zip(then, now, strict=True))
        return [line for index, (old, new) in pairs for line in _differences(f"{path}[{index}]", old, new)]
    return [] if then == now else [f"{path or 'plan'}: then {_short(then)}, now {_short(now)}"]


def _in_objects(path: str, then: JsonObject, now: JsonObject) -> list[str]:
    names = sorted({*then, *now})
    return [
        line for name in names for line in _differences(f"{path}.{name}".lstrip("."), then.get(name), now.get(name))
    ]


def _short(value: object) -> str:
    text = canonical(value).decode()
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


Present: TypeAlias = dict[PartOf, dict[Key, LoggedVersion]]
"""What the state stream holds, by part."""

Named: TypeAlias = Mapping[tuple[str, Key], Chain]
"""All that is kept of objects that decisions name."""

NEAR: Final = 2_000
"""Messages of the history between two decisions for which it is cheaper to read them than to start over."""
_LOOK_BACK: Final = timedelta(seconds=10)
"""For clocks that differ, and for caches that lag behind. With more, more is read; with less, more often."""
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
        reported = {key: Chain((version,), version, begins=False) for key, version in present.items()}
        self.chains: Mapping[Key, Chain] = {**reported, **whole}
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
        cache held proves it without another look.
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


_EVERY: Final = DecisionFilter()


class Verdict(StrEnum):
    """How a decision of today compares with the recorded one (FW-437)."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "undetermined"


@dataclass(frozen=True, slots=True)
class ServiceCode:
    """Today's code of a service: what `run_service` is given."""

    settings: type[Settings]
    definition: Callable[[Any], ServiceDefinition]


@dataclass(frozen=True, slots=True)
class Replayed:
    """One decision, taken again.

    Attributes:
        differences: members of the plan that differ, with both values; or the exception of today's code.
        missing: what the log cannot tell any more; not empty exactly when the verdict is ``UNKNOWN``.
        beyond: what today's code asked beyond the record; answered from the history as of that moment.
        otherwise: look-ups whose answer is another one today, with both.
    """

    stored: StoredDecision
    verdict: Verdict
    differences: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()


class _MissingError(Exception):
    """Something without which a decision cannot even be tried again."""


class Replayer:
    """Takes decisions again. Reads the log and writes nothing.

    Args:
        log: where the decisions and the versions of the objects are.
        services: today's code by service name.
    """

    def __init__(self, log: History, services: Mapping[str, ServiceCode]) -> None:
        self._log = log
        self._services = services
        self._definitions: dict[tuple[str, str], ServiceDefinition] = {}

    @property
    def unreadable(self) -> int:
        """Decision records that were asked for and are unreadable: what they hold is unknown."""
        return self._log.unreadable_decisions

    async def decisions(self, wanted: DecisionFilter = _EVERY) -> AsyncIterator[Replayed]:
        """Take every decision that matches again, in the order in which they were taken.

        Raises:
            BusError: the log cannot be read.
        """
        found = await self._log.decisions(wanted)
        # One look for all of them, not one for each: passes of an object read much the same. And again each time: the
        # log grows, and what was read of it says nothing about what came later.
        named = await self._log.chains(where for one in found for where in objects_read(one.record))
        searched = {scoped_part(part, one.record.service) for one in found for part in searched_parts(one.record)}
        present = await self._log.present(searched)
        for stretch in await stretches(self._log, found):
            reading = Reading(self._log, stretch, named, present)
            for stored in stretch:
                yield await self._replay(reading, stored)

    async def _replay(self, reading: Reading, stored: StoredDecision) -> Replayed:
        try:
            reconciler = await self._reconciler(stored.record)
        except _MissingError as missing:
            return Replayed(stored, Verdict.UNKNOWN, missing=(str(missing),))
        try:
            return await self._until_answered(reconciler, reading, stored)
        except UnansweredError as unreported:
            return Replayed(stored, Verdict.UNKNOWN, missing=(str(unreported),))

    async def _until_answered(self, reconciler: Reconciler[Any], reading: Reading, stored: StoredDecision) -> Replayed:
        while True:
            try:
                return _again(reconciler, stored, reading.past)
            except NotLoadedError as lacking:
                await reading.read_on(scoped_part(lacking.part, stored.record.service), lacking.keys)

    async def _reconciler(self, record: DecisionRecord) -> Reconciler[Any]:
        definition = self._definitions.get((record.service, record.settings))
        if definition is None:
            definition = await self._definition(record)
            self._definitions[record.service, record.settings] = definition
        found = next((one for one in definition.reconcilers if one.controller == record.controller), None)
        if found is None:
            raise _MissingError(f"a controller {record.controller!r} in the {record.service} of today")
        return found

    async def _definition(self, record: DecisionRecord) -> ServiceDefinition:
        code = self._services.get(record.service)
        if code is None:
            raise _MissingError(f"a service {record.service!r} today")
        if not record.settings:
            raise _MissingError("the settings: an older release did not record them")
        try:
            values = await self._log.settings(record.service, record.settings)
        except ValueError as error:
            raise _MissingError(f"the settings {record.settings} of {record.service} are no JSON: {error}") from error
        if values is None:
            raise _MissingError(f"the settings {record.settings} of {record.service} are not kept")
        try:
            return code.definition(recorded(code.settings, values))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(step) for step in first["loc"])
            raise _MissingError(f"the settings are not valid today: {where}: {first['msg']}") from error


def _again(reconciler: Reconciler[Any], stored: StoredDecision, past: Past) -> Replayed:
    """Take one decision again. Pure.

    Raises:
        NotLoadedError: the history has to be asked first.
        UntoldError: the history cannot be asked.
    """
    view = ReplayView(stored.record, past)
    plan = _compared(reconciler, view, stored.record)
    lines = (*plan, *(line for reported in view.raised for line in reported.splitlines()))
    view.verify()
    # With a hole, equal plans prove as little as different ones. A doubt speaks against equal ones alone.
    (view.otherwise if lines else view.holes).extend(view.uncertain)
    verdict = Verdict.UNKNOWN if view.holes else Verdict.DIFFERENT if lines else Verdict.SAME
    return Replayed(stored, verdict, lines, tuple(view.holes), tuple(view.beyond), tuple(view.otherwise))


def _compared(reconciler: Reconciler[Any], view: ReplayView, record: DecisionRecord) -> tuple[str, ...]:
    raised_then = record.outcome if record.outcome.startswith(BUG) else ""
    try:
        found = view.get(reconciler.part, record.namespace, record.name)
        if found.value is None:
            why = "it was not there" if found.error is None else found.error.message
            return (f"today's code cannot read the object: {why}",)
        plan = plan_to_json(decide(Decision(reconciler, found.value, view, record.at)))
    except Exception as bug:
        # Today's code: the decision, what it asks of its models, indexes and summaries. What reading the log raises is
        # no `Exception` any more when it gets here.
        if raised_then == f"{BUG}{type(bug).__name__}: {bug}":
            return ()
        reported = traceback.format_exception(bug)
        return (f"then {raised_then or record.outcome}, now an exception:", *"".join(reported).splitlines())
    if raised_then:
        return (f"then {raised_then}, now a plan",)
    return differences(record.plan, loads(canonical(abridged(plan, record.abridged))))
