"""The planted changes of `make test-replay` apply to the code as it is: each replaces a text that stands there once."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from support.mutants import CHOOSERS, HARMLESS, MUTANTS, Mutant


@pytest.mark.parametrize("mutant", [HARMLESS, *CHOOSERS, *MUTANTS], ids=lambda one: f"{one.module}: {one.what}")
def test_a_planted_change_applies_once(mutant: Mutant) -> None:
    spec = find_spec(mutant.module)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).read_text(encoding="utf-8").count(mutant.text) == 1, mutant.text
