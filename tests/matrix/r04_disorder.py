"""Events come once to three times, and in another order."""

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from matrix.api_proxy import requests_of
from matrix.bus_frames import Jumbling, Meddler
from matrix.case import Case, Outcome, Scenario
from matrix.site import RELISTED, Site

from aim_local.stack import SERVICES

_EACH: Final = 6
_MORE: Final = 1.10
"""So many times the writes of a run without faults are allowed."""


async def _jumble(number: int, site: Site, chance: random.Random) -> Outcome:
    del number

    def jumbling() -> Meddler:
        return Jumbling(chance, chance.uniform(0.02, 0.3), span=chance.randint(2, 12))

    for bus in site.buses.values():
        bus.meddle(jumbling)
    site.proxy.written.clear()
    await site.tell()
    differences = await site.converged(RELISTED)
    struck = site.heal()
    writes, compared = sum(len(requests_of(site.proxy.written, name)) for name in SERVICES), len(site.expected)
    if not differences and writes > _MORE * site.most_writes:
        # How many states last long enough to be told depends on how busy the machine is now.
        await site.erase()
        differences = await site.tell_without_faults()
    if writes > _MORE * site.most_writes:
        differences.append(f"{writes} writes instead of {site.most_writes}")
    return Outcome(
        Counter({"event doubled or moved": struck}), compared, differences, {"writes": writes / site.most_writes}
    )


def _cases() -> Sequence[Case]:
    return [Case("R4", f"jumbled-{number}", partial(_jumble, number)) for number in range(1, _EACH + 1)]


SCENARIO: Final = Scenario("R4", "doubled and reordered", "final objects, number of writes", _cases)
