"""Retries and threads of transfers."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from http import HTTPStatus
from typing import Final, TypeVar

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


Item = TypeVar("Item")


def for_each(items: Iterable[Item], act: Callable[[Item], None], workers: int) -> None:
    """Act on all items in threads; the first failure ends it (AR-737). Blocks.

    Threads that are under way then go on until the process ends, which the caller has to see to: a file of hundreds
    of gigabytes would otherwise be finished before anybody hears of the failure.
    """
    pool = ThreadPoolExecutor(workers)
    done, _ = wait([pool.submit(act, item) for item in items], return_when=FIRST_EXCEPTION)
    pool.shutdown(wait=False, cancel_futures=True)
    for future in done:
        future.result()
