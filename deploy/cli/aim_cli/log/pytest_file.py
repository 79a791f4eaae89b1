"""``aim replay --as-test``: recorded decisions as a test (FW-625)."""

import asyncio
from pathlib import Path
from typing import Final

from aim_cli.answer import Answer
from aim_cli.errors import Exit, UnreadableError
from aim_cli.log.connecting import SUFFIX
from aim_cli.log.exporting import export
from controller_runtime.bus.history import DecisionFilter

_TEXT: Final = '''"""Recorded decisions{about}: today's code has to decide the same. Made by `aim replay --as-test`."""

from pathlib import Path

import pytest

from aim_cli.recorded import Recorded, recorded

LOG = Path(__file__).with_suffix("{suffix}")


@pytest.mark.parametrize("decision", recorded(LOG), ids=str)
def test_comes_out_as_recorded(decision: Recorded) -> None:
    again = decision.taken_again()
    assert again.missing == ()
    assert again.differences == ()
'''


async def as_test(nats_url: str, wanted: DecisionFilter, path: Path) -> Answer:
    """Write a test, and beside it the file with what it needs.

    Raises:
        UnreachableError: the log cannot be read.
        UnreadableError: a file cannot be written.
    """
    if path.suffix != ".py":
        raise UnreadableError(f"{path} would not be found as a test; end its name with .py")
    log = path.with_suffix(SUFFIX)
    exported = await export(nats_url, log, wanted)
    if exported.code is not Exit.WELL:
        return exported
    about = f" about {wanted.part} {wanted.namespace or ''}/{wanted.name}" if wanted.name else ""
    try:
        await asyncio.to_thread(path.write_text, _TEXT.format(about=about, suffix=SUFFIX), "utf-8")
    except OSError as error:
        raise UnreadableError(f"{path} cannot be written: {error.strerror}") from error
    assert isinstance(exported.data, dict)
    lines = (f"{path}: a test of {exported.data['decisions']} decisions, from {log}", f"try it: pytest {path}")
    return Answer({**exported.data, "test": str(path)}, lines, Exit.WELL, exported.remarks)
