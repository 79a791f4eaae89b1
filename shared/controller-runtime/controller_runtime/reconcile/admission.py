"""Keeps quotas where objects are created: count and create are one step, for all controllers of a service.

So it is with running Jobs (DI-311) and with the bytes of volumes (AR-447). Between processes the Lease of the service
stands guard: only its holder creates. What the world of a new holder may not know yet is what the former one created
last, so the first creation of a term reads the objects from the API server.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from controller_runtime.bus.part import Part
from controller_runtime.kube.client import KubeClient
from controller_runtime.reconcile.plan import Quota
from controller_runtime.reconcile.world_access import WorldAccess


class Admission:
    """Lets one creation under a quota through at a time; made anew for each term of leadership."""

    def __init__(self, world: WorldAccess, kube: KubeClient) -> None:
        self._world = world
        self._kube = kube
        self._turn = asyncio.Lock()
        self._read: set[str] = set()

    @asynccontextmanager
    async def place(self, quotas: Sequence[Quota]) -> AsyncIterator[Quota | None]:
        """The first that has no place; ``None`` = there is one, and nobody else takes it before the block ends.

        Raises:
            KubeError: the objects cannot be counted; then nothing is created (DI-320).
        """
        if not quotas:
            yield None
            return
        async with self._turn:
            for quota in quotas:
                await self._learn(quota.index.part)
            yield next((one for one in quotas if self._world.taken(one) + one.takes > one.most), None)

    async def _learn(self, part: Part[Any]) -> None:
        if part.name in self._read:
            return
        page = await self._kube.list(part.kind, label_selector=part.label_selector, field_selector=part.field_selector)
        for item in page.items:
            self._world.absorb(part, item)
        self._read.add(part.name)
