"""coordination.k8s.io/v1 Lease: who leads."""

from __future__ import annotations

from controller_runtime.api.base import ApiModel, MicroTime
from controller_runtime.api.meta import Resource


class LeaseSpec(ApiModel):
    """Who holds the lease and since when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: int | None = None


class Lease(Resource):
    """coordination.k8s.io/v1 Lease."""

    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    spec: LeaseSpec = LeaseSpec()
