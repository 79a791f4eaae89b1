"""The files that make test begins with."""

from pathlib import Path

from support.schedule import LONGEST

TESTS = Path(__file__).parents[1]


def test_the_files_that_take_longest_are_there() -> None:
    assert [name for name in LONGEST if not (TESTS / f"{name}.py").is_file()] == []
