"""Running a command that waits for the broker or writes to the cluster."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import typer

from aim_cli.answer import complain
from aim_cli.errors import CliError

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; an error that the user can do something about ends the command with one line (FW-602)."""
    try:
        return waited(work)
    except CliError as error:
        complain(f"aim: {error}")
        raise typer.Exit(error.code) from error


def waited(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end.

    Raises:
        CliError: what a user can do something about, also out of a group of errors.
    """
    causes: list[BaseException] = []
    results: list[T] = []
    try:
        with _quiet():
            results.append(asyncio.run(work))
    except* CliError as group:
        causes = leaves(group)
    if causes:
        raise causes[0]
    return results[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """What the platform's code logs is not for the reader of an answer, unless it is an error."""
    # Who logs nothing need not pay for its import.
    import structlog  # noqa: PLC0415

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
