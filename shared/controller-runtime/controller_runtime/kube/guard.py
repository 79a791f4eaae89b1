"""Who may write: the one question before every write of a leader, to the API server and to the broker alike."""

import math
from collections.abc import Callable
from typing import TypeAlias

from controller_runtime.kube.errors import KubeError

WriteGuard: TypeAlias = Callable[[], float]
"""The seconds in which a write that begins now has to be through; 0: this process may not write (FW-407, FW-429).

A request to the API server is given up after them. The broker is not asked to forget what it was sent: there the fence
of the subject decides, and a successor's comparison finds what came late.

Asked last before each attempt: what was true when a write was queued may not be true any more.
"""


class NotLeaderError(KubeError):
    """A write was dropped because this process does not (any longer) lead (FW-407)."""


def unguarded() -> float:
    """The guard of a process that no Lease limits."""
    return math.inf


def seconds_to_write(guard: WriteGuard) -> float:
    """How long a write that begins now may take.

    Raises:
        NotLeaderError: it may not begin.
    """
    left = guard()
    if left <= 0:
        raise NotLeaderError("the Lease was not renewed in time; write dropped")
    return left
