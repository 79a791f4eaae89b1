"""Which failures of a lane may be repeated."""

import pytest
from support.repeated import Flaky, record_of, section
from support.repeated_outcomes import LIMIT, Failure, Outcomes

WAITED = "E   AssertionError: not within 60 s"
TEST = "tests/e2e/test_why.py::test_a"


def failed(*failures: Failure, stopped: bool = False) -> Outcomes:
    return Outcomes(failures=list(failures), stopped=stopped)


@pytest.mark.parametrize("phase", ["setup", "call"])
def test_a_test_that_ran_or_was_set_up_and_failed_may_be_repeated(phase: str) -> None:
    assert failed(Failure(TEST, phase, WAITED)).obstacle == ""


@pytest.mark.parametrize(
    ("failure", "obstacle"),
    [
        (Failure("tests/unit/test_x.py::test_a", "call", WAITED), "a unit test is never repeated"),
        (Failure(TEST, "???", "worker 'gw0' crashed while running it"), "its process crashed"),
        (Failure(TEST, "teardown", WAITED), "failed in teardown"),
        (Failure("tests/e2e/test_why.py", "collect", "ImportError"), "failed in collect"),
        (Failure(TEST, "call", "Failed: Timeout (>300.0s) from pytest-timeout."), "pytest's timeout"),
    ],
)
def test_one_failure_of_another_kind_stops_all_repetitions(failure: Failure, obstacle: str) -> None:
    found = failed(Failure(TEST, "call", WAITED), failure)
    assert found.obstacle.endswith(obstacle)
    assert failure.test in found.obstacle


def test_as_many_tests_as_the_limit_allows_are_repeated_and_no_more() -> None:
    many = [Failure(f"{TEST}[{number}]", "call", WAITED) for number in range(LIMIT + 1)]
    assert failed(*many[:LIMIT]).obstacle == ""
    assert failed(*many).obstacle == f"{LIMIT + 1} tests failed, more than {LIMIT}"


def test_failed_subtests_count_as_one_test_and_all_their_outputs_are_kept() -> None:
    found = failed(*(Failure(TEST, "call", f"output {number}") for number in range(LIMIT + 1)))
    assert found.obstacle == ""
    assert found.failed == {TEST: "output 0\noutput 1\noutput 2\noutput 3"}


def test_a_run_that_stopped_early_is_not_repeated() -> None:
    assert failed(Failure(TEST, "call", WAITED), stopped=True).obstacle == "the run stopped before its last test"


def test_a_failure_without_a_test_is_not_repeated() -> None:
    assert failed().obstacle == "pytest failed without naming a test"


def test_lanes_that_differ_in_a_variable_record_apart() -> None:
    names = {record_of(lane).name for lane in ("test-e2e", "test-e2e CLUSTER=real", "test-e2e CONTAINERS=1")}
    assert len(names) == 3
    assert record_of("test-e2e FOLDER=/a/../b").name == "test-e2e-FOLDER=-a-..-b.json"


def test_the_section_shows_the_test_both_outputs_and_how_to_repeat_it() -> None:
    command = ["python", "-m", "pytest", f"{TEST}[a b]"]
    text = section([Flaky(f"{TEST}[a b]", "make test-e2e", command, {"CLUSTER": "real"}, "the first", "the second")])
    assert text.startswith("FLAKY\n")
    assert text.index(f"{TEST}[a b] (make test-e2e)") < text.index("the first") < text.index("the second")
    assert f"repeat: CLUSTER=real python -m pytest '{TEST}[a b]'" in text
