"""Resident memory of the services."""

from typing import Final

from bench.figures import Figure
from bench.site import Site
from bench.usage import resident_mib

from aim_domain.services import SERVICES

_GOAL: Final = 130.0
"""P4: MiB per service at 1,000 AIMServices."""


def measure_memory(site: Site, when: str) -> list[Figure]:
    """What each service holds now; the goal is meant for 1,000 AIMServices."""
    return [Figure(f"memory, {when}", name, resident_mib(site.stack, name), "MiB", _GOAL) for name in SERVICES]
