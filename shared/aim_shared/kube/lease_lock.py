"""A short critical section across processes, guarded by a Lease (DI-311…DI-315)."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import final

import structlog

from aim_shared.api.external.lease import Lease, LeaseSpec
from aim_shared.kube.client import KubeClient
from aim_shared.kube.errors import KubeError
from aim_shared.kube.lease_record import Clock, SystemClock, claimed, has_run_out, is_free, released
from aim_shared.kube.lease_store import LeaseStore

_log = structlog.get_logger(__name__)


class LeaseNotObtainedError(KubeError):
    """The lock stayed in other hands for the whole waiting time; try again later (DI-315)."""


@final
@dataclass(frozen=True, slots=True)
class LockSettings:
    """Seconds (DI-312): how long a crashed holder blocks, how long to wait, how often to try."""

    duration: float = 30.0
    wait: float = 30.0
    poll: float = 0.1


def process_identity(pod_name: str) -> str:
    """Pod name with a suffix of this process: another process of the pod is somebody else (DI-312)."""
    return f"{pod_name}_{uuid.uuid4().hex[:8]}"


@final
class LeaseLock:
    """One lock; make one instance per process and share it, it also excludes its own users (DI-314)."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        settings: LockSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store = LeaseStore(client, namespace, name)
        self._identity = identity
        self._settings = settings or LockSettings()
        self._clock = clock or SystemClock()
        self._mutex = asyncio.Lock()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold the lock for the length of the block, which must be well below the lease duration.

        Raises:
            LeaseNotObtainedError: it could not be obtained in time.
            KubeError: the API server refused or did not answer.
        """
        async with self._mutex:
            lease = await self._obtain()
            try:
                yield
            finally:
                await self._release(lease)

    async def _obtain(self) -> Lease:
        give_up = self._clock.boot() + self._settings.wait
        while (lease := await self._try()) is None:
            if self._clock.boot() >= give_up:
                raise LeaseNotObtainedError(f"{self._store} is held by others for {self._settings.wait} s; retry later")
            await self._clock.sleep(self._settings.poll)
        return lease

    async def _try(self) -> Lease | None:
        current = await self._store.read()
        spec = current.spec if current else LeaseSpec()
        now = self._clock.wall()
        if not is_free(spec, self._identity) and not has_run_out(spec, now):
            return None
        return await self._store.write(current, claimed(spec, self._identity, self._settings.duration, now))

    async def _release(self, lease: Lease) -> None:
        try:
            # Refused when somebody took over meanwhile, and then there is nothing of ours to give back.
            await self._store.write(lease, released(lease.spec))
        except KubeError as error:
            _log.warning("lock not released; it runs out by itself", lease=str(self._store), error=str(error))
