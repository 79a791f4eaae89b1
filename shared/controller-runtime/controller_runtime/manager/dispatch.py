"""One place where changes of the world go, whoever brought them: the feed, an own write, a new fact."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from controller_runtime.bus.entry import Change

_log = structlog.get_logger(__name__)

Listener = Callable[[Change[Any]], None]
"""Takes a change; never waits."""


_SLICE: Final = 100
"""Changes after which others get their turn: a wake may decode an object, so some 20 ms."""


class Dispatcher:
    """Hands changes to whoever listens now; without a listener (this process does not lead) they are dropped.

    A snapshot may bring thousands at once. They are told in their order, piece by piece, while the loop goes on.
    """

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._untold: deque[Change[Any]] = deque()
        self._telling = False
        self.failed: Counter[str] = Counter()
        """How often a listener stumbled over a change, by part."""

    def __call__(self, changes: Sequence[Change[Any]]) -> None:
        if self._listeners:
            self._untold.extend(changes)
        if not self._telling:
            self._tell_some()

    def listen(self, *listeners: Listener) -> None:
        """Replace the listeners; what the former ones were not told yet, the new ones need not know."""
        self._listeners = listeners
        self._untold.clear()

    def _tell_some(self) -> None:
        self._telling = True
        for _ in range(_SLICE):
            if self._untold:
                self._tell(self._untold.popleft())
        self._telling = bool(self._untold)
        if self._telling:
            asyncio.get_running_loop().call_soon(self._tell_some)

    def _tell(self, change: Change[Any]) -> None:
        for listener in self._listeners:
            try:
                listener(change)
            except Exception:
                # One object that nobody foresaw must not keep the others from being fed into the world.
                self.failed[change.part.name] += 1
                _log.exception("change handler failed", part=change.part.name, key=str(change.key))
