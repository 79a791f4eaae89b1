"""Takes each change of the world to the controllers of a service, with the questions that it answers otherwise."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import structlog

from controller_runtime.bus.entry import Change
from controller_runtime.bus.question import Question, about_group
from controller_runtime.bus.world import World
from controller_runtime.reconcile.reconciler import Shown
from controller_runtime.reconcile.waking import Waking

_log: Final = structlog.get_logger(__name__)


class ChangeRouter:
    """Looks at a change once for all controllers, and at the objects only if somebody has asked for them (FW-500).

    Attributes:
        failed: times that what is shown of an object could not be told; it counted as news (FW-432).
    """

    def __init__(self, world: World, shown: Iterable[Shown[Any]], wakings: Sequence[Waking[Any]]) -> None:
        self._world = world
        self._shown = {one.part.name: one.of for one in shown}
        self._wakings = wakings
        self.failed = 0

    def route(self, change: Change[Any]) -> None:
        """Queue the passes that a change makes worthwhile; never waits."""
        questions = self._answered_otherwise(change)
        for waking in self._wakings:
            waking.on_change(change, questions)

    def _answered_otherwise(self, change: Change[Any]) -> set[Question]:
        """Of the questions that somebody has asked."""
        moved = {one for one in map(about_group, change.groups) if self._is_asked(one)}
        others = {one for one in self._world.questions(change) if self._is_asked(one)} - moved
        return moved | others if others and self._is_news(change) else moved

    def _is_asked(self, question: Question) -> bool:
        return any(waking.has_asked(question) for waking in self._wakings)

    def _is_news(self, change: Change[Any]) -> bool:
        """Whether the change shows (FW-501)."""
        of = self._shown.get(change.part.name)
        if of is None or change.old is None or change.new is None or change.old.version.uid != change.new.version.uid:
            return True
        before, after = change.before, change.after
        try:
            return before is None or after is None or bool(of(before) != of(after))
        except Exception:
            self.failed += 1
            _log.exception("change handler failed", part=change.part.name, key=str(change.key))
            # A pass too many is harmless.
            return True
