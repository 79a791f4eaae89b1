"""Leader election over a Lease (FW-281), and the record that a lock shares with it."""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol, final

import structlog

from controller_runtime.annotation_keys import ASKED_BY, SHARDS
from controller_runtime.api.base import to_json
from controller_runtime.api.meta import ObjectMeta
from controller_runtime.core.objects import Lease, LeaseSpec
from controller_runtime.kinds import LEASE
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ApiError, KubeError
from controller_runtime.names import PREFIX


class Clock(Protocol):
    """Time, as leases need it."""

    def boot(self) -> float:
        """Seconds since boot, those of suspension included (FW-407)."""

    def wall(self) -> datetime:
        """The time of day, for others to read."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


@final
class SystemClock:
    """The machine's clocks."""

    def boot(self) -> float:
        """Boot clock; unlike the monotonic one it does not stand still while the machine is suspended."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking the loop."""
        await asyncio.sleep(seconds)


@final
@dataclass(frozen=True, slots=True)
class Identity:
    """One process: two of them never have the same, whatever their pods are called (FW-428).

    Attributes:
        pod: name of the pod, for people.
        slot: what guarantees that one process lives at a time: the UID of the pod, whose containers the kubelet starts
            one after the other. Empty where nothing does.
        life: drawn by each process.
    """

    pod: str
    slot: str = ""
    life: str = field(default_factory=lambda: secrets.token_hex(4))

    def __str__(self) -> str:
        return f"{self._former}{self.life}"

    @property
    def _former(self) -> str:
        return f"{self.pod}_{self.slot}_" if self.slot else f"{self.pod}_"

    def succeeds(self, holder: str) -> bool:
        """Whether a holder is an earlier process in the same place, and therefore dead.

        A name alone tells nothing: two processes of one name may both live.
        """
        return self.slot != "" and holder != str(self) and holder.startswith(self._former)


def is_free(spec: LeaseSpec, identity: str) -> bool:
    """Whether ``identity`` is its only possible holder."""
    return spec.holder_identity in {None, "", identity}


def claimed(before: LeaseSpec, identity: str, seconds: float, now: datetime) -> LeaseSpec:
    """The spec by which ``identity`` takes or renews a lease."""
    renewed = before.holder_identity == identity and before.acquire_time is not None
    transitions = before.lease_transitions or 0
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=max(1, round(seconds)),
        acquire_time=before.acquire_time if renewed else now,
        renew_time=now,
        lease_transitions=transitions if before.holder_identity in {None, identity} else transitions + 1,
    )


def released(before: LeaseSpec) -> LeaseSpec:
    """The spec of a lease that anybody may take at once: no holder, no renew time."""
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=before.lease_duration_seconds,
        lease_transitions=before.lease_transitions or 0,
    )


_OWN_ANNOTATIONS: Final = frozenset({SHARDS, ASKED_BY})
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


@final
class LeaseStore:
    """One Lease by name. Its calls overtake the client's others."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        self._client = client.for_leases()
        self._namespace = namespace
        self._name = name

    def __str__(self) -> str:
        return f"Lease {self._namespace}/{self._name}"

    async def read(self) -> Lease | None:
        """The Lease; None when there is none."""
        try:
            return LEASE.decode(await self._client.get(LEASE, self._name, self._namespace))
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def write(
        self, before: Lease | None, spec: LeaseSpec, annotations: Mapping[str, str] = _NO_ANNOTATIONS
    ) -> Lease | None:
        """Create or replace it, provided no other process did since ``before``; None when one did.

        Args:
            annotations: of ours; those of others stay.
        """
        manager = f"{PREFIX}-{self._name.removeprefix(f'{PREFIX}-')}"
        metadata = before.metadata if before else ObjectMeta(name=self._name, namespace=self._namespace)
        foreign = {key: value for key, value in metadata.annotations.items() if key not in _OWN_ANNOTATIONS}
        metadata = metadata.model_copy(update={"annotations": {**foreign, **annotations}})
        body = to_json(Lease(metadata=metadata, spec=spec))
        try:
            if before is None:
                return LEASE.decode(await self._client.create(LEASE, body, manager))
            return LEASE.decode(await self._client.replace(LEASE, body, manager))
        except ApiError as error:
            # 404: the Lease was deleted after it was read, which is as good a reason to read it again.
            if error.code == 409 or error.is_not_found:
                return None
            raise


def asked_by(lease: Lease | None) -> str:
    """Identity of the process that asks the holder for the Lease (FW-892); else empty."""
    return "" if lease is None else lease.metadata.annotations.get(ASKED_BY, "")


RELEASE_TIMEOUT: Final = 3.0
"""Seconds a stopping leader spends on giving its Lease back."""

_DRIFT: Final = 1.0
"""Seconds by which two clocks may differ over the duration of a lease."""

_log = structlog.get_logger(__name__)


@final
@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Durations in seconds (FW-281).

    Attributes:
        duration: how long others respect a holder that is silent.
        renew_deadline: how long after its last renewal a holder believes to lead; less than ``duration``.
        retry_period: between two attempts to take or renew.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    @property
    def reserved(self) -> float:
        """Seconds for which a free Lease is left to the process that asked its former holder for it (FW-892)."""
        return 3 * self.retry_period

    @property
    def safe(self) -> float:
        """Seconds after a renewal was sent in which no other process can have taken over."""
        return self.duration - min(_DRIFT, (self.duration - self.renew_deadline) / 2)

    def __post_init__(self) -> None:
        if not self.retry_period < self.renew_deadline < self.duration:
            raise ValueError(f"a lease needs retry period < renew deadline < duration, got {self}")


@final
@dataclass(frozen=True, slots=True)
class LeaderStatistics:
    """A moment of an elector: whether it leads, who holds the Lease, age of the last renewal, failed attempts."""

    leads: bool
    holder: str
    renewed_seconds_ago: float | None
    failures: int


@final
@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """Identities around a Lease, each of them empty where there is none: this process, its holder, who asks for it."""

    own: str
    holder: str
    asked_by: str


@final
class LeaderElector:
    """Takes part in one election while `run` runs.

    The client is used past its queue and without its write guard.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: Identity,
        *,
        settings: LeaseSettings | None = None,
        clock: Clock | None = None,
        on_change: Callable[[bool], None] | None = None,
        annotations: Mapping[str, str] = _NO_ANNOTATIONS,
    ) -> None:
        """``on_change`` is called from `run`, with True when leadership was gained and False when lost.

        Args:
            annotations: what the holder notes on the Lease.
        """
        self._store = LeaseStore(client, namespace, name)
        self._identity = str(identity)
        self._annotations = dict(annotations)
        self._asked_by = ""
        self._asked = asyncio.Event()
        self._rests_until = 0.0
        self._succeeds = identity.succeeds
        self._first_look = True
        self._settings = settings or LeaseSettings()
        self._clock = clock or SystemClock()
        self._on_change = on_change
        self._lease: Lease | None = None
        self._seen_spec: LeaseSpec | None = None
        self._seen_at = 0.0
        self._renewed_at: float | None = None
        self._announced = False
        self._gained, self._lost = asyncio.Event(), asyncio.Event()
        self._lost.set()
        self._attempting = asyncio.Lock()
        self._failures = 0

    @property
    def is_leader(self) -> bool:
        """Whether a renewal, sent within the renew deadline by the boot clock, made the Lease ours (FW-407).

        Turns False by itself.
        """
        renewed = self._renewed_at
        return renewed is not None and self._clock.boot() - renewed < self._settings.renew_deadline

    def guard(self) -> float:
        """The `WriteGuard` of a leader: ``client.guarded(elector.guard)`` (FW-407, FW-429)."""
        if not self.is_leader or self._renewed_at is None:
            return 0.0
        return self._renewed_at + self._settings.safe - self._clock.boot()

    async def gained(self) -> None:
        """Wait until this process leads."""
        await self._gained.wait()

    async def wait_lost(self) -> None:
        """Wait until this process does not lead; at once when it does not."""
        await self._lost.wait()

    async def wait_asked(self) -> None:
        """Wait until another process asks for the Lease that this one holds (FW-892)."""
        await self._asked.wait()

    @property
    def claim(self) -> LeaseClaim:
        """Who holds the Lease and who asks for it, as last seen."""
        holder = (self._seen_spec.holder_identity or "") if self._seen_spec else ""
        return LeaseClaim(self._identity, holder, self._asked_by)

    async def ask(self) -> None:
        """Ask the holder for the Lease; it may decline by silence."""
        async with self._attempting:
            current = await self._store.read()
            held_by = (current.spec.holder_identity or "") if current else ""
            if current is None or held_by in {"", self._identity} or asked_by(current):
                return
            if current.metadata.annotations.get(SHARDS) != self._annotations.get(SHARDS):
                # What it leads is no shard of ours, and we could not lead beside it (FW-891).
                return
            if await self._store.write(current, current.spec, {**self._annotations, ASKED_BY: self._identity}):
                self._asked_by = self._identity
                _log.info("asking the holder for the lease", lease=str(self._store), holder=held_by)

    async def give_up(self, rest: float = 0.0) -> None:
        """Release the Lease, to the process that asked for it if one did; what needs the Lease has ended before.

        Args:
            rest: seconds in which this process does not take it again.
        """
        async with self._attempting:
            self._rests_until = self._clock.boot() + rest
            await self._release()

    async def confirm(self) -> bool:
        """Ask the API server whether the Lease is still ours (FW-407, after a refused checkpoint).

        False also when it does not answer: then the holder is unknown.
        """
        self._lease = None
        return await self._attempt() and self.is_leader

    def statistics(self) -> LeaderStatistics:
        """Current numbers."""
        ago = None if self._renewed_at is None else self._clock.boot() - self._renewed_at
        holder = (self._seen_spec.holder_identity or "") if self._seen_spec else ""
        return LeaderStatistics(self.is_leader, holder, ago, self._failures)

    async def run(self) -> None:
        """Take part until cancelled; then release the Lease, so that a successor need not wait."""
        try:
            while True:
                await self._attempt()
                await self._clock.sleep(self._pause())
                self._announce()
        finally:
            await self._release()

    def _pause(self) -> float:
        # A leader that cannot renew wakes up at its deadline, to say so on time.
        left = self._time_left()
        return self._settings.retry_period if left is None else min(self._settings.retry_period, left)

    def _time_left(self) -> float | None:
        if not self.is_leader or self._renewed_at is None:
            return None
        return max(0.0, self._renewed_at + self._settings.renew_deadline - self._clock.boot())

    async def _attempt(self) -> bool:
        """Take or renew within the time there is; whether the server answered."""
        async with self._attempting:
            left = self._time_left()
            try:
                async with asyncio.timeout(self._settings.renew_deadline if left is None else left):
                    await self._take_or_renew()
                answered, self._failures = True, 0
            except (KubeError, TimeoutError, ValueError) as error:
                answered, self._lease = False, None
                self._failures += 1
                _log.warning("lease request failed; retrying", lease=str(self._store), error=str(error))
        self._announce()
        return answered

    async def _take_or_renew(self) -> None:
        """One attempt, from the Lease as last written if we hold it, and once more from a fresh read."""
        if self._lease is not None and self.is_leader and await self._claim(self._lease):
            return
        current = await self._store.read()
        self._observe(current.spec if current else LeaseSpec())
        self._note_asked(asked_by(current))
        # Only the first look may find a former life's Lease. A holder that appears later in our place is alive.
        inherits, self._first_look = self._first_look and self._is_former(current), False
        if (current is not None and not inherits and not self._may_take(current.spec)) or self._rests():
            self._lease = self._renewed_at = None
            return
        if not await self._claim(current):
            self._lease = None

    def _is_former(self, lease: Lease | None) -> bool:
        return lease is not None and self._succeeds(lease.spec.holder_identity or "")

    def _observe(self, spec: LeaseSpec) -> None:
        if spec != self._seen_spec:
            self._seen_spec, self._seen_at = spec, self._clock.boot()

    def _rests(self) -> bool:
        return self._clock.boot() < self._rests_until

    def _note_asked(self, by: str) -> None:
        self._asked_by = by
        if by not in {"", self._identity} and self.is_leader:
            self._asked.set()
        else:
            self._asked.clear()

    def _may_take(self, spec: LeaseSpec) -> bool:
        if is_free(spec, self._identity):
            reserved = spec.holder_identity != self._identity and self._asked_by not in {"", self._identity}
            return not reserved or self._clock.boot() - self._seen_at > self._settings.reserved
        # The holder's own duration counts: it may run an older release with other settings.
        duration = max(spec.lease_duration_seconds or 0, self._settings.duration)
        return self._clock.boot() - self._seen_at > duration

    async def _claim(self, before: Lease | None) -> bool:
        sent_at = self._clock.boot()
        spec = claimed(
            before.spec if before else LeaseSpec(), self._identity, self._settings.duration, self._clock.wall()
        )
        # Another process's question stays until it is answered.
        asked = {ASKED_BY: self._asked_by} if self._asked.is_set() else {}
        written = await self._store.write(before, spec, {**self._annotations, **asked})
        if written is None:
            return False
        self._lease, self._renewed_at = written, sent_at
        self._asked_by = asked_by(written)
        self._observe(written.spec)
        return True

    def _announce(self) -> None:
        leads = self.is_leader
        if leads == self._announced:
            return
        self._announced = leads
        (self._lost if leads else self._gained).clear()
        (self._gained if leads else self._lost).set()
        _log.info("leadership gained" if leads else "leadership lost", lease=str(self._store))
        if self._on_change is not None:
            self._on_change(leads)

    async def _release(self) -> None:
        held, self._lease, self._renewed_at = self._lease, None, None
        asked = {ASKED_BY: self._asked_by} if self._asked.is_set() else {}
        self._asked.clear()
        # First stop believing, then let others in.
        self._announce()
        if held is None:
            return
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT):
                if free := await self._store.write(held, released(held.spec), {**self._annotations, **asked}):
                    self._observe(free.spec)
        except (KubeError, TimeoutError) as error:
            _log.warning(
                "lease not released; the next leader waits until it expires", lease=str(self._store), error=str(error)
            )
