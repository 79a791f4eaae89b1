"""A view rebuilt from a decision record: the same reconcile sees again exactly what it saw then (design, item 8).

Code that has changed since may ask for more than was read. Such questions are noted, and answered from a fallback
(usually the state at that time), which makes the result an approximation.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel

from aim_shared.api import Resource
from aim_shared.bus.decision import DecisionRecord
from aim_shared.bus.entry import Entry, Version
from aim_shared.bus.line import Admits, Line
from aim_shared.bus.part import Index, Key, Part
from aim_shared.bus.recorded import RecordedObject
from aim_shared.bus.summary import Summary
from aim_shared.bus.view import Lookup, Selection, Summed, first_of, stale_error
from aim_shared.errors import AimError
from aim_shared.json import JsonObject

T = TypeVar("T", bound=Resource)
E = TypeVar("E", bound=BaseModel)

Fallback = Callable[[str], Mapping[Key, JsonObject]]
"""All objects of a part (by its name) at the time of the decision, as far as they are known."""


def nothing(_: str) -> Mapping[Key, JsonObject]:
    """The fallback that knows nothing."""
    return {}


class ReplayView:
    """A `View` over one decision record.

    Args:
        objects: the versions that were read, by part and key, as `History.fetch_reads` finds them.

    Attributes:
        missing: what was asked for although the record says nothing of it, as ``part/key`` or ``part[index]=value``;
            not empty = the replay is approximate.
        holes: what was read then and could not be had again.
    """

    def __init__(
        self,
        record: DecisionRecord,
        objects: Mapping[tuple[str, Key], JsonObject],
        fallback: Fallback = nothing,
    ) -> None:
        self._failure = record.failure.error if record.failure is not None else None
        self._failing_since = record.failing_since
        self._objects = objects
        self._fallback = fallback
        self._reads = {(read.part, read.key): read for read in record.reads.objects}
        self._indexes = {(read.part, read.index, read.value): read.keys for read in record.reads.indexes}
        self._summaries = {(read.part, read.summary, read.group): read.items for read in record.reads.summaries}
        self._stale = frozenset(record.reads.stale)
        self.missing: list[str] = []
        self.holes: list[str] = []

    @property
    def failure(self) -> AimError | None:
        return self._failure

    @property
    def failing_since(self) -> datetime | None:
        return self._failing_since

    @property
    def exact(self) -> bool:
        """Whether so far everything asked for was answered as it was then."""
        return not self.missing and not self.holes

    def get(self, part: Part[T], namespace: str | None, name: str) -> Lookup[T]:
        key = Key((namespace or "") if part.kind.namespaced else "", name)
        raw = self._raw(part, key)
        if raw is None:
            return Lookup(error=stale_error(part, str(key)) if part.name in self._stale else None)
        decoded = _entry(part, key, raw).decode()
        return Lookup(error=decoded) if isinstance(decoded, AimError) else Lookup(decoded)

    def select(self, index: Index[T], value: str) -> Selection[T]:
        keys = self._indexes.get((index.part.name, index.name, value))
        if keys is None:
            self._note(self.missing, f"{index}={value}")
            return self._selection(index.part, value, self._matching(index, value))
        return self._selection(index.part, value, self._found(index.part, keys))

    def all(self, part: Part[T]) -> Selection[T]:
        keys = self._indexes.get((part.name, "", ""))
        if keys is None:
            self._note(self.missing, f"{part.name}/*")
            return self._selection(part, "any", self._known_then(part))
        return self._selection(part, "any", self._found(part, keys))

    def summary(self, summary: Summary[Any, E], group: str) -> Summed[E]:
        recorded = self._summaries.get(summary.group(group))
        if recorded is None:
            self._note(self.missing, f"{summary}={group}")
            known = (entry.object for entry in self._known_then(summary.part))
            items = summary.of((obj for obj in known if obj is not None), group)
        else:
            items = tuple(summary.item.model_validate(item) for item in recorded)
        stale = summary.part.name in self._stale
        return Summed(items, stale_error(summary.part, group) if stale and not items else None)

    def first(self, line: Line[T], most: int, admits: Admits) -> tuple[T, ...]:
        keys = self._indexes.get((line.part.name, line.name, first_of(most)))
        if keys is None:
            self._note(self.missing, f"{line}: {first_of(most)}")
            known = {entry.key: obj for entry in self._known_then(line.part) if (obj := entry.object) is not None}
            return tuple(known[key] for key in line.first(known.values(), most, admits))
        return tuple(obj for entry in self._found(line.part, keys) if (obj := entry.object) is not None)

    def _raw(self, part: Part[Any], key: Key) -> JsonObject | None:
        read = self._reads.get((part.name, key))
        if read is None:
            self._note(self.missing, f"{part.name}/{key}")
            return self._fallback(part.name).get(key)
        return self._version(read)

    def _version(self, read: RecordedObject) -> JsonObject | None:
        if read.version is None:
            return None
        found = self._objects.get((read.part, read.key))
        if found is None:
            self._note(self.holes, f"{read.part}/{read.key}")
            return self._fallback(read.part).get(read.key)
        return found

    def _found(self, part: Part[T], keys: Iterable[Key]) -> list[Entry[T]]:
        raws = ((key, self._raw(part, key)) for key in keys)
        return [_entry(part, key, raw) for key, raw in raws if raw is not None]

    def _known_then(self, part: Part[T]) -> list[Entry[T]]:
        return [_entry(part, key, raw) for key, raw in self._fallback(part.name).items()]

    def _matching(self, index: Index[T], value: str) -> list[Entry[T]]:
        entries = self._known_then(index.part)
        return [entry for entry in entries if (obj := entry.object) is not None and value in index.values(obj)]

    def _selection(self, part: Part[T], value: str, found: list[Entry[T]]) -> Selection[T]:
        found = sorted(found, key=lambda entry: entry.key)
        items = tuple(obj for entry in found if (obj := entry.object) is not None)
        stale = part.name in self._stale
        return Selection(items, stale_error(part, value or "any") if stale and not items else None)

    @staticmethod
    def _note(where: list[str], what: str) -> None:
        if what not in where:
            where.append(what)


def _entry(part: Part[T], key: Key, raw: JsonObject) -> Entry[T]:
    return Entry(part, key, raw, Version("", ""))
