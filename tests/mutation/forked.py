"""Work in processes forked off one that has loaded everything, each with an end of its own."""

import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_FORK: Final = multiprocessing.get_context("fork")
_LONGEST_SECONDS: Final = 180.0
_MOST_MEMORY: Final = 4 << 30


class _Child(Generic[T, R]):
    def __init__(self, work: T, run: Callable[[T], R], seconds: int) -> None:
        self.work = work
        self.receiver, sender = _FORK.Pipe(duplex=False)
        self.process = _FORK.Process(target=_main, args=(sender, run, work, seconds))
        self.process.start()
        sender.close()
        self.until = time.monotonic() + _LONGEST_SECONDS

    def result(self) -> R | None:
        try:
            result: R | None = self.receiver.recv()
        except EOFError:
            result = None
        self.process.join()
        self.receiver.close()
        return result


def in_processes(
    works: Iterator[T], run: Callable[[T], R], *, workers: int, seconds: int
) -> Iterator[tuple[T, R | None]]:
    """Each piece of work with its result, as it comes; None where it took more than so much processor time."""
    children: list[_Child[T, R]] = []
    while True:
        while len(children) < workers and (work := next(works, None)) is not None:
            children.append(_Child(work, run, seconds))
        if not children:
            return
        ready = wait([one.receiver for one in children], timeout=1.0)
        for child in [one for one in children if one.receiver in ready]:
            children.remove(child)
            yield child.work, child.result()
        for child in children:
            if time.monotonic() > child.until:
                child.process.kill()


def _main(sender: Connection, run: Callable[[T], R], work: T, seconds: int) -> None:
    # Processor time, not the clock: a busy host ends no process that would have come to its end.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    sys.stdout.flush()
    for fd in (1, 2):
        os.dup2(nowhere, fd)
    sender.send(run(work))
