"""Who read what in the last pass."""

import pytest

from controller_runtime.log.wire.part import about_group
from controller_runtime.reconcile.enqueue import Readers

RED, BLUE = about_group(("nodes", "gpus", "red")), about_group(("nodes", "gpus", "blue"))


@pytest.mark.spec("FW-454", "FW-500")
def test_the_latest_pass_counts() -> None:
    readers: Readers[str] = Readers()
    readers.note("a", [RED, BLUE])
    readers.note("b", [RED])
    assert (list(readers.of(RED)), list(readers.of(BLUE))) == (["a", "b"], ["a"])
    readers.note("a", [BLUE])
    assert (list(readers.of(RED)), list(readers.of(BLUE))) == (["b"], ["a"])
    readers.note("a", [])
    readers.note("unknown", [])
    assert (list(readers.of(RED)), list(readers.of(BLUE))) == (["b"], [])
