"""The run: which tests reach which lines, then one change after the other against those that reach it."""

import builtins
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from types import FunctionType
from typing import Final

import pytest
from mutation.edits import REACHED, Edit, Place, changed_code, edits, living_functions, planted, with_probes
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
    """A test: the lines of the targets that it runs, and the processor time that it takes."""

    index: int
    lines: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """A change to be tried, and the tests that may notice it."""

    package: str
    edit: Edit
    tests: Sequence[Reach]


@dataclass(slots=True, eq=False)
class Run:
    """A pytest plugin, in whose session all of it happens: what pytest has collected is what the processes have."""

    packages: Mapping[str, Sequence[Path]]
    seed: int
    seconds: float
    workers: int
    tell: Callable[[str, Edit, Verdict, int], None]
    _failed: bool = False
    _first_line: dict[str, int] = field(default_factory=dict)
    _reached: bytearray = field(default_factory=bytearray)

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
        lines = 0
        for file in (str(one) for files in self.packages.values() for one in files):
            self._first_line[file] = lines
            lines += len(Path(file).read_text(encoding="utf-8").splitlines()) + 1
        self._reached = bytearray(lines)
        setattr(builtins, REACHED, self._reached)
        functions = living_functions(self._first_line.keys())
        reaches = self._reaches(session.items, functions)
        self._say(f"{len(reaches)} tests reach something, {time.monotonic() - started:.0f} s")
        reaching: dict[int, list[Reach]] = defaultdict(list)
        for one in reaches:
            for line in one.lines:
                reaching[line].append(one)
        works = (
            Work(package, edit, self._tests(edit, reaching))
            for package, edit in sampled(self.packages, random.Random(self.seed))
            if time.monotonic() < started + self.seconds
        )

        def judge(work: Work) -> Verdict:
            items = [session.items[one.index] for one in work.tests]
            return self._judge(work.edit, functions, items)

        for work, verdict in in_processes(works, judge, workers=self.workers, seconds=_MOST_SECONDS):
            self.tell(work.package, work.edit, verdict or Verdict.STOPPED, len(work.tests))
        return True

    @staticmethod
    def _say(text: str) -> None:
        print(text, flush=True)

    def _judge(
        self, edit: Edit, functions: Mapping[Place, Sequence[FunctionType]], items: Sequence[pytest.Item]
    ) -> Verdict:
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

    def _reaches(self, items: Sequence[pytest.Item], functions: Mapping[Place, Sequence[FunctionType]]) -> list[Reach]:
        """Each test once, unchanged, with its lines. One that fails now shows nothing later."""

        def part(first: int) -> list[Reach]:
            last = min(first + _AT_A_TIME, len(items))
            return [one for at in range(first, last) if (one := self._reach(at, items[at]))]

        starts = iter(range(0, len(items), _AT_A_TIME))
        with contextlib.ExitStack() as probed:
            for file, first_line in self._first_line.items():
                probed.enter_context(planted(with_probes(file, first_line), functions))
            parts = in_processes(starts, part, workers=self.workers, seconds=_MAP_SECONDS)
            return [one for _, reaches in parts for one in reaches or ()]

    def _reach(self, index: int, item: pytest.Item) -> Reach | None:
        self._reached[:] = bytes(len(self._reached))
        started = time.process_time()
        passed = self._pass([item])
        seconds = time.process_time() - started
        self._failed = False
        lines = tuple(line for line, reached in enumerate(self._reached) if reached)
        return Reach(index, lines, seconds) if passed and lines else None

    def _tests(self, edit: Edit, reaching: Mapping[int, Collection[Reach]]) -> list[Reach]:
        """Those that reach the change, the ones that look at little else first."""
        first = self._first_line[edit.place.file]
        chosen: list[Reach] = []
        seconds = 0.0
        found = {one for line in edit.lines for one in reaching[first + line]}
        for one in sorted(found, key=lambda one: (one.seconds * len(one.lines), one.index)):
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
