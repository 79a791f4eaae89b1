"""One place where changes of the world go, whoever brought them: the feed, an own write, a new fact."""

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from aim_shared.bus.entry import Change

_log = structlog.get_logger(__name__)

Listener = Callable[[Change[Any]], None]
"""Takes a change; never waits."""


class Dispatcher:
    """Hands changes to whoever listens now; without a listener (this process does not lead) they are dropped."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    def __call__(self, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            for listener in self._listeners:
                try:
                    listener(change)
                except Exception:
                    # One object that nobody foresaw must not keep the others from being fed into the world.
                    _log.exception("change not understood", part=change.part.name, key=str(change.key))

    def listen(self, *listeners: Listener) -> None:
        """Replace the listeners."""
        self._listeners = listeners
