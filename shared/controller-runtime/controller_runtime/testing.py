"""For tests of reconcilers: objects as plain data in, a view of a complete and fresh cache out.

A decision is a function, so a test of one needs no cluster:

    cache = cache_of((GREETINGS, CARDS), greeting)
    plan = reconcile(cache.object(GREETINGS, "default", "first"), cache.view(), cache.now)
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, TypeVar

from controller_runtime.api.meta import Resource
from controller_runtime.errors import ClassifiedError
from controller_runtime.json import JsonObject
from controller_runtime.log.cache.store import Cache, Derived
from controller_runtime.log.cache.view import CacheView
from controller_runtime.log.wire.part import Key, Part, published_form
from controller_runtime.log.wire.version import Change, Entry, Version

T = TypeVar("T", bound=Resource)

NOW: Final = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
"""The usual clock of a pass."""


@dataclass(frozen=True)
class BuiltCache:
    """A cache in which every part is synced and fresh, unless a test makes it stale.

    Attributes:
        stored: each object whole, as the API server has it.
    """

    cache: Cache
    sequences: Iterator[int]
    stored: dict[tuple[Part[Any], Key], JsonObject] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        """The clock of a pass."""
        return NOW

    def view(self, failure: ClassifiedError | None = None, failing_since: datetime | None = None) -> CacheView:
        """A new view for one pass."""
        return CacheView(self.cache, failure, failing_since)

    def object(self, part: Part[T], namespace: str, name: str) -> T:
        """An object that must be there and be readable."""
        entry = self.cache.get(part, Key(namespace if part.kind.namespaced else "", name))
        assert entry is not None, f"{part} has no {namespace}/{name}"
        decoded = entry.decode()
        assert not isinstance(decoded, ClassifiedError), decoded
        return decoded

    def put(self, part: Part[Any], *objects: JsonObject) -> list[Change[Any]]:
        """Add objects, or replace them by newer versions; returns what that changed.

        They are trimmed as on the bus, so that no decision passes a test by something that no service gets to see.
        """
        changes: list[Change[Any]] = []
        for obj in objects:
            metadata = obj["metadata"]
            key = Key(metadata.get("namespace") or "", metadata["name"])
            version = Version(metadata["uid"], metadata.get("resourceVersion", ""), next(self.sequences), "e1")
            self.stored[part, key] = obj
            changes += self.cache.put(Entry.of(part, key, published_form(part, obj), version), 0.0)
        return changes

    def make_stale(self, part: Part[Any]) -> None:
        """Let the part's publisher be down (FW-019)."""
        self.cache.mark(part, fresh=False)


def cache_of(parts: Iterable[Part[Any]], *objects: JsonObject, indexes: Iterable[Derived] = ()) -> BuiltCache:
    """A cache with these parts and objects; each object goes to the first part of its kind that selects it."""
    known = tuple(parts)
    cache = Cache(known, indexes)
    for part in known:
        cache.mark(part, synced=True, fresh=True, epoch="e1")
    result = BuiltCache(cache, count(1))
    for obj in objects:
        result.put(_part_for(known, obj), obj)
    return result


def _part_for(parts: Iterable[Part[Any]], obj: JsonObject) -> Part[Any]:
    labels = obj["metadata"].get("labels") or {}
    for part in parts:
        same_kind = (part.kind.api_version, part.kind.kind) == (obj["apiVersion"], obj["kind"])
        if same_kind and _selects(part.label_selector, labels):
            return part
    raise AssertionError(
        f"no part takes {obj['kind']} {obj['metadata']['name']}: its kind is another, or its labels are"
    )


def _selects(selector: str, labels: Mapping[str, str]) -> bool:
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value.lstrip("=")):
            return False
    return True
