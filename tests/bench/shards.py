"""What each process of serving and routing spends when several share the namespaces: ``python -m bench.shards``."""

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.site import IMAGE, IN_FLIGHT, Site, service_body, site
from bench.surroundings import Surroundings
from bench.usage import processor_seconds, resident_of
from support.replicas import DIVIDED, Replicas

from aim_domain import kinds
from aim_domain.services import SERVICES
from controller_runtime import Key
from controller_runtime.shard import shard_of

SHARDS: Final = 4
SERVICES_EACH: Final = 25
_TEAMS: Final = [f"team-{number}" for number in range(16)]
_PATIENCE: Final = 180.0


@dataclass(frozen=True, slots=True)
class Spent:
    """What a burst took.

    Attributes:
        seconds: until all AIMServices ran.
        cpu: processor milliseconds of each process for each AIMService of the burst, by service.
        memory: MiB of each process afterwards.
    """

    seconds: float
    cpu: dict[str, list[float]]
    memory: dict[str, list[float]]


async def measure(processes: int) -> Spent:
    """A burst of 400 AIMServices in 16 namespaces, with so many processes of each service."""
    settings = {name: {"AIM_SHARDS": str(SHARDS), "AIM_LEADER_ELECT": "true"} for name in DIVIDED}
    with tempfile.TemporaryDirectory() as folder:
        async with site(Path(folder), SERVICES, Surroundings.FAKES, service_env=settings) as place:
            replicas = Replicas(place.stack, {name: [place.stack[name]] for name in DIVIDED})
            try:
                for number in range(1, processes):
                    await replicas.add(number)
                await replicas.shared_as(*[SHARDS // processes] * processes)
                return await _burst(place, replicas)
            finally:
                await replicas.close()


async def _burst(place: Site, replicas: Replicas) -> Spent:
    for team in _TEAMS:
        await place.namespace(team)
    first = [Key(team, "first") for team in _TEAMS]
    await place.create(kinds.AIM_SERVICE, map(service_body, first))
    await place.services.until_seen(first, _PATIENCE)
    await place.settled()
    pids = {name: [one.pid or 0 for one in each] for name, each in replicas.each.items()}
    before = {name: [processor_seconds(pid) for pid in each] for name, each in pids.items()}
    keys = [Key(team, f"n{number}") for team in _TEAMS for number in range(SERVICES_EACH)]
    begun = time.monotonic()
    await place.create(kinds.AIM_SERVICE, map(service_body, keys))
    seen = await place.services.until_seen(keys, _PATIENCE)
    await place.settled()
    cpu = {
        name: [1000 * (processor_seconds(pid) - used) / len(keys) for pid, used in zip(each, before[name], strict=True)]
        for name, each in pids.items()
    }
    memory = {name: [resident_of(pid) for pid in each] for name, each in pids.items()}
    return Spent(max(seen.values()) - begun, cpu, memory)


def _row(values: Sequence[float]) -> str:
    return ", ".join(f"{one:.1f}" for one in sorted(values, reverse=True))


async def _main() -> None:
    print(f"{len(_TEAMS) * SERVICES_EACH} services of {IMAGE} in {len(_TEAMS)} namespaces, {SHARDS} shards,")
    print(f"{[sum(shard_of(team, SHARDS) == index for team in _TEAMS) for index in range(SHARDS)]} namespaces each;")
    print(f"real API server, fakes of 20 ms, {IN_FLIGHT} requests in flight, {os.cpu_count()} cores")
    for processes in (1, 2, 4):
        spent = await measure(processes)
        print(f"{processes} processes: {spent.seconds:.1f} s until all run")
        for name in DIVIDED:
            print(f"  {name}: {_row(spent.cpu[name])} ms per service, {_row(spent.memory[name])} MiB")


if __name__ == "__main__":
    asyncio.run(_main())
