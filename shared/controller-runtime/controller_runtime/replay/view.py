"""The view of a decision, rebuilt: what was read then is read again, all else is found as of that moment.

What was read by name is answered from the record. What an index, a summary or a line finds is not: it follows from
code, and today's may find something else. The recorded answer serves to say so.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel

from controller_runtime.api.meta import Resource
from controller_runtime.errors import ClassifiedError
from controller_runtime.log.cache.indexes import Admits, Summary, WaitQueue
from controller_runtime.log.cache.view import Lookup, Selection, Summed, first_of, stale_error
from controller_runtime.log.history.decisions import (
    DecisionRecord,
    RecordedGroup,
    digest_of_dependencies,
    digest_of_look_ups,
    digest_of_objects,
    recorded_item,
)
from controller_runtime.log.wire.part import Index, Key, Part
from controller_runtime.log.wire.version import Entry, Version
from controller_runtime.replay.past import Answer, Past, PastPart, Rebuilt, UnansweredError

T = TypeVar("T", bound=Resource)
E = TypeVar("E", bound=BaseModel)


class ReplayView:
    """A `View` over one decision record (FW-438).

    Attributes:
        beyond: what was asked although the record says nothing of it, as ``part/key`` or ``part[index]=value``.
        otherwise: look-ups of which today's code makes something else than the code of then, with both answers.
        raised: tracebacks of today's indexes, summaries and lines, of objects in which those of then saw something.
        uncertain: where those of today raise and find something else, and the record does not tell whether those of
            then saw anything in the object or raised as well; equal plans prove nothing then, different ones differ.
        holes: what is unknown, and why; with any of them the answers are not those of then.

    Raises:
        NotLoadedError: from every look-up, when the past lacks a part; read it and start over.
        UntoldError: from every look-up, when the past itself stumbles.
    """

    def __init__(self, record: DecisionRecord, past: Past) -> None:
        self._record = record
        self._past = past
        self._reads = {(read.part, read.key): read for read in record.reads.objects}
        self._indexes = {(read.part, read.index, read.value): read.keys for read in record.reads.indexes}
        self._summaries = {(read.part, read.summary, read.group): read.items for read in record.reads.summaries}
        self._groups = {(group.part, group.index): group for group in record.reads.groups}
        self._raising: dict[tuple[str, str], list[str]] = {}
        self._stale = frozenset((*record.reads.stale, *record.world.stale))
        self._objects: defaultdict[str, dict[Key, Version | None]] = defaultdict(dict)
        self._look_ups: defaultdict[tuple[str, str], dict[str, tuple[Key, ...]]] = defaultdict(dict)
        self.beyond: list[str] = []
        self.otherwise: list[str] = []
        self.raised: list[str] = []
        self.uncertain: list[str] = []
        self.holes: list[str] = []

    @property
    def shard(self) -> int:
        return self._record.shard

    @property
    def untracked(self) -> "ReplayView":
        return self

    @property
    def failure(self) -> ClassifiedError | None:
        failure = self._record.failure
        return None if failure is None else failure.error

    @property
    def failing_since(self) -> datetime | None:
        return self._record.failing_since

    def get(self, part: Part[T], namespace: str | None, name: str) -> Lookup[T]:
        key = Key((namespace or "") if part.kind.namespaced else "", name)
        entry = self._object(part, key)
        if entry is None:
            return Lookup(error=stale_error(part, str(key)) if part.name in self._stale else None)
        decoded = entry.decode()
        return Lookup(error=decoded) if isinstance(decoded, ClassifiedError) else Lookup(decoded)

    def select(self, index: Index[T], value: str) -> Selection[T]:
        rebuilt = self._part(index.part).index(index)
        keys = tuple(sorted(rebuilt.table.keys(value)))
        self._compare_found(index, value, keys, rebuilt)
        return self._selection(index.part, value, keys)

    def all(self, part: Part[T]) -> Selection[T]:
        # No code chose these, so that the record answers as well as the history.
        keys = self._indexes.get((part.name, "", ""))
        if keys is None:
            if (part.name, "") not in self._groups:
                _note(self.beyond, f"{part}/*")
            keys = self._look_ups[part.name, ""][""] = tuple(self._part(part).present)
        return self._selection(part, "any", keys)

    def summary(self, summary: Summary[Any, E], group: str) -> Summed[E]:
        rebuilt = self._part(summary.part).summary(summary)
        items: tuple[E, ...] = rebuilt.table.items(group)
        recorded = self._summaries.get(summary.group(group))
        if recorded is None:
            _note(self.beyond, f"{summary}={group}")
        elif recorded != (now := tuple(recorded_item(item) for item in items)):
            self._note_otherwise(f"{summary}={group}", recorded, now)
            self._note_uncertain(_uncertain(rebuilt))
        stale = summary.part.name in self._stale
        return Summed(items, stale_error(summary.part, group) if stale and not items else None)

    def first(self, queue: WaitQueue[T], most: int, admits: Admits) -> tuple[T, ...]:
        part, value = queue.part, first_of(most)
        rebuilt = self._part(part).queue(queue)
        keys = rebuilt.table.first(most, admits)
        self._compare_found(queue, value, keys, rebuilt)
        entries = (self._object(part, key) for key in keys)
        return tuple(obj for entry in entries if entry is not None and (obj := entry.object) is not None)

    def verify(self) -> None:
        """Compare what was rebuilt with the digests in the record; call it when everything was asked.

        Where the same was asked, another answer is a hole, unless only today's code explains it. Where today's code
        asks something else, nothing compares.
        """
        for (part, index), group in self._groups.items():
            found = self._object_group(group) if index is None else self._look_up_group(group, index)
            if found is None or found == group.found:
                continue
            if index and part in self._record.world.objects:
                # The history confirms each object, and the number for none having vanished without a trace. That
                # proves neither set nor versions, but leaves another index as what explains it.
                _note(self.otherwise, f"{part}[{index}]: not what was found then")
                self._note_uncertain(self._raising.get((part, index), ()))
            else:
                _note(self.holes, f"{part}{'' if index is None else f'[{index}]'}: not what was read then")

    def _object_group(self, group: RecordedGroup) -> str | None:
        objects = self._objects[group.part]
        asked = digest_of_dependencies(str(key) for key in objects)
        return digest_of_objects(objects) if asked == group.asked else None

    def _look_up_group(self, group: RecordedGroup, index: str) -> str | None:
        look_ups = self._look_ups[group.part, index]
        return digest_of_look_ups(look_ups) if digest_of_dependencies(look_ups) == group.asked else None

    def _object(self, part: Part[T], key: Key) -> Entry[T] | None:
        read = self._reads.get((part.name, key))
        if read is not None:
            with _reading(part):
                answer = self._past.read(part, read, self._record.at)
            return self._entry_of(answer)
        if (part.name, None) not in self._groups:
            _note(self.beyond, f"{part}/{key}")
        with _reading(part):
            answer = self._past.moved_to(part, self._record).get(key)
        entry = self._entry_of(answer)
        self._objects[part.name][key] = None if entry is None else entry.version
        return entry

    def _part(self, part: Part[Any]) -> PastPart:
        """A part for a look at all of it."""
        with _reading(part):
            found = self._past.moved_to(part, self._record)
            holes = found.holes
        for hole in holes:
            _note(self.holes, hole)
        return found

    def _entry_of(self, answer: Answer) -> Entry[Any] | None:
        if answer.hole is not None:
            _note(self.holes, answer.hole)
        return answer.entry

    def _compare_found(
        self, derived: Index[Any] | WaitQueue[Any], value: str, keys: tuple[Key, ...], rebuilt: Rebuilt[Any]
    ) -> None:
        """Compare what was found with what was found then."""
        part, what = derived.part.name, f"{derived}={value}"
        recorded = self._indexes.get((part, derived.name, value))
        if recorded is None:
            self._look_ups[part, derived.name][value] = keys
            if (part, derived.name) not in self._groups:
                _note(self.beyond, what)
            else:
                self._raising[part, derived.name] = _uncertain(rebuilt)
        elif recorded != keys:
            self._note_otherwise(what, map(str, recorded), map(str, keys))
            self._note_raised(rebuilt, recorded)

    def _note_otherwise(self, what: str, then: Iterable[object], now: Iterable[object]) -> None:
        _note(self.otherwise, f"{what}: then {_list_text(then)}, now {_list_text(now)}")

    def _note_raised(self, rebuilt: Rebuilt[Any], keys: Iterable[Key]) -> None:
        for key in keys:
            if key in rebuilt.raised:
                _note(self.raised, f"{rebuilt.table} raises for {key}:\n{rebuilt.raised[key]}")

    def _note_uncertain(self, uncertain: Iterable[str]) -> None:
        for one in uncertain:
            _note(self.uncertain, one)

    def _selection(self, part: Part[T], value: str, keys: Iterable[Key]) -> Selection[T]:
        entries = [one for key in sorted(keys) if (one := self._object(part, key)) is not None]
        items = tuple(obj for entry in entries if (obj := entry.object) is not None)
        stale = part.name in self._stale
        return Selection(items, stale_error(part, value or "any") if stale and not items else None)


@contextmanager
def _reading(part: Part[Any]) -> Iterator[None]:
    """What is raised in here is no answer."""
    try:
        yield
    except Exception as error:
        raise UnansweredError(f"looking for {part} in the history raised {type(error).__name__}: {error}") from error


def _note(where: list[str], what: str) -> None:
    if what not in where:
        where.append(what)


def _uncertain(rebuilt: Rebuilt[Any]) -> list[str]:
    """That today's code raises: once for each exception, because it may be raised for every object of a part."""
    by_exception: defaultdict[str, list[Key]] = defaultdict(list)
    for key, reported in rebuilt.raised.items():
        by_exception[reported.rstrip().rpartition("\n")[2]].append(key)
    return [
        f"{rebuilt.table} raises for {min(keys)}{f' and {len(keys) - 1} more' if keys[1:] else ''}, "
        f"then perhaps as well: {exception}"
        for exception, keys in sorted(by_exception.items())
    ]


def _list_text(found: Iterable[object]) -> str:
    return ", ".join(map(str, found)) or "nothing"
