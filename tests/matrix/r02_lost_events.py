"""Events of the bus are lost on their way to the services, some of them or all."""

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from matrix.bus_frames import Lossy, Meddler
from matrix.case import Case, Outcome, Scenario
from matrix.site import Site

_PATIENCE: Final = 120.0
"""Seconds to converge: what the bus does not tell is read from the API server once its parts are stale."""


async def _lose(probability: float, site: Site, chance: random.Random) -> Outcome:
    def lossy() -> Meddler:
        return Lossy(chance, probability)

    for bus in site.buses.values():
        bus.meddle(lossy)
    await site.tell()
    differences = await site.converged(_PATIENCE)
    lost = site.heal()
    return Outcome(Counter({"event lost": lost}), len(site.expected), differences)


def _cases() -> Sequence[Case]:
    return [Case("R2", f"lost-{round(100 * p)}-percent", partial(_lose, p)) for p in (0.1, 0.5, 1.0)]


SCENARIO: Final = Scenario("R2", "lost events", "final objects, orphans", _cases)
