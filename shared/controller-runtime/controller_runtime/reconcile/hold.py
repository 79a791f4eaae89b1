"""News that waits before it is told, because what usually follows at once would replace it (FW-510…FW-512).

A pod that starts is often ready a moment later, and an image usually answers within a second: each such step would
cost a status that nobody gets to read. A component says for how long it may stay untold, and the state engine does
the rest: the stored condition stands meanwhile, and the plan says when to look again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from controller_runtime.api.enums import StatusValue
from controller_runtime.api.meta import Condition

BRIEFLY: Final = timedelta(seconds=2)
"""How long a step goes untold that the next one usually follows at once.

Kubernetes gives its times in whole seconds, so the real span is one to two.
"""
UNTOLD: Final = ""
"""In place of a reason: nothing has been told of the component so far."""


@dataclass(frozen=True, slots=True)
class Hold:
    """How long a component is not told, and what stands meanwhile.

    Attributes:
        span: it is told after that long; ``None``: once what was asked for is known, which wakes the object.
        since: when it became so; goes with ``span``.
        over: reasons of the stored condition that may stand meanwhile, with the state that each stands for; over any
            other the component is told at once.
        whole: not this component alone, but the whole status stays as it is stored.

    Raises:
        ValueError: a span without its beginning would never end.
    """

    span: timedelta | None = None
    since: datetime | None = None
    over: Mapping[str, StatusValue] = field(default_factory=lambda: MappingProxyType({}))
    whole: bool = False

    def __post_init__(self) -> None:
        if (self.span is None) != (self.since is None):
            raise ValueError("span and since go together")

    def state(self, before: Condition | None) -> StatusValue | None:
        """The state that stands meanwhile; ``None`` = the stored condition may not stand."""
        return self.over.get(UNTOLD if before is None else before.reason)

    def covers(self, before: Condition | None, now: datetime) -> bool:
        """Whether it is too early to tell, and what is stored may stand that long.

        A clock that is behind the API server's must not make the wait longer.
        """
        timely = self.span is None or self.since is None or timedelta() <= now - self.since < self.span
        return timely and (self.whole or self.state(before) is not None)

    def left(self, now: datetime) -> float | None:
        """Seconds until it ends by itself; ``None`` = no time ends it."""
        return None if self.span is None or self.since is None else (self.since + self.span - now).total_seconds()


def soonest(delays: Iterable[float | None]) -> float | None:
    """The shortest of some delays, of which ``None`` stands for "no need"."""
    return min((delay for delay in delays if delay is not None), default=None)
