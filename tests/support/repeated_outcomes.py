"""What one run of pytest came to, and whether its failed tests may be repeated.

    PYTHONPATH=tests python -m support.repeated_outcomes FILE PYTEST-ARGUMENTS...

runs pytest and leaves its outcomes in FILE, which `support.repeated` reads. Everything but the end is pure.
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import pytest

LIMIT: Final = 3
"""As many failed tests of one run are repeated; more of them are a breakage."""
_UNIT: Final = "tests/unit/"
_REPEATABLE: Final = frozenset({"setup", "call"})
# Of the other phases, "teardown" is about what a test, or all tests that shared a fixture, left behind, which one test
# alone cannot show; "collect" is a file that pytest cannot read; "???" is how xdist reports a worker that crashed.
_CRASH: Final = "???"
_TIMEOUT: Final = re.compile(r"Timeout \(>[\d.]+s\) from pytest-timeout")


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed phase of a test.

    Attributes:
        test: its id; of a phase "collect", the file.
        phase: "setup", "call", "teardown", "collect", or "???" where the process crashed.
        output: traceback and everything that was captured.
    """

    test: str
    phase: str
    output: str

    @property
    def obstacle(self) -> str:
        """Why it may not be repeated; empty if it may."""
        if self.test.startswith(_UNIT):
            return f"{self.test} failed: a unit test is never repeated"
        if self.phase == _CRASH:
            return f"{self.test} failed: its process crashed"
        if self.phase not in _REPEATABLE:
            return f"{self.test} failed in {self.phase}"
        if _TIMEOUT.search(self.output):
            return f"{self.test} failed: it ran into pytest's timeout"
        return ""


@dataclass(slots=True)
class Outcomes:
    """What pytest reported.

    Attributes:
        passed: number of tests; each subtest counts as well.
        skipped: likewise.
        stopped: the run ended before its last test, for instance by `--exitfirst`.
        paths: the arguments of pytest that name files, folders and tests; all others are options.
    """

    passed: int = 0
    skipped: int = 0
    stopped: bool = False
    paths: Sequence[str] = ()
    failures: list[Failure] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path) -> "Outcomes | None":
        """What a run left there; None if pytest ended before it could."""
        text = file.read_text(encoding="utf-8")
        if not text:
            return None
        found = json.loads(text)
        return cls(**{**found, "failures": [Failure(**one) for one in found["failures"]]})

    @property
    def failed(self) -> Mapping[str, str]:
        """The output of each failed test by its id, in the order of their failures."""
        found: dict[str, str] = {}
        for one in self.failures:
            found[one.test] = f"{found[one.test]}\n{one.output}" if one.test in found else one.output
        return found

    @property
    def obstacle(self) -> str:
        """Why the failed tests may not be repeated; empty if they may."""
        if not self.failures:
            return "pytest failed without naming a test"
        if self.stopped:
            return "the run stopped before its last test"
        if obstacles := [one.obstacle for one in self.failures if one.obstacle]:
            return obstacles[0]
        if len(self.failed) > LIMIT:
            return f"{len(self.failed)} tests failed, more than {LIMIT}"
        return ""


class Recorder:
    """A plugin of pytest that notes outcomes; with xdist, those of all workers arrive in its process."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found = Outcomes()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test has ended."""
        if report.failed:
            self._found.failures.append(Failure(report.nodeid, report.when, _output(report)))
        elif report.skipped:
            self._found.skipped += 1
        elif report.when == "call":
            self._found.passed += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file was read."""
        if report.failed:
            self._found.failures.append(Failure(report.nodeid, "collect", _output(report)))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the outcomes down; where this is not reached, the file stays empty."""
        self._found.stopped = bool(session.shouldfail or session.shouldstop)
        self._found.paths = session.config.option.file_or_dir
        self._file.write_text(json.dumps(asdict(self._found)), encoding="utf-8")


def _output(report: pytest.TestReport | pytest.CollectReport) -> str:
    sections = (f"--- {title} ---\n{content.rstrip()}" for title, content in report.sections)
    return "\n".join([report.longreprtext.rstrip(), *sections])


def main(file: Path, arguments: Sequence[str]) -> int:
    """Run pytest; its exit code."""
    # Only this module needs it: the programs that tests start see the environment of a plain `python -m pytest`.
    os.environ.pop("PYTHONPATH", None)
    return int(pytest.main(list(arguments), plugins=[Recorder(file)]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
