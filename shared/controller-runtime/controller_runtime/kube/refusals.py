"""What the API server refuses to a whole service, until it no longer does: for `/readyz`, log and Events (FW-586).

The reconcile of one object reports its error there. A kind that may not be listed, or a status that may not be written,
concerns all objects, also in services that only watch; so it is gathered where every answer comes by.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from controller_runtime.kinds import SECRET
from controller_runtime.kube.errors import ApiError

_LASTING: Final = 600.0
"""Seconds after which what was not asked again is forgotten."""
_MOST: Final = 64
_WHO: Final = re.compile(r'User "[^"]*" cannot \S+ resource "[^"]*"')
_NAMESPACE: Final = re.compile(r"/namespaces/([^/]+)/")
_SECRETS: Final = SECRET.resource
_UNDECLARED: Final = "field not declared in schema"


@final
@dataclass(frozen=True, slots=True)
class AccessRequest:
    """What was asked, as far as permissions go."""

    verb: str
    resource: str
    namespace: str

    @classmethod
    def of(cls, verb: str, resource: str, path: str) -> "AccessRequest":
        """What a request is."""
        found = _NAMESPACE.search(path)
        return cls(verb, resource, found[1] if found else "")


@final
class Refusals:
    """Refusals that no object alone is the cause of, by what was asked.

    Args:
        clock: any steadily rising clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[AccessRequest, tuple[ApiError, float]] = {}

    def note_refusal(self, asked: AccessRequest, error: ApiError) -> None:
        """Take note of an answer."""
        if not concerns_all(asked, error):
            return
        self._found.pop(asked, None)
        self._found[asked] = error, self._clock()
        if len(self._found) > _MOST:
            del self._found[next(iter(self._found))]

    def answered(self, verb: str, resource: str, path: str) -> None:
        """A request was allowed."""
        # Nothing is refused nearly always, and this is asked after every request.
        if not self._found:
            return
        self._found.pop(AccessRequest.of(verb, resource, path), None)
        for asked, (error, _) in list(self._found.items()):
            if error.code == 401:
                del self._found[asked]

    def current(self) -> tuple[tuple[AccessRequest, ApiError], ...]:
        """What is refused at present."""
        now = self._clock()
        self._found = {asked: one for asked, one in self._found.items() if now - one[1] < _LASTING}
        return tuple((asked, error) for asked, (error, _) in self._found.items())


def concerns_all(asked: AccessRequest, error: ApiError) -> bool:
    """Whether the answer says something of the installation, and not of one object."""
    match error.code:
        case 401:
            return True
        case 403:
            # A Secret is read because an object names it, and withheld on purpose (FW-507): the object reports that.
            if asked.resource == _SECRETS:
                return False
            # Quotas, webhooks and Pod Security answer 403 as well, and name no verb.
            return _WHO.search(error.message) is not None
        case 404:
            return asked.verb in {"list", "watch"}
        case _:
            return error.is_typed_patch_failure and _UNDECLARED in error.message
