"""Running a command to its end."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import structlog
import typer

from aim_cli.connecting import UnreachableError
from aim_cli.migration.reading import UnreadableError
from aim_cli.output import ERRORS, safe
from aim_cli.targets import TargetError
from controller_runtime.bus.connection import BusError

T = TypeVar("T")
UNREADABLE: Final = 4
"""What no verdict exits with: an outage says nothing about decisions."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; an error that the user can do something about ends the command with one line.

    With 2 where the words of the command are wrong, as typer does; with 4 where the log or the cluster cannot be read.
    """
    causes: list[BaseException] = []
    results: list[T] = []
    try:
        with _quiet():
            results.append(asyncio.run(work))
    except* (TargetError, UnreadableError, UnreachableError, BusError) as group:
        causes = leaves(group)
    if causes:
        ERRORS.print(f"aim: {safe(str(causes[0]))}")
        raise typer.Exit(2 if isinstance(causes[0], TargetError | UnreadableError) else UNREADABLE)
    return results[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """What the platform's code logs is not for whoever reads an answer, unless it is an error."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        yield
    finally:
        structlog.configure(**before)


def leaves(error: BaseException) -> list[BaseException]:
    """The errors inside of nested groups."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in leaves(inner)]
