"""Which shards of its service a process leads: elections by Lease, and their balance among the replicas (FW-890)."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import structlog

from controller_runtime.annotation_keys import SHARDS
from controller_runtime.core.objects import Lease
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ApiError, KubeError
from controller_runtime.kube.guard import WriteGuard, unguarded
from controller_runtime.kube.lease import Identity, LeaderElector, LeaseClaim, LeaseSettings, LeaseStore
from controller_runtime.log.freshness import boot_seconds
from controller_runtime.log.publish.state import SupersededError
from controller_runtime.manager.settings import Settings
from controller_runtime.manager.troubles import leaves
from controller_runtime.reconcile.reconciler import ServiceDefinition
from controller_runtime.shard import WHOLE, Shard, noted_count, shards

_log = structlog.get_logger(__name__)

_PAUSE: Final = 2.0

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Does the work of a leader until cancelled."""


class Leadership(Protocol):
    """Whether this process leads a shard."""

    @property
    def shard(self) -> Shard: ...

    @property
    def leads(self) -> bool:
        """Whether it works on the objects of the shard: a Lease alone does not make a leader (FW-891)."""
        ...

    @property
    def guard(self) -> WriteGuard:
        """That of everything which the leader writes (FW-407)."""
        ...

    async def run(self, work: Work) -> None:
        """Work whenever this process leads, until cancelled."""
        ...


class AlwaysLeading:
    """Leadership without elections: for one replica whose platform never runs two at a time."""

    leads = True

    def __init__(self, shard: Shard = WHOLE) -> None:
        self.shard: Final = shard
        self.guard: Final[WriteGuard] = unguarded

    async def run(self, work: Work) -> None:
        while True:
            await _superseded(work)
            await asyncio.sleep(_PAUSE)


class Elected:
    """Leadership by Lease.

    Args:
        undisputed: asked with the Lease in hand: whether no process leads that divides the service otherwise (FW-891).
    """

    def __init__(self, shard: Shard, elector: LeaderElector, undisputed: Callable[[], Awaitable[bool]]) -> None:
        self.shard: Final = shard
        self.elector: Final = elector
        self.guard: Final[WriteGuard] = elector.guard
        self._undisputed = undisputed
        self._works = False

    @property
    def leads(self) -> bool:
        return self._works and self.elector.is_leader

    async def run(self, work: Work) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.elector.run())
            while True:
                await self.elector.gained()
                if not await self._undisputed():
                    # Two that wait for each other must not go on doing so in step.
                    await self.elector.give_up(rest=_PAUSE * random.uniform(1, 3))
                elif await self._until_lost(work):
                    await self.elector.confirm()
                    # Also when the Lease is ours: two that supersede each other must not do so as fast as they can.
                    await asyncio.sleep(_PAUSE)

    async def _until_lost(self, work: Work) -> bool:
        """Work until the Lease is lost, or given to the process that asks for it; whether another one publishes."""
        async with _in_background(self.elector.wait_lost()) as lost, _in_background(self.elector.wait_asked()) as asked:
            self._works = True
            try:
                superseded = await _superseded(work, lost, asked)
            finally:
                self._works = False
            if asked.done():
                await self.elector.give_up()
            return superseded


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """A task that has ended, one way or the other, when the block is left."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def _superseded(work: Work, *until: asyncio.Task[None]) -> bool:
    """Run a term, to its end or until a task ends; whether another process publishes the same parts.

    The term has a task of its own, because a task group that failed while it waited for its last members leaves a
    request for cancellation in its task (up to Python 3.12), and there are more terms to come.
    """
    async with _in_background(work()) as serving:
        await asyncio.wait((serving, *until), return_when=asyncio.FIRST_COMPLETED)
    if serving.cancelled():
        return False
    superseded: list[BaseException] = []
    try:
        serving.result()
    except* SupersededError as group:
        superseded.extend(leaves(group))
    if superseded:
        _log.error("another process publishes the same parts; checking the Lease", why=str(superseded[0]))
    return bool(superseded)


@dataclass(slots=True)
class _Sighting:
    """A Lease of a process that divides the service otherwise, and when it was last seen to change."""

    holder: str
    renewed: object
    at: float


@dataclass(slots=True)
class ShardFence:
    """Whether another process leads with another number of shards (FW-891).

    Such a process may lead objects of any of our shards. Both write their own Lease before they read the other's, so
    that at least one of two that begin at the same time sees the other.

    Attributes:
        leases: all that any number of shards may use, but for those that the caller holds.
        count: the number of shards of this process.
    """

    leases: Sequence[LeaseStore]
    identity: Identity
    count: int
    settings: LeaseSettings = field(default_factory=LeaseSettings)
    _seen: dict[str, _Sighting] = field(default_factory=dict)

    async def clear(self) -> bool:
        """Whether all others divide the service as this process does; False also where that cannot be known."""
        try:
            found = await asyncio.gather(*map(_read, self.leases))
        except (KubeError, ValueError) as error:
            _log.warning("cannot read the leases of the other shards; retrying", error=str(error))
            return False
        others = [
            f"{store} of {holder}"
            for store, lease in zip(self.leases, found, strict=True)
            if (holder := self._disputes(str(store), lease))
        ]
        if others:
            _log.info("waiting for processes with another number of shards", shards=self.count, others=others)
        return not others

    def _disputes(self, name: str, lease: Lease | None) -> str:
        """The holder that divides the service otherwise and may be alive; else empty."""
        holder = "" if lease is None else lease.spec.holder_identity or ""
        if (
            lease is None
            or not holder
            or noted_count(lease.metadata.annotations) == self.count
            or self.identity.succeeds(holder)
        ):
            self._seen.pop(name, None)
            return ""
        now, renewed = boot_seconds(), lease.spec.renew_time
        seen = self._seen.get(name)
        if seen is None or (seen.holder, seen.renewed) != (holder, renewed):
            seen = self._seen[name] = _Sighting(holder, renewed, now)
        duration = max(lease.spec.lease_duration_seconds or 0, self.settings.duration)
        return holder if now - seen.at <= duration else ""


async def _read(store: LeaseStore) -> Lease | None:
    """A Lease; ``None`` also where the roles of an earlier release forbid to read it: they forbid to hold it, too."""
    try:
        return await store.read()
    except ApiError as error:
        if error.code == 403:
            return None
        raise


def choose_shard(claims: Sequence[LeaseClaim]) -> int | None:
    """Index of the shard that a process asks another one for; ``None`` while the shards are in balance (FW-892).

    They are where none leads two more than another. What was asked for counts as given.
    """
    own = claims[0].own
    leading = Counter(one.asked_by or one.holder for one in claims)
    mine = leading.pop(own, 0)
    leading.pop("", None)
    busiest, most = max(leading.items(), key=lambda one: (one[1], one[0]), default=("", 0))
    if most - mine < 2:
        return None
    # The shard that publishes moves last: its parts are not fresh while it does.
    given = (index for index, one in enumerate(claims) if one.holder == busiest and not one.asked_by)
    return max(given, default=None)


class Balance:
    """Asks other replicas for shards while they lead more.

    Args:
        ready: whether this process could lead at once what it asks for.
    """

    def __init__(self, electors: Sequence[LeaderElector], ready: Callable[[], bool]) -> None:
        self._electors = electors
        self._ready = ready

    async def run(self) -> None:
        """Look after each attempt at the Leases, until cancelled."""
        while True:
            await asyncio.sleep(_PAUSE)
            index = choose_shard([one.claim for one in self._electors]) if self._ready() else None
            if index is None:
                continue
            try:
                await self._electors[index].ask()
            except (KubeError, ValueError) as error:
                _log.warning("cannot ask for a shard; retrying", shard=index, error=str(error))


@dataclass(frozen=True, slots=True)
class Leaderships:
    """All shards of a service, each led by this process or not."""

    each: tuple[Leadership, ...]

    @property
    def leads(self) -> bool:
        """Whether this process leads any."""
        return any(one.leads for one in self.each)

    @property
    def led(self) -> list[int]:
        """Indexes of the shards that it leads."""
        return [one.shard.index for one in self.each if one.leads]

    @property
    def electors(self) -> list[LeaderElector]:
        """Of all shards; none without elections."""
        return [one.elector for one in self.each if isinstance(one, Elected)]


def leaderships(definition: ServiceDefinition, settings: Settings, kube: KubeClient) -> Leaderships:
    """The elections that a process takes part in."""
    if not settings.leader_elect:
        return Leaderships(tuple(AlwaysLeading(one) for one in shards(definition.shards)))
    identity = Identity(settings.pod_name, settings.pod_uid)
    elections = _Elections(definition, settings.system_namespace, kube.for_leases(), identity)
    return Leaderships(tuple(elections.of(one) for one in shards(definition.shards)))


@dataclass(frozen=True, slots=True)
class _Elections:
    definition: ServiceDefinition
    namespace: str
    kube: KubeClient
    identity: Identity

    def of(self, shard: Shard) -> Elected:
        name = shard.lease(self.definition.field_manager)
        noted = {SHARDS: str(shard.count)} if shard.count > 1 else {}
        elector = LeaderElector(self.kube, self.namespace, name, self.identity, annotations=noted)
        return Elected(shard, elector, self._fence(name).clear)

    def _fence(self, own: str) -> ShardFence:
        others = [LeaseStore(self.kube, self.namespace, one) for one in self.definition.leases if one != own]
        return ShardFence(others, self.identity, self.definition.shards)
