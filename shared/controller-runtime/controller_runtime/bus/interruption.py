"""The one way in which a publisher's session ends early."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from controller_runtime.bus.errors import BusApiError, BusUnavailableError


class InterruptedSessionError(Exception):
    """Writing cannot go on for now; what was not acknowledged is looked at again in the next session."""


class Alarm:
    """Ends the sessions of all publishers of a process at once, for example when a stream was changed (FW-767)."""

    def __init__(self) -> None:
        self._raised = asyncio.Event()
        self._cause = ""

    def sound(self, cause: str) -> None:
        """End the sessions of this moment; those that begin later are not concerned."""
        self._cause = cause
        self._raised.set()
        self._raised = asyncio.Event()

    async def wait(self) -> str:
        """Why, once it sounds."""
        await self._raised.wait()
        return self._cause


@contextmanager
def interrupting() -> Iterator[None]:
    """What the broker does not answer, or refuses, ends the session and not the process."""
    try:
        yield
    except (BusUnavailableError, BusApiError) as error:
        raise InterruptedSessionError(str(error)) from error
