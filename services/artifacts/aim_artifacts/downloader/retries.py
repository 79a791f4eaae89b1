"""Asking a store again for what it may give the next time (AR-737, AR-809)."""

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from aim_artifacts.downloader.failure import log

_TRIES: Final = 5
_FIRST_PAUSE: Final = 0.5


def with_retries(name: str, act: Callable[[], None], may_pass: Callable[[Exception], bool]) -> None:
    """Act, up to five times, with pauses that double. Blocks.

    Args:
        name: of the file, for the log.
        may_pass: whether what was raised may be over by the next time.
    """
    for number in range(1, _TRIES + 1):
        try:
            act()
        except Exception as error:
            if number == _TRIES or not may_pass(error):
                raise
            log(f"downloading {name} failed, try {number} of {_TRIES}: {error}")
            time.sleep(_FIRST_PAUSE * 2 ** (number - 1))
        else:
            return


def may_be_another(status: int) -> bool:
    """Whether an HTTP status speaks of the moment, not of the request."""
    return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
