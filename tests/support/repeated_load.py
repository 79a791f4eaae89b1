"""`make flaky`: runs what the lanes recorded as flaky, many times on a busy machine.

    PYTHONPATH=tests python -m support.repeated_load [TIMES]

Each run is a process of its own, as the repetition was. A test that passes all of them is not what failed.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from support.repeated import Flaky, records, run

TIMES: Final = 200
_BUSY_SECONDS: Final = 900
"""A busy process ends after that, or with its parent, however that ends."""
_BUSY: Final = """
import os, sys, time
parent, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
while os.getppid() == parent and time.monotonic() < end:
    sum(range(100_000))
"""
_PROGRESS: Final = 10


@contextmanager
def busy_machine(processes: int) -> Iterator[list[int]]:
    """As many processes that do nothing but compute; their ids."""
    command = [sys.executable, "-c", _BUSY, str(os.getpid()), str(_BUSY_SECONDS)]
    silent = subprocess.DEVNULL
    burning = [subprocess.Popen(command, stdout=silent, stderr=silent) for _ in range(processes)]
    try:
        yield [one.pid for one in burning]
    finally:
        for one in burning:
            one.kill()
        for one in burning:
            one.wait()


def stress(one: Flaky, times: int) -> int:
    """Run it that often beside one busy process per core; how many runs failed. Prints the first failure's output."""
    processes = os.cpu_count() or 1
    print(f"{one.name}: {times} times beside {processes} busy processes", flush=True)
    failed = 0
    for number in range(1, times + 1):
        with busy_machine(processes):
            result = run(one.command, one.variables, show=False)
        if result.code:
            failed += 1
            if failed == 1:
                print(f"run {number} failed:\n{result.output}", flush=True)
        if number % _PROGRESS == 0 or number == times:
            print(f"{failed} of {number} failed", flush=True)
    return failed


def main(times: int) -> int:
    """All of them; the exit code."""
    found = records()
    if not found:
        print("Nothing is recorded as flaky: no lane needed a repetition in its last run.")
    failures = {f"{one.name} ({one.lane})": stress(one, times) for one in found}
    for name, failed in failures.items():
        print(f"{failed} of {times} failed: {name}")
    return 1 if any(failures.values()) else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else TIMES))
