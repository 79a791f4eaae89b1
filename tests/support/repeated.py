"""Runs what may fail by chance, and repeats what failed once, by itself: docs/development/flaky.md.

    PYTHONPATH=tests python -m support.repeated lane NAME [VARIABLE=VALUE ...] -- PYTEST-ARGUMENTS...
    PYTHONPATH=tests python -m support.repeated command NAME -- COMMAND...
    PYTHONPATH=tests python -m support.repeated report

The plugins pytest-rerunfailures and flaky repeat a test at once, in the process in which it failed and on the platform
on which it failed, and drop its first output where the second run passes.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from support.repeated_outcomes import Outcomes

from aim_local.processes import dying_with_parent

FOLDER: Final = Path(".run/flaky")
"""One file per lane, with what passed only when it was repeated in the last run of that lane."""
_TESTS: Final = Path(__file__).parents[1]
_TESTS_FAILED: Final = 1
"""The exit code of pytest; all greater ones mean that it was interrupted, used in a wrong way or broke."""
_LATE_SECONDS: Final = 5.0
"""A program that a command left behind may hold its output open for longer than the command lives."""
_FIRST: Final = "--- first run ---"
_SECOND: Final = "--- second run ---"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Flaky:
    """What failed and then passed when it was repeated.

    Attributes:
        name: id of the test, or the whole command.
        lane: where it ran.
        command: repeats it.
        variables: added to the environment for it.
        first: output of the failure.
        second: output of the repetition.
    """

    name: str
    lane: str
    command: Sequence[str]
    variables: Mapping[str, str]
    first: str
    second: str


class Result(NamedTuple):
    """A command that has ended."""

    code: int
    output: str


def records(folder: Path = FOLDER) -> list[Flaky]:
    """What all lanes recorded."""
    return [Flaky(**one) for file in sorted(folder.glob("*.json")) for one in json.loads(file.read_text("utf-8"))]


def section(found: Sequence[Flaky]) -> str:
    """The text under the heading FLAKY."""
    lines = ["FLAKY", "====="]
    for one in found:
        variables = (f"{name}={shlex.quote(value)}" for name, value in one.variables.items())
        lines += ["", f"{one.name} ({one.lane})", f"repeat: {' '.join([*variables, shlex.join(one.command)])}"]
        lines += [_FIRST, one.first, _SECOND, one.second]
    return "\n".join([*lines, "", f"{len(found)} flaky: make flaky runs each of them 200 times under load"])


def record_of(lane: str) -> Path:
    """Where a lane records; its name is a command with variables."""
    return FOLDER / f"{re.sub(r'[^a-zA-Z0-9_.=]+', '-', lane)}.json"


def _record(lane: str, found: Sequence[Flaky]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    record_of(lane).write_text(json.dumps([asdict(one) for one in found]), encoding="utf-8")


@contextmanager
def _signals_passed_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """The child ends by itself, and stops its platform, before we do. A terminal interrupts both of us."""
    received: list[int] = []

    def receive(number: int, _: FrameType | None) -> None:
        received.append(number)
        if number != signal.SIGINT:
            child.send_signal(number)

    former = {one: signal.signal(one, receive) for one in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if received:
        sys.exit(128 + received[0])


def _started(
    command: Sequence[str], variables: Mapping[str, str], output: int | None = None
) -> subprocess.Popen[bytes]:
    """A child that ends with us; its environment is ours, without the `PYTHONPATH` that started this module."""
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen(
        command,
        env={**ours, **variables},
        stdout=output,
        stderr=output and subprocess.STDOUT,
        preexec_fn=dying_with_parent(signal.SIGTERM),  # noqa: PLW1509 - it takes no locks
    )


def run(command: Sequence[str], variables: Mapping[str, str], *, show: bool) -> Result:
    """Run a command and return its output, errors included; ``show`` prints the output as it comes, too."""
    child = _started(command, variables, subprocess.PIPE)
    stream, lines = child.stdout, list[bytes]()
    assert stream is not None

    def read() -> None:
        for line in stream:
            lines.append(line)
            if show:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()

    reader = threading.Thread(target=read, daemon=True)
    with _signals_passed_on(child):
        reader.start()
        code = child.wait()
        reader.join(_LATE_SECONDS)
    return Result(code, b"".join(lines).decode(errors="replace"))


@contextmanager
def _outcomes(arguments: Sequence[str]) -> Iterator[tuple[list[str], Path]]:
    """A command that runs pytest, and the file where it leaves its outcomes."""
    with tempfile.NamedTemporaryFile(prefix="aim-outcomes-") as file:
        yield [sys.executable, "-m", "support.repeated_outcomes", file.name, *arguments], Path(file.name)


def _first(variables: Mapping[str, str], arguments: Sequence[str]) -> tuple[int, Outcomes | None]:
    """All tests, with the terminal to themselves."""
    with _outcomes(arguments) as (command, file):
        child = _started(command, {**variables, "PYTHONPATH": str(_TESTS)})
        with _signals_passed_on(child):
            code = child.wait()
        return code, Outcomes.read(file)


def _second(variables: Mapping[str, str], arguments: Sequence[str]) -> tuple[bool, str]:
    """One test; whether it passed, and its output. A test that skips itself, or is not found, has not passed."""
    with _outcomes([*arguments, "-rA"]) as (command, file):
        result = run(command, {**variables, "PYTHONPATH": str(_TESTS)}, show=False)
        outcomes = Outcomes.read(file)
    return result.code == 0 and outcomes is not None and outcomes.passed > 0, result.output


def lane(name: str, variables: Mapping[str, str], arguments: Sequence[str]) -> int:
    """Run tests, repeat those that failed where that is allowed, and record what then passed; the exit code."""
    record_of(name).unlink(missing_ok=True)
    code, outcomes = _first(variables, arguments)
    if code != _TESTS_FAILED or outcomes is None:
        return _exit_code(code)
    if outcomes.obstacle:
        print(f"\nNot repeated: {outcomes.obstacle}.", flush=True)
        return code
    # Of an option that is given twice the last one counts: one process, whatever the lane takes.
    options = [*(one for one in arguments if one not in outcomes.paths), "--numprocesses=0"]
    flaky, failed = [], 0
    for test, first in outcomes.failed.items():
        print(f"\n== repeated by itself: {test}", flush=True)
        passed, second = _second(variables, [test, *options])
        if passed:
            again = [sys.executable, "-m", "pytest", test, *options]
            flaky.append(Flaky(test, f"make {name}", again, variables, first, second))
            print("It passed.", flush=True)
        else:
            failed += 1
            print(f"It failed again.\n{_FIRST}\n{first}\n{_SECOND}\n{second}", flush=True)
    if flaky:
        _record(name, flaky)
    passed_in_all = outcomes.passed + len(flaky)
    print(f"\n{passed_in_all} passed, {failed} failed, {outcomes.skipped} skipped; {len(flaky)} passed when repeated")
    return 1 if failed else 0


def command(name: str, words: Sequence[str]) -> int:
    """Run a command other than pytest, repeat it if it failed, and record it if it then passed; the exit code."""
    record_of(name).unlink(missing_ok=True)
    first = run(words, {}, show=True)
    if first.code <= 0:
        return _exit_code(first.code)
    print(f"\n== repeated: {name}", flush=True)
    second = run(words, {}, show=True)
    if second.code == 0:
        _record(name, [Flaky(name, "the whole command", words, {}, first.output, second.output)])
    return _exit_code(second.code)


def _exit_code(code: int) -> int:
    """As a shell says it: a signal that ended the command counts from 128."""
    return code if code >= 0 else 128 - code


def main(arguments: Sequence[str]) -> int:
    """The command line; the exit code."""
    verb, *words = arguments
    if verb == "report":
        if found := records():
            print(section(found))
        return 0
    border = words.index("--")
    name, *assignments = words[:border]
    if verb == "lane":
        return lane(name.strip(), dict(one.split("=", 1) for one in assignments), words[border + 1 :])
    return command(name, words[border + 1 :])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
