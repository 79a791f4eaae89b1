"""Everything at once, for a while; then every object is decided about anew, and no plan wants anything."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from matrix.bus_frames import Jumbling, Late, Lossy
from matrix.case import Case, Outcome, Scenario
from matrix.oracle import ObjectKey, key_of, plain_name
from matrix.plans import judge
from matrix.site import CATALOGUE_IMAGE, NAMESPACE, OWN, Site, service

from aim_domain import CacheMode, labels
from aim_domain.services import SERVICES
from aim_local.supervision.process import Supervised
from controller_runtime import JsonObject
from embedded_apiserver.faults import FaultRule, Latency, Phase, Refusal, Reset

_Act: TypeAlias = Callable[[Site, random.Random], Awaitable[str]]
_SERVICES: Final = 12
"""AIMServices that come and go."""
_IMAGES: Final = (
    CATALOGUE_IMAGE,
    "amdenterpriseai/aim-mistralai-mistral-small-3-2-24b-instruct-2506:0.9.0",
    "amdenterpriseai/aim-meta-llama-llama-3-1-8b-instruct:0.8.5",
)
_MIB: Final = 1 << 20
MOST_GROWTH: Final = 8.0
"""MiB; what caches and the allocator of a process take that has warmed up is below."""
_KILLING: Final = 0.3
"""Share of a soak in which processes are killed."""
_WARMING: Final = 0.3
"""Share after it in which those that were killed come to the size that they keep."""
MOST_DESCRIPTORS: Final = 12
"""What a pool of connections keeps open for a while is below."""
_FAULT_EVERY: Final = 4
"""Of so many acts one is a fault."""


async def _put(site: Site, chance: random.Random) -> str:
    name = f"soak-{chance.randrange(_SERVICES)}"
    path = site.service_path(name)
    if (await site.api.get(path)).status == 200:
        spec = {"replicas": chance.randint(1, 3), "env": [{"name": "N", "value": str(chance.randrange(9))}]}
        await site.api.merge(path, {"spec": spec})
        return "change"
    spec = {"model": {"image": chance.choice(_IMAGES)}, "caching": {"mode": chance.choice(("Shared", "Dedicated"))}}
    await site.api.post(f"{OWN}/namespaces/{NAMESPACE}/aimservices", service(name, NAMESPACE, **spec))
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
    victim = site.stack[chance.choice(SERVICES)]
    await victim.kill()
    await victim.start()
    return "kill -9 of a service"


async def _kill_broker(site: Site, _: random.Random) -> str:
    await site.stack["nats"].kill()
    await site.stack["nats"].start()
    return "kill -9 of the broker"


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
_LASTING: Final[Sequence[_Act]] = (_kill_broker, _pause, _api_fault, _bus_fault, _relief)
"""Faults that a service lives through."""


async def _soak(site: Site, chance: random.Random) -> Outcome:
    """First with all faults, then with those that no process dies of: at first to warm up, then for the comparison.

    A process that was killed last is seconds old. Its first minute of churn adds about 10 MiB of arenas, pools and
    caches, whatever it does later: compared with that, every process grows too much.
    """
    outcome = Outcome()
    await site.tell()
    outcome.differences = await site.converged()
    await _mix(site, chance, outcome, (*_LASTING, _kill), _KILLING)
    outcome.differences += await _over(site, outcome)
    young = usage(site)
    await _mix(site, chance, outcome, _LASTING, _WARMING)
    outcome.differences += await _over(site, outcome)
    before = usage(site)
    outcome.notes["MiB more while warming up"] = max(before[name].mib - one.mib for name, one in young.items())
    await _mix(site, chance, outcome, _LASTING, 1 - _KILLING - _WARMING)
    outcome.differences += await _over(site, outcome)
    judged = await judge(site)
    outcome.compared = len(site.expected) + judged.plans
    outcome.differences += judged.wanted
    after = usage(site)
    outcome.notes["MiB more"] = max(after[name].mib - one.mib for name, one in before.items())
    outcome.notes["open files more"] = max(after[name].files - one.files for name, one in before.items())
    outcome.differences += grown(before, after)
    return outcome


async def _mix(site: Site, chance: random.Random, outcome: Outcome, faults: Sequence[_Act], share: float) -> None:
    """Acts at random, for a share of the time of a soak."""
    deadline = time.monotonic() + site.soak_seconds * share
    while time.monotonic() < deadline:
        some = faults if chance.randrange(_FAULT_EVERY) == 0 else _ACTS
        outcome.injected[await chance.choice(some)(site, chance)] += 1
        await asyncio.sleep(chance.uniform(0, 0.4))


async def _over(site: Site, outcome: Outcome) -> list[str]:
    """All faults end, and the story alone is left; in what it is not as it was."""
    site.heal()
    for number in range(_SERVICES):
        await site.api.delete(site.service_path(f"soak-{number}"))

    def left() -> list[str]:
        return [str(key_of(obj)) for obj in site.story() if obj["metadata"]["name"].startswith("soak-")]

    await site.mirror.until(lambda: not left(), 60 * site.patience)
    discarded = shared_beyond(site.story(), site.expected)
    outcome.notes["shared objects discarded"] = len(discarded)
    for key in discarded:
        await site.api.delete(f"{OWN}/namespaces/{NAMESPACE}/{key.kind.lower()}s/{key.name}")
    differences = await site.converged()
    # What is made for an owner that is gone in the same moment goes with the next look of the garbage collector.
    await site.mirror.until(lambda: not left(), 60 * site.patience)
    return [f"left behind: {key}" for key in left()] + differences


def shared_beyond(story: Iterable[JsonObject], expected: Container[ObjectKey]) -> list[ObjectKey]:
    """The shared caches and artifacts that are not of the story, or that one of those who are gone made. Pure.

    They outlive who made them. What is Dedicated goes with its service: where it stays, it is a difference.
    """

    def is_strange(obj: JsonObject) -> bool:
        maker = str((obj["metadata"].get("labels") or {}).get(labels.SERVICE_NAME))
        return maker.startswith("soak-") or key_of(obj)._replace(name=plain_name(obj)) not in expected

    return [key_of(obj) for obj in story if _is_shared(obj) and is_strange(obj)]


def _is_shared(obj: JsonObject) -> bool:
    if obj["kind"] == "AIMTemplateCache":
        return bool(obj["spec"].get("mode") == CacheMode.SHARED.value)
    return obj["kind"] == "AIMArtifact" and not obj["metadata"].get("ownerReferences")


class Usage(NamedTuple):
    """What a process of a service holds."""

    pid: int
    mib: float
    files: int


def usage(site: Site) -> dict[str, Usage]:
    """Of every service."""
    return {name: _usage(site.stack[name]) for name in SERVICES}


def _usage(process: Supervised) -> Usage:
    files = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
    return Usage(process.pid, (process.resident_bytes or 0) / _MIB, files)


def grown(before: Mapping[str, Usage], after: Mapping[str, Usage]) -> list[str]:
    """The services that hold more than they may, or whose process is another one, in words. Pure."""
    found = []
    for name, one in before.items():
        if after[name].pid != one.pid:
            found.append(f"{name} died: process {one.pid} is now {after[name].pid}")
            continue
        mib, files = after[name].mib - one.mib, after[name].files - one.files
        if mib > MOST_GROWTH:
            found.append(f"{name} grew by {mib:.1f} MiB, to {after[name].mib:.0f}")
        if files > MOST_DESCRIPTORS:
            found.append(f"{name} has {files} more open files")
    return found


def _cases() -> Sequence[Case]:
    return [Case("R10", f"soak-{number}", _soak) for number in range(1, 4)]


SCENARIO: Final = Scenario("R10", "soak with all faults", "final objects, plans of all objects", _cases)
