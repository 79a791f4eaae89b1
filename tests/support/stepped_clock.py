"""Services whose wall clock a test sets, by Debian's libfaketime; their monotonic clock runs on.

python -m support.stepped_clock      # prints the path of the library, or one line why there is none
"""

import sys
from pathlib import Path
from typing import Final

from support import debian
from support.debian import UnavailableError
from support.services import Platform, ServiceUnderTest

PACKAGE: Final = "libfaketime"
_LIBRARY: Final = "libfaketimeMT.so.1"


def obtain() -> Path:
    """The library, of this system or from the package index of this Debian.

    Raises:
        UnavailableError: with the reason in one line.
    """
    return debian.obtain_library(PACKAGE, f"faketime/{_LIBRARY}")


class SteppedClock:
    """The clock of some services.

    Args:
        folder: of the file that the library reads at each look at the clock.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self._library = obtain()
        self.set(0)

    def set(self, seconds: int) -> None:
        """Let the clock be that far ahead of the machine's."""
        following = self._file.with_suffix(".new")
        following.write_text(f"{seconds:+d}\n", encoding="ascii")
        following.replace(self._file)

    async def started(self, stage: Platform, pod: str, **variables: str) -> ServiceUnderTest:
        """A service with this clock."""
        service = stage.service(pod, preloaded=self.variables(), **variables)
        await service.start()
        return service

    def variables(self) -> dict[str, str]:
        """What gives a process this clock from its start."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


def main() -> int:
    """Whether the tests can run; the exit code."""
    try:
        print(obtain())
    except UnavailableError as error:
        print(f"libfaketime: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
