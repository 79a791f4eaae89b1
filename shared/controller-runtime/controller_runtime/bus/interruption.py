"""The one way in which a publisher's session ends early."""

from collections.abc import Iterator
from contextlib import contextmanager

from controller_runtime.bus.errors import BusApiError, BusUnavailableError


class InterruptedSessionError(Exception):
    """Writing cannot go on for now; what was not acknowledged is looked at again in the next session."""


@contextmanager
def interrupting() -> Iterator[None]:
    """What the broker does not answer, or refuses, ends the session and not the process."""
    try:
        yield
    except (BusUnavailableError, BusApiError) as error:
        raise InterruptedSessionError(str(error)) from error
