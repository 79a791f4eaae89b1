"""What a Lease says and what to write into one: rules shared by leader election and lock, without I/O."""

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, final

from controller_runtime.core.lease import LeaseSpec


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
        life: drawn anew by each process.
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
    """Whether nobody but ``identity`` holds it."""
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
