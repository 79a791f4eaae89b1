"""Reading and writing one Lease object."""

from typing import final

from controller_runtime.api.base import to_json
from controller_runtime.api.meta import ObjectMeta
from controller_runtime.core.lease import Lease, LeaseSpec
from controller_runtime.kinds import LEASE
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ApiError


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

    async def write(self, before: Lease | None, spec: LeaseSpec) -> Lease | None:
        """Create or replace it, provided nobody else did since ``before``; None when somebody did."""
        manager = f"aim-{self._name.removeprefix('aim-')}"
        metadata = before.metadata if before else ObjectMeta(name=self._name, namespace=self._namespace)
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
