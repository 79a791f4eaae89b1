"""Growing, jittered delays between attempts, and the longest that an answer from outside may ask for (FW-427)."""

import random
from dataclasses import dataclass
from typing import Final, final

LONGEST_ANNOUNCED: Final = 3600.0
"""Seconds; a longer announcement counts as this much. Asking once an hour is no burden to anybody."""

LONGEST_IN_PLACE: Final = 10.0
"""Seconds that a request is held up for an announced wait; one that has to wait longer ends with an error."""


def bounded(announced: float) -> float:
    """The seconds for which an announced wait is respected."""
    return min(max(0.0, announced), LONGEST_ANNOUNCED)


@final
@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential delays with jitter.

    Attributes:
        base: seconds before the first repetition.
        factor: growth per repetition.
        cap: longest delay in seconds, before jitter.
        jitter: share by which a delay may fall short of or exceed its nominal length, so that replicas that
            failed together do not return together.
    """

    base: float
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 0.5

    def delay(self, failures: int, randomness: random.Random) -> float:
        """Seconds to wait after that many failures in a row (at least one)."""
        return self.nominal(failures) * randomness.uniform(1 - self.jitter, 1 + self.jitter)

    def nominal(self, failures: int) -> float:
        """The delay without jitter."""
        # The exponent is bounded because a float overflows long before an outage of a week ends.
        return min(self.cap, self.base * self.factor ** min(failures - 1, 64))
