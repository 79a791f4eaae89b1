"""``python -m aim_artifacts.downloader [download|check-size] <source URI>`` (AR-700)."""

import sys
from collections.abc import Sequence
from typing import Final

from aim_artifacts.downloader.check_size import check_size
from aim_artifacts.downloader.download import download
from aim_artifacts.downloader.ending import end
from aim_artifacts.downloader.program import Command, run

_COMMANDS: Final[dict[str, Command]] = {"download": download, "check-size": check_size}


def main(arguments: Sequence[str]) -> int:
    """Run a command; without one the source is downloaded."""
    if arguments and arguments[0] in _COMMANDS:
        return run(_COMMANDS[arguments[0]], arguments[1:])
    return run(download, arguments)


if __name__ == "__main__":
    end(main(sys.argv[1:]))
