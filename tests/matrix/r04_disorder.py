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

from aim_domain.services import SERVICES

_EACH: Final = 6
_MORE: Final = 1.10
"""So many times the writes of a run without faults are allowed."""
_TRIES: Final = 3


async def _jumble(number: int, site: Site, chance: random.Random) -> Outcome:
    del number

    def jumbling() -> Meddler:
        return Jumbling(chance, chance.uniform(0.02, 0.3), span=chance.randint(2, 12))

    for bus in site.buses.values():
        bus.meddle(jumbling)
    # Meddlers begin by breaking connections, which is another row's subject.
    await site.settled()
    differences, most = await _reported(site), _MORE * site.most_writes
    writes = [_writes(site)]
    # On a busy machine more states last long enough to be told, now and then; what is written again and again is so
    # each time.
    while not differences and writes[-1] > most and len(writes) < _TRIES:
        await site.erase()
        differences = await _reported(site)
        writes.append(_writes(site))
    if min(writes) > most:
        differences.append(f"{' and '.join(map(str, writes))} writes instead of {site.most_writes}")
    return Outcome(
        Counter({"event doubled or moved": site.heal()}),
        len(site.expected),
        differences,
        {"writes": min(writes) / site.most_writes},
    )


async def _reported(site: Site) -> list[str]:
    site.proxy.written.clear()
    await site.tell()
    return await site.converged(RELISTED)


def _writes(site: Site) -> int:
    return sum(len(requests_of(site.proxy.written, name)) for name in SERVICES)


def _cases() -> Sequence[Case]:
    return [Case("R4", f"jumbled-{number}", partial(_jumble, number)) for number in range(1, _EACH + 1)]


SCENARIO: Final = Scenario("R4", "doubled and reordered", "final objects, number of writes", _cases)
