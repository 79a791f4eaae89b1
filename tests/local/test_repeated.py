"""Lanes of small suites of their own, whose tests fail once, twice or in ways that must not be repeated."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.nats import eventually
from support.repeated import FOLDER, records, section

TESTS = Path(__file__).parents[1]
FAILS_ONCE = """
import os
from pathlib import Path

def fails_until(times, name):
    seen = Path(f"{name}.ran")
    number = len(seen.read_text()) if seen.exists() else 0
    seen.write_text("x" * (number + 1))
    print(f"{name} runs for time {number + 1}")
    assert number >= times, f"{name} failed at time {number + 1}"
"""
ONCE = "from helper import fails_until\ndef test_once(): fails_until(1, 'once')\n"
TWICE = "from helper import fails_until\ndef test_twice(): fails_until(2, 'twice')\n"
GREEN = "def test_green(): pass\n"


@dataclass(frozen=True, slots=True)
class Suite:
    """A folder with tests, where lanes run."""

    folder: Path

    def add(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def start(self, *words: str, module: str = "support.repeated") -> subprocess.Popen[str]:
        # The suite is none of this run's: it has no worker number of ours, and only the plugins that it needs.
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin,pytest_timeout"}
        return subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=self.folder,
            env={**ours, **plugins, "PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str, module: str = "support.repeated") -> tuple[int, str]:
        with self.start(*words, module=module) as process:
            output, _ = process.communicate()
        return process.returncode, output

    def lane(self, *arguments: str, variables: Sequence[str] = ()) -> tuple[int, str]:
        return self.run("lane", "test-fake", *variables, "--", *(arguments or ["tests"]))

    def report(self) -> str:
        found = records(self.folder / FOLDER)
        return section(found) if found else ""

    def times(self, name: str) -> int:
        return len((self.folder / f"{name}.ran").read_text())


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    found = Suite(tmp_path)
    found.add("pytest.ini", "[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\npythonpath = .\n")
    found.add("helper.py", FAILS_ONCE)
    return found


def test_a_test_that_fails_once_leaves_the_lane_green_and_both_outputs(suite: Suite) -> None:
    suite.add("tests/e2e/test_a.py", ONCE + GREEN)
    code, output = suite.lane()

    assert code == 0
    assert output.rstrip().endswith("2 passed, 0 failed, 0 skipped; 1 passed when repeated")
    assert suite.times("once") == 2
    report = suite.report()
    assert report.startswith("FLAKY\n")
    assert "tests/e2e/test_a.py::test_once (make test-fake)" in report
    first, second = report.split("--- second run ---")
    assert "once failed at time 1" in first
    assert "once runs for time 1" in first
    assert "once runs for time 2" in second
    assert "1 passed" in second


def test_a_test_that_fails_twice_makes_the_lane_red_with_both_outputs(suite: Suite) -> None:
    suite.add("tests/e2e/test_a.py", TWICE)
    code, output = suite.lane()

    assert code == 1
    assert "0 passed, 1 failed" in output
    again = output[output.index("It failed again.") :]
    assert "twice failed at time 1" in again
    assert "twice failed at time 2" in again
    assert suite.report() == ""


def test_one_test_that_fails_twice_outweighs_another_that_passes(suite: Suite) -> None:
    suite.add("tests/e2e/test_a.py", TWICE + ONCE)
    code, _ = suite.lane()
    assert code == 1
    assert "::test_once" in suite.report()


@pytest.mark.parametrize(
    ("path", "text", "code", "reason"),
    [
        ("tests/unit/test_a.py", ONCE, 1, "a unit test is never repeated"),
        ("tests/e2e/test_a.py", ONCE + "assert 0\n", 2, "1 error"),
        ("tests/e2e/test_a.py", ONCE + "import pytest\ndef test_out(): pytest.exit('x', 7)\n", 7, "Exit: x"),
        ("tests/e2e/test_a.py", ONCE + "def test_end(): import os; os._exit(1)\n", 1, ""),
        (
            "tests/e2e/test_a.py",
            ONCE + "import pytest, time\n@pytest.mark.timeout(0.2)\ndef test_long(): time.sleep(60)\n",
            1,
            "it ran into pytest's timeout",
        ),
        (
            "tests/e2e/test_a.py",
            ONCE + "import pytest\n@pytest.fixture\ndef f(): yield; assert 0\ndef test_f(f): pass\n",
            1,
            "failed in teardown",
        ),
        (
            "tests/e2e/test_a.py",
            ONCE + "import pytest\n@pytest.mark.parametrize('n', range(3))\ndef test_n(n): assert 0\n",
            1,
            "4 tests failed, more than 3",
        ),
    ],
    ids=["unit", "collection", "exit", "end", "timeout", "teardown", "many"],
)
def test_what_must_not_be_repeated(suite: Suite, path: str, text: str, code: int, reason: str) -> None:
    suite.add(path, text)
    found, output = suite.lane()
    assert found == code
    assert reason in output
    assert not list(suite.folder.glob("*.ran")) or suite.times("once") == 1
    assert suite.report() == ""


def test_a_run_that_stops_at_the_first_failure_is_not_repeated(suite: Suite) -> None:
    suite.add("tests/e2e/test_a.py", ONCE + GREEN)
    code, output = suite.lane("--exitfirst", "tests")
    assert code == 1
    assert "the run stopped before its last test" in output


def test_a_worker_that_crashes_is_not_repeated(suite: Suite) -> None:
    crash = "def test_crash():\n    fails_until(0, 'crash')\n    import os; os._exit(3)\n"
    suite.add("tests/e2e/test_a.py", ONCE + crash)
    code, output = suite.lane("--numprocesses=1", "tests")
    assert code == 1
    assert "its process crashed" in output
    assert suite.times("crash") == 1


def test_files_that_workers_share_are_repeated_in_one_process(suite: Suite) -> None:
    for name in "ab":
        suite.add(
            f"tests/e2e/test_{name}.py",
            f"import os\ndef test_{name}(): assert 'PYTEST_XDIST_WORKER' not in os.environ\n{GREEN}",
        )
    code, output = suite.lane("--numprocesses", "2", "--dist", "loadfile", "tests/e2e/test_a.py", "tests/e2e/test_b.py")
    assert code == 0, output
    assert "4 passed, 0 failed, 0 skipped; 2 passed when repeated" in output


ODD = ["a b[x]", "x::y\\n", "'q' \\\"Q\\\" $HOME ü"]


def test_parameters_with_odd_ids_are_found_again(suite: Suite) -> None:
    ids = ", ".join(f'"{text}"' for text in ODD)
    suite.add(
        "tests/e2e/test_a.py",
        f"import pytest\nfrom helper import fails_until\n@pytest.mark.parametrize('text', [{ids}])\n"
        "def test_odd(text): fails_until(1, str(sum(text.encode())))\n",
    )
    code, output = suite.lane()
    assert code == 0, output
    assert "3 passed when repeated" in output
    assert "::test_odd[a b[x]]" in suite.report()
    assert "::test_odd[x::y\\n]" in suite.report()


def test_a_package_gets_its_platform_again(suite: Suite) -> None:
    suite.add(
        "tests/e2e/conftest.py",
        "import pytest\nfrom helper import fails_until\n"
        "@pytest.fixture(scope='package')\ndef platform():\n    fails_until(1, 'platform')\n    yield\n",
    )
    suite.add("tests/e2e/__init__.py", "")
    suite.add("tests/e2e/test_a.py", "def test_a(platform): pass\ndef test_b(platform): pass\n")
    code, output = suite.lane()
    assert code == 0, output
    assert "2 passed, 0 failed, 0 skipped; 2 passed when repeated" in output


def test_a_test_that_skips_itself_when_it_is_repeated_has_not_passed(suite: Suite) -> None:
    skips = "import pytest\ndef test_skips():\n    try: fails_until(1, 'skips')\n    finally:\n"
    skips += "        if len(open('skips.ran').read()) == 2: pytest.skip('no program')\n"
    suite.add("tests/e2e/test_a.py", f"from helper import fails_until\n{skips}")
    code, _ = suite.lane()
    assert code == 1


def test_the_repetition_has_the_variables_of_the_lane_and_no_other_search_path(suite: Suite) -> None:
    suite.add(
        "tests/e2e/test_a.py",
        "import os\nfrom helper import fails_until\ndef test_once():\n"
        "    assert os.environ['CLUSTER'] == 'real'\n    assert 'PYTHONPATH' not in os.environ\n"
        "    fails_until(1, 'once')\n",
    )
    code, output = suite.lane(variables=["CLUSTER=real"])
    assert code == 0, output
    assert "repeat: CLUSTER=real " in suite.report()


def test_the_next_run_of_a_lane_replaces_its_record(suite: Suite) -> None:
    suite.add("tests/e2e/test_a.py", ONCE)
    suite.lane()
    assert "FLAKY" in suite.report()
    code, _ = suite.lane()
    assert code == 0
    assert suite.report() == ""


async def test_a_lane_that_is_ended_lets_its_tests_clean_up(suite: Suite) -> None:
    suite.add(
        "tests/e2e/test_a.py",
        "import time, signal, pytest\nfrom pathlib import Path\n"
        "@pytest.fixture\ndef platform():\n    Path('up').touch()\n    yield\n    Path('down').touch()\n"
        "def test_long(platform):\n    signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
        "    Path('runs').touch()\n    time.sleep(60)\n    Path('end').touch()\n",
    )
    with suite.start("lane", "test-fake", "--", "tests") as process:
        await eventually((suite.folder / "runs").exists, "the test runs")
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert (suite.folder / "down").exists()
    assert not (suite.folder / "end").exists()


def test_another_command_is_repeated_as_a_whole(suite: Suite) -> None:
    suite.add("once.py", "from helper import fails_until\nfails_until(1, 'command')\n")
    code, output = suite.run("command", "demo CLUSTER=real", "--", sys.executable, "once.py")
    assert code == 0
    assert output.count("command runs for time") == 2
    code, report = suite.run("report")
    assert code == 0
    assert "demo CLUSTER=real (the whole command)" in report
    assert "command failed at time 1" in report.split("--- second run ---")[0]


def test_another_command_that_fails_twice_fails(suite: Suite) -> None:
    code, _ = suite.run("command", "demo", "--", sys.executable, "-c", "raise SystemExit(2)")
    assert code == 2
    assert suite.report() == ""


@pytest.mark.parametrize(("failing_run", "code"), [(2, 1), (0, 0)])
def test_flaky_tests_run_often_and_one_failure_is_shown(suite: Suite, failing_run: int, code: int) -> None:
    test = "from helper import fails_until\nfrom pathlib import Path\ndef test_once():\n    fails_until(1, 'once')\n"
    # Runs 1 and 2 were the lane's.
    test += f"    assert len(Path('once.ran').read_text()) != {failing_run and 2 + failing_run}, 'failed under load'\n"
    suite.add("tests/e2e/test_a.py", test)
    assert suite.lane()[0] == 0

    found, output = suite.run("2", module="support.repeated_load")
    assert found == code, output
    assert suite.times("once") == 4
    failed = 1 if failing_run else 0
    assert f"{failed} of 2 failed: tests/e2e/test_a.py::test_once (make test-fake)" in output
    assert ("run 2 failed:" in output, "failed under load" in output) == (bool(failed), bool(failed))


async def test_busy_processes_end_with_their_parent(suite: Suite) -> None:
    suite.add(
        "parent.py",
        "import os, signal\nfrom pathlib import Path\nfrom support.repeated_load import busy_machine\n"
        "with busy_machine(2) as burning:\n"
        "    Path('pids').write_text(' '.join(str(one) for one in burning))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    suite.run(module="parent")
    pids = [int(one) for one in (suite.folder / "pids").read_text().split()]
    assert len(pids) == 2
    await eventually(lambda: not any(_runs(one) for one in pids), "the busy processes have ended")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_without_a_record_there_is_nothing_to_run(suite: Suite) -> None:
    code, output = suite.run(module="support.repeated_load")
    assert code == 0
    assert output.startswith("Nothing is recorded as flaky")
