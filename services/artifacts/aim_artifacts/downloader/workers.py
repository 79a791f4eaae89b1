"""Several files at a time."""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

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
