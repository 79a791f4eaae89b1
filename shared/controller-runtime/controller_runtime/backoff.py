"""Growing, jittered delays between attempts."""

import random
from dataclasses import dataclass
from typing import final


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
