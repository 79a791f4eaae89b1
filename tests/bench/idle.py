"""What the platform does when nothing changes."""

import asyncio
from typing import Final

from bench.figures import Figure
from bench.ledger import Cost, Ledger
from bench.site import Site
from bench.usage import read_cpu

from aim_domain.services import SERVICES

SECONDS: Final = 30.0
_CPU_GOAL: Final = 1.0
"""P4: percent of a core per service."""


async def measure_idle(site: Site) -> list[Figure]:
    """Watch it for half a minute."""
    subject = "idle"
    await site.settled()
    await site.stack.cluster.reset_requests()
    before = read_cpu(site.stack)
    await asyncio.sleep(SECONDS)
    shares = read_cpu(site.stack).shares_since(before)
    ledger = Ledger.of(await site.stack.cluster.requests())
    per_minute = 60 / SECONDS
    writes = ledger.total(Cost.WRITE) + ledger.total(Cost.EVENT)
    return [
        Figure(
            subject,
            "writes per minute, Leases apart",
            writes * per_minute,
            goal=0,
            gate=True,
            detail=ledger.detail(Cost.WRITE, Cost.EVENT),
        ),
        Figure(subject, "reads per minute", ledger.total(Cost.READ) * per_minute),
        *(Figure(subject, f"CPU of {name}", shares[name], "%", _CPU_GOAL) for name in SERVICES),
        Figure(subject, "CPU of nats", shares["nats"], "%"),
    ]
