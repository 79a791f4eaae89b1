"""What a Lease says and what to write into one: rules shared by leader election and lock, without I/O."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol, final

from aim_shared.api.external.lease import LeaseSpec


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


def is_free(spec: LeaseSpec, identity: str) -> bool:
    """Whether nobody but ``identity`` holds it, going by the name alone.

    A holder of the same name is an earlier life of this one, so a restarted container leads again at once.
    """
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
