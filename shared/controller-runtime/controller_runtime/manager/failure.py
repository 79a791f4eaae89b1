"""Which failures end a service with one clear line, and which deserve a traceback."""

from collections.abc import Iterator
from typing import Final

import structlog

from controller_runtime.bus.errors import BusError
from controller_runtime.bus.publisher_state import SupersededError
from controller_runtime.bus.streams import StreamMismatchError
from controller_runtime.kube.errors import KubeError

_log = structlog.get_logger(__name__)


class StartError(Exception):
    """The process cannot run as it was told; the message says what to change."""


EXPECTED: Final = (KubeError, BusError, StreamMismatchError, SupersededError, StartError)
"""What operators can cure."""


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors themselves, without the groups around them."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def report(error: BaseException, message: str) -> None:
    """Log why a service ends: a line for what operators can cure, a traceback for what only developers can."""
    told = set()
    for cause in leaves(error):
        if not isinstance(cause, EXPECTED):
            _log.error(message, error=f"{type(cause).__name__}: {cause}", exc_info=cause)
        elif str(cause) not in told:
            told.add(str(cause))
            _log.error(message, error=str(cause))
