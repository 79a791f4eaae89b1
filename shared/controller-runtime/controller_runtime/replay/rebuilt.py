"""An index, a summary or a line of today's code, kept in step with the objects of a past part."""

import traceback
from typing import Any, Generic, TypeVar

from controller_runtime.bus.entry import Entry
from controller_runtime.bus.index_table import Table
from controller_runtime.bus.part import Key

B = TypeVar("B", bound=Table[Any])


class Rebuilt(Generic[B]):
    """A table as the world keeps it; what the code raises for an object is kept as well.

    Attributes:
        raised: tracebacks by object; as in the world, such an object is not in the table (FW-480).
    """

    def __init__(self, table: B) -> None:
        self.table = table
        self.raised: dict[Key, str] = {}
        self._nothing = table.derived(None)
        self._held: dict[Key, Any] = {}
        self._known: dict[int, tuple[Entry[Any], Any, str]] = {}

    def put(self, key: Key, entry: Entry[Any] | None) -> None:
        """An object is another one now, or gone."""
        now, raised = (self._nothing, "") if entry is None else self._derived(entry)
        self.table.move(key, self._held.pop(key, self._nothing), now)
        if entry is not None:
            self._held[key] = now
        self.raised.pop(key, None)
        if raised:
            self.raised[key] = raised

    def _derived(self, entry: Entry[Any]) -> tuple[Any, str]:
        known = self._known.get(id(entry))
        if known is None:
            # With the entry itself, so that nothing else can take its place in memory.
            known = self._known[id(entry)] = (entry, *self._look_at(entry))
        return known[1:]

    def _look_at(self, entry: Entry[Any]) -> tuple[Any, str]:
        try:
            return self.table.derived(entry.object or entry.object_to(self.table.depth)), ""
        except Exception as bug:
            return self._nothing, "".join(traceback.format_exception(bug))
