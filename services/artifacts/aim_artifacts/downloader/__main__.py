"""``python -m aim_artifacts.downloader [download|check-size] <source URI>`` (AR-700)."""

import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from aim_artifacts.downloader.check_size import check_size
from aim_artifacts.downloader.download import download
from aim_artifacts.downloader.program import Command, run

_COMMANDS: Final[dict[str, Command]] = {"download": download, "check-size": check_size}


def main(arguments: Sequence[str]) -> int:
    """Run a command; without one the source is downloaded."""
    if arguments and arguments[0] in _COMMANDS:
        return run(_COMMANDS[arguments[0]], arguments[1:])
    return run(download, arguments)


def end(code: int) -> NoReturn:
    """End the process without taking the interpreter apart.

    Threads of the object store's library may ask for the interpreter's lock just then, and the process would abort
    although its work was done and told.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main(sys.argv[1:]))
