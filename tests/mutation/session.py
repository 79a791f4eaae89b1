"""The run: which tests reach which lines, then one change after the other against those that reach it."""

import random
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, Final

import pytest
from mutation.edits import Edit, changed_code, edits, living_functions, planted
from mutation.forked import in_processes

_AT_A_TIME: Final = 64
_MAP_SECONDS: Final = 120
_MOST_SECONDS: Final = 20
_TESTS_SECONDS: Final = 6.0
"""Processor time of the tests, as they take it unchanged, that a change has to survive."""


class Verdict(StrEnum):
    """What became of a change."""

    KILLED = "killed"
    STOPPED = "stopped"
    SURVIVED = "survived"
    UNREACHED = "unreached"


@dataclass(frozen=True, slots=True)
class Reach:
    """A test: the lines of the targets that it runs, a bit each, and the processor time that it takes."""

    index: int
    lines: int
    seconds: float


@dataclass(slots=True, eq=False)
class Run:
    """A pytest plugin, in whose session all of it happens: what pytest has collected is what the processes have."""

    packages: Mapping[str, Sequence[Path]]
    seed: int
    seconds: float
    workers: int
    tell: Callable[[str, Edit, Verdict, int], None]
    _failed: bool = False
    _first_bit: dict[str, int] = field(default_factory=dict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """A property that fails has failed: no smaller example is looked for."""
        from hypothesis import Phase, settings  # pytest wants to load it before anybody else does

        settings.register_profile("first failure", settings.default, phases=[Phase.explicit, Phase.generate])
        settings.load_profile("first failure")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self._failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """The whole run."""
        started = time.monotonic()
        bits = 0
        for file in (str(one) for files in self.packages.values() for one in files):
            self._first_bit[file] = bits
            bits += len(Path(file).read_text(encoding="utf-8").splitlines()) + 1
        reaches = self._reaches(session.items)
        self._say(f"{len(reaches)} tests reach something, {time.monotonic() - started:.0f} s")
        functions = living_functions(self._first_bit.keys())
        chosen = {
            edit: (package, self._tests(edit, reaches))
            for package, edit in sampled(self.packages, random.Random(self.seed))
        }
        works = (edit for edit in chosen if time.monotonic() < started + self.seconds)

        def judge(edit: Edit) -> Verdict:
            items = [session.items[one.index] for one in chosen[edit][1]]
            return self._judge(edit, functions[edit.place], items)

        for edit, verdict in in_processes(works, judge, workers=self.workers, seconds=_MOST_SECONDS):
            package, tests = chosen[edit]
            self.tell(package, edit, verdict or Verdict.STOPPED, len(tests))
        return True

    @staticmethod
    def _say(text: str) -> None:
        print(text, flush=True)

    def _judge(self, edit: Edit, functions: Sequence[FunctionType], items: Sequence[pytest.Item]) -> Verdict:
        if not items:
            return Verdict.UNREACHED
        with planted(changed_code(edit), functions):
            return Verdict.SURVIVED if self._pass(items) else Verdict.KILLED

    def _pass(self, items: Sequence[pytest.Item]) -> bool:
        for item, following in zip_longest(items, items[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return False
        return True

    def _reaches(self, items: Sequence[pytest.Item]) -> list[Reach]:
        """Each test once, unchanged, with its lines. One that fails now shows nothing later."""

        def part(first: int) -> list[Reach]:
            last = min(first + _AT_A_TIME, len(items))
            return [one for at in range(first, last) if (one := self._reach(at, items[at]))]

        starts = iter(range(0, len(items), _AT_A_TIME))
        parts = in_processes(starts, part, workers=self.workers, seconds=_MAP_SECONDS)
        return [one for _, reaches in parts for one in reaches or ()]

    def _reach(self, index: int, item: pytest.Item) -> Reach | None:
        seen: set[tuple[str, int]] = set()

        def in_target(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                seen.add((frame.f_code.co_filename, frame.f_lineno))
            return in_target

        def anywhere(frame: FrameType, event: str, argument: Any) -> Any:
            return in_target if frame.f_code.co_filename in self._first_bit else None

        started = time.process_time()
        sys.settrace(anywhere)
        try:
            passed = self._pass([item])
        finally:
            sys.settrace(None)
        self._failed = False
        lines = 0
        for file, line in seen:
            lines |= 1 << (self._first_bit[file] + line)
        return Reach(index, lines, time.process_time() - started) if passed and lines else None

    def _tests(self, edit: Edit, reaches: Collection[Reach]) -> list[Reach]:
        """Those that reach the change, the ones that look at little else first."""
        first = self._first_bit[edit.place.file]
        mask = sum(1 << (first + line) for line in edit.lines)
        chosen: list[Reach] = []
        seconds = 0.0
        reaching = [one for one in reaches if one.lines & mask]
        for one in sorted(reaching, key=lambda one: one.seconds * one.lines.bit_count()):
            seconds += one.seconds
            if chosen and seconds > _TESTS_SECONDS:
                break
            chosen.append(one)
        return chosen


def sampled(packages: Mapping[str, Sequence[Path]], chance: random.Random) -> Iterator[tuple[str, Edit]]:
    """All changes, in an order that the seed gives, the packages taking turns."""
    columns = []
    for package, files in packages.items():
        found = [(package, edit) for file in files for edit in edits(file)]
        chance.shuffle(found)
        columns.append(found)
    for row in zip_longest(*columns):
        yield from (one for one in row if one is not None)
