"""Services see a cache that is up to fifty versions old, and must not undo what they have done since."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from matrix.bus_frames import Late, Meddler
from matrix.case import Case, Outcome, Scenario
from matrix.mirror import Seen
from matrix.oracle import ObjectKey
from matrix.site import RELISTED, Site

_PASSING: Final = frozenset({"Pod", "Job"})
"""Kinds whose end is part of the story."""
_EACH: Final = 6


def regressions(seen: Iterable[Seen]) -> list[str]:
    """Children that were deleted, and statuses that fell back behind what they had observed. Pure."""
    found: list[str] = []
    observed: dict[tuple[ObjectKey, str], int] = {}
    for key, obj, deleted in seen:
        if deleted and key.kind not in _PASSING:
            found.append(f"deleted while wanted: {key}")
        which = (key, str(obj["metadata"]["uid"]))
        generation = int((obj.get("status") or {}).get("observedGeneration") or 0)
        if generation < observed.get(which, 0):
            found.append(f"{key} observed generation {observed[which]}, then {generation}")
        observed[which] = max(generation, observed.get(which, 0))
    return found


async def _late(number: int, site: Site, chance: random.Random) -> Outcome:
    del number
    for bus in site.buses.values():
        behind = chance.randint(1, 50)

        def late(behind: int = behind) -> Meddler:
            return Late(behind)

        bus.meddle(late)
    site.mirror.forget()
    await site.tell()
    path = site.service_path("own")
    for replicas in (3, 1, 2):
        await site.api.merge(path, {"spec": {"replicas": replicas}})
        await site.mirror.until(lambda wanted=replicas: site.asked_for("own", wanted), 15 * site.patience)  # type: ignore[misc]
    differences = await site.converged(RELISTED)
    late_ones = site.heal()
    differences += regressions(site.mirror.seen)
    return Outcome(Counter({"event late": late_ones}), len(site.expected) + len(site.mirror.seen), differences)


def _cases() -> Sequence[Case]:
    return [Case("R3", f"late-{number}", partial(_late, number)) for number in range(1, _EACH + 1)]


SCENARIO: Final = Scenario("R3", "stale reads", "final objects, every version on the way", _cases)
