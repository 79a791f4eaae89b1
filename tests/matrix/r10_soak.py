"""Everything at once, for a while; then every object is decided about anew, and no plan wants anything."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from matrix.bus_frames import Jumbling, Late, Lossy
from matrix.case import Case, Outcome, Scenario
from matrix.plans import judge
from matrix.site import CATALOGUE_IMAGE, NAMESPACE, OWN, Site, service

from aim_local.apiserver.faults import FaultRule, Latency, Phase, Refusal, Reset
from aim_local.stack import SERVICES

_Act: TypeAlias = Callable[[Site, random.Random], Awaitable[str]]
_SERVICES: Final = 12
"""AIMServices that come and go."""
_IMAGES: Final = (
    CATALOGUE_IMAGE,
    "amdenterpriseai/aim-mistralai-mistral-small-3-2-24b-instruct-2506:0.9.0",
    "amdenterpriseai/aim-meta-llama-llama-3-1-8b-instruct:0.8.5",
)
_MIB: Final = 1 << 20
_MOST_GROWTH: Final = 32.0
"""MiB; what caches and the allocator take at the beginning is below."""
_MOST_DESCRIPTORS: Final = 12
_FAULT_EVERY: Final = 4
"""Of so many acts one is a fault."""


async def _put(site: Site, chance: random.Random) -> str:
    name = f"soak-{chance.randrange(_SERVICES)}"
    path = site.service_path(name)
    if (await site.api.get(path)).status == 200:
        spec = {"replicas": chance.randint(1, 3), "env": [{"name": "N", "value": str(chance.randrange(9))}]}
        await site.api.merge(path, {"spec": spec})
        return "change"
    image = chance.choice(_IMAGES)
    await site.api.post(f"{OWN}/namespaces/{NAMESPACE}/aimservices", service(name, NAMESPACE, model={"image": image}))
    return "create"


async def _remove(site: Site, chance: random.Random) -> str:
    await site.api.delete(site.service_path(f"soak-{chance.randrange(_SERVICES)}"))
    return "delete"


async def _break(site: Site, chance: random.Random) -> str:
    """What the platform made is taken away, or changed by somebody else."""
    kinds = ("InferenceService", "HTTPRoute", "AIMTemplateCache")
    children = [obj for obj in site.mirror.within(NAMESPACE) if obj["kind"] in kinds]
    if not children:
        return "nothing to break"
    obj = chance.choice(sorted(children, key=lambda one: str(one["metadata"]["name"])))
    plural = f"{obj['kind'].lower()}s"
    path = f"/apis/{obj['apiVersion']}/namespaces/{NAMESPACE}/{plural}/{obj['metadata']['name']}"
    await site.api.delete(path)
    return "delete of a child"


async def _kill(site: Site, chance: random.Random) -> str:
    victim = site.stack[chance.choice((*SERVICES, "nats"))]
    await victim.kill()
    await victim.start()
    return "kill -9"


async def _pause(site: Site, chance: random.Random) -> str:
    with site.suspended(chance.choice((*SERVICES, "nats"))):
        await asyncio.sleep(chance.uniform(0.2, 2.0))
    return "pause"


async def _api_fault(site: Site, chance: random.Random) -> str:
    fault = chance.choice(
        (Refusal(code=409), Refusal(code=429, retry_after_seconds=1), Refusal(code=500, phase=Phase.AFTER), Reset(),
         Reset(phase=Phase.AFTER), Latency(seconds=0.3))
    )  # fmt: skip
    verbs = frozenset({"write"}) if isinstance(fault, Refusal) and fault.code == 409 else frozenset()
    site.proxy.add(FaultRule(verbs=verbs, probability=0.3, times=20, fault=fault))
    return "API fault"


async def _bus_fault(site: Site, chance: random.Random) -> str:
    bus = site.buses[chance.choice(SERVICES)]
    makers = (lambda: Lossy(chance, 0.1), lambda: Jumbling(chance, share=0.1), lambda: Late(chance.randint(1, 50)))
    bus.meddle(chance.choice(makers))
    return "bus fault"


async def _relief(site: Site, _: random.Random) -> str:
    site.heal()
    return "relief"


_ACTS: Final[Sequence[_Act]] = (_put, _put, _put, _remove, _break)
_FAULTS: Final[Sequence[_Act]] = (_kill, _pause, _api_fault, _bus_fault, _relief)


async def _soak(site: Site, chance: random.Random) -> Outcome:
    outcome = Outcome()
    await site.tell()
    outcome.differences = await site.converged()
    before = _usage(site)
    pids = _pids(site)
    deadline = time.monotonic() + site.soak_seconds
    while time.monotonic() < deadline:
        some = _FAULTS if chance.randrange(_FAULT_EVERY) == 0 else _ACTS
        outcome.injected[await chance.choice(some)(site, chance)] += 1
        await asyncio.sleep(chance.uniform(0, 0.4))
    site.heal()
    outcome.differences += await _cleared(site)
    outcome.differences += await site.converged(ignoring="soak")
    judged = await judge(site)
    outcome.compared = len(site.expected) + judged.plans
    outcome.differences += judged.wanted
    await _grown(site, before, pids, outcome)
    return outcome


async def _cleared(site: Site) -> list[str]:
    """Delete the services that came and went; what stays."""
    for number in range(_SERVICES):
        await site.api.delete(site.service_path(f"soak-{number}"))

    def left() -> list[str]:
        return [str(obj["metadata"]["name"]) for obj in site.story() if _is_left(obj["metadata"]["name"])]

    await site.mirror.until(lambda: not left(), 60 * site.patience)
    return [f"left behind: {name}" for name in left()]


def _is_left(name: str) -> bool:
    return name.startswith("soak-")


def _usage(site: Site) -> dict[str, tuple[float, int]]:
    """MiB and open files of each service."""
    return {
        name: (
            (site.stack[name].resident_bytes or 0) / _MIB,
            len(list(Path(f"/proc/{site.stack[name].pid}/fd").iterdir())),
        )
        for name in SERVICES
    }


def _pids(site: Site) -> dict[str, int]:
    return {name: site.stack[name].pid for name in SERVICES}


async def _grown(site: Site, before: dict[str, tuple[float, int]], pids: dict[str, int], outcome: Outcome) -> None:
    """What the services hold more than at the beginning; a process that was killed began anew."""
    after = _usage(site)
    growth = max(
        (after[name][0] - before[name][0] for name in SERVICES if pids[name] == site.stack[name].pid), default=0.0
    )
    files = max(after[name][1] - before[name][1] for name in SERVICES)
    outcome.notes |= {"MiB more": growth, "open files more": files}
    if growth > _MOST_GROWTH:
        outcome.differences.append(f"a service grew by {growth:.1f} MiB")
    if files > _MOST_DESCRIPTORS:
        outcome.differences.append(f"a service has {files} more open files")


def _cases() -> Sequence[Case]:
    return [Case("R10", f"soak-{number}", _soak) for number in range(1, 4)]


SCENARIO: Final = Scenario("R10", "soak with all faults", "final objects, plans of all objects", _cases)
