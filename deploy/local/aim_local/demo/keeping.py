"""Keeps the processes of a stack alive while something else goes on, as a cluster would."""

import asyncio
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from rich.console import Console

from aim_local.stack import Stack, Supervised

T = TypeVar("T")
_MOST: Final = 5
_WITHIN_SECONDS: Final = 60.0
"""A process that ends more often in that time will not get better."""


async def while_kept_alive(stack: Stack, console: Console, story: Coroutine[Any, Any, T]) -> T:
    """Run the story, and return its result, while every process that ends is started again.

    Raises:
        StackError: a process can't be brought back; it says how that ended.
    """
    try:
        async with asyncio.TaskGroup() as group:
            keeping = [group.create_task(_keep(process, stack, console)) for process in stack.processes]
            result = await story
            for task in keeping:
                task.cancel()
    except ExceptionGroup as errors:
        raise _first(errors) from errors
    return result


async def _keep(process: Supervised, stack: Stack, console: Console) -> None:
    starts: deque[float] = deque(maxlen=_MOST)
    while True:
        await process.wait_ended()
        if process.name in stack.cluster.irreplaceable:
            raise process.failure(f"{process.ending}, and all objects are lost with it")
        if len(starts) == _MOST and time.monotonic() - starts[0] < _WITHIN_SECONDS:
            raise process.failure(f"{process.ending}, {_MOST + 1} times within {_WITHIN_SECONDS:g} s")
        console.print(f"{process.name} {process.ending}; starting it again", highlight=False, markup=False)
        starts.append(time.monotonic())
        await process.restart()
        console.print(f"{process.name} is ready again after {process.start_seconds:.2f} s", highlight=False)


def _first(group: ExceptionGroup) -> Exception:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
