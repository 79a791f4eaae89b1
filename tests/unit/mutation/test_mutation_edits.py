"""What a mutation tester changes, and that a change is noticed by a strong test and survives a weak one."""

import builtins
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from mutation.edits import REACHED, Edit, Place, changed_code, edits, living_functions, planted, with_probes
from mutation.equal import EQUAL, reason
from mutation.session import sampled
from mutation.targets import packages as targets

SOURCE = '''
LIMIT = 3

class Box:
    def admits(self, size: int, *, closed: bool = False) -> bool:
        """Whether it fits: 1, 2."""
        assert size >= 0, "a size"
        if closed:
            return False
        return size <= LIMIT
'''


class Planted:
    """A module that is loaded."""

    def __init__(self, folder: Path, source: str) -> None:
        self.file = folder / "planted.py"
        self.file.write_text(source)
        self.names: dict[str, Any] = {"__name__": "planted"}
        exec(compile(source, str(self.file), "exec"), self.names)

    def survivors(self, test: Callable[[], bool]) -> list[str]:
        """The changes with which this test still passes."""
        functions = living_functions({str(self.file)})
        return [one.what for one in edits(self.file) if self._survives(one, functions, test)]

    @staticmethod
    def _survives(edit: Edit, functions: dict[Place, list[FunctionType]], test: Callable[[], bool]) -> bool:
        with planted(changed_code(edit), functions):
            return test()


@pytest.mark.spec("FW-530")
def test_a_weak_test_lets_changes_live(tmp_path: Path) -> None:
    module = Planted(tmp_path, SOURCE)
    box = module.names["Box"]()
    survivors = {"False  ->  True", "size <= LIMIT  ->  size < LIMIT"}
    assert set(module.survivors(lambda: box.admits(1) and not box.admits(4))) == survivors


@pytest.mark.spec("FW-530")
def test_a_strong_test_lets_none_live(tmp_path: Path) -> None:
    module = Planted(tmp_path, SOURCE)
    box = module.names["Box"]()

    def strong() -> bool:
        return [box.admits(3), box.admits(4), box.admits(1, closed=True)] == [True, False, False]

    assert module.survivors(strong) == []
    assert strong()


CHANGES: dict[str, set[str]] = {
    "return a < b": {"return a < b  ->  return None", "a < b  ->  a <= b"},
    "return a if b else 1": {"return a if b else 1  ->  return None", "b  ->  not b", "1  ->  2"},
    "return not a and b": {"return not a and b  ->  return None", "not a and b  ->  not a or b", "not a  ->  a"},
    "a.b = 'key'": {"a.b = 'key'  ->  pass", "'key'  ->  'key~'"},
    "a(b, 'some words', c=1)": {
        "a(b, 'some words', c=1)  ->  pass", "a(b, 'some words', c=1)  ->  a('some words', b, c=1)",
        "a(b, 'some words', c=1)  ->  a(b, 'some words')", "1  ->  2",
    },
    "b = [x for x in a if x.y]": {"x.y  ->  True"},
    "raise a": {"raise a  ->  pass"},
    "b = f'{a} of: {b + 1:04d}'": {"b + 1  ->  b - 1", "1  ->  2"},
    "b = min(a, b)": set(),
    "assert a > 1": set(),
}  # fmt: skip


@pytest.mark.spec("FW-530")
@pytest.mark.parametrize("statement", CHANGES)
def test_the_changes_of_a_statement(tmp_path: Path, statement: str) -> None:
    module = Planted(tmp_path, f"def decide(a, b):\n    {statement}\n")
    found = edits(module.file)
    assert {one.what for one in found} == CHANGES[statement]
    assert [one.number for one in found] == list(range(len(found)))
    before = module.names["decide"].__code__
    assert all(changed_code(one)[one.place] != before for one in found)


@pytest.mark.spec("FW-530")
def test_what_a_function_has_made_is_changed_with_it(tmp_path: Path) -> None:
    module = Planted(
        tmp_path, "def maker(most):\n    def admits(size):\n        return size <= most\n    return admits\n"
    )
    admits = module.names["maker"](3)
    assert module.survivors(lambda: admits(3) and not admits(4)) == ["return admits  ->  return None"]


@pytest.mark.spec("FW-530")
def test_the_lines_that_are_come_to_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def judge(a):\n    def inner(b):\n        return b\n    if a:\n        return inner(a)\n    return 0\n"
    module = Planted(tmp_path, source)
    reached = bytearray(20)
    monkeypatch.setattr(builtins, REACHED, reached, raising=False)
    functions = living_functions({str(module.file)})
    with planted(with_probes(str(module.file), 10), functions):
        assert module.names["judge"](0) == 0
        assert [line for line, one in enumerate(reached) if one] == [12, 14, 16]
        assert module.names["judge"](1) == 1
        assert [line for line, one in enumerate(reached) if one] == [12, 13, 14, 15, 16]


@pytest.mark.spec("FW-530")
def test_a_seed_gives_the_order_and_packages_take_turns(tmp_path: Path) -> None:
    file = Planted(tmp_path, SOURCE).file
    packages = {"one": [file], "two": [file]}
    first, again, other = (list(sampled(packages, random.Random(seed))) for seed in (1, 1, 2))
    assert first == again != other
    assert Counter(first) == Counter(other)
    assert [package for package, _ in first] == ["one", "two"] * (len(first) // 2)


@pytest.mark.spec("FW-550")
def test_what_is_said_to_change_nothing_is_a_change_that_is_made() -> None:
    named = [file for files in targets().values() for file in files if any(file.match(one.file) for one in EQUAL)]
    every = [edit for file in named for edit in edits(file)]
    assert [change for change in EQUAL if not any(change.is_that(edit) for edit in every)] == []
    assert sum(reason(edit) is None for edit in every) > len(every) / 2
