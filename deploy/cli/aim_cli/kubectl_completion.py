"""``kubectl_complete-aim``, which kubectl asks for what may follow ``kubectl aim`` (FW-707)."""

import os
import shlex
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Final

from aim_cli.__main__ import app

_NO_FILES: Final = ":4"
"""What kubectl reads last: the directive of cobra to offer no files besides."""


def main() -> None:
    """Print what may stand for the last argument, a line each."""
    words = sys.argv[1:] or [""]
    asked = " ".join(["aim", *map(shlex.quote, words[:-1]), words[-1]])
    wanted = {"_AIM_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    os.environ.update(wanted, _TYPER_COMPLETE_ARGS=asked)
    with redirect_stdout(StringIO()) as offered, suppress(SystemExit):
        app(prog_name="aim")
    print(*filter(None, offered.getvalue().split("\n")), _NO_FILES, sep="\n")
