"""Annotations that the framework itself reads and writes (FW-253)."""

from typing import Final

from controller_runtime.names import DOMAIN

_DOMAIN: Final = f"{DOMAIN}/"
TRACEPARENT: Final = _DOMAIN + "traceparent"
"""Stamped by the executor on what it creates, so that the trace goes on with the child (FW-205)."""
APPLIED_HASH: Final = _DOMAIN + "applied-hash"
"""Which members the last applied form of a child had (FW-409)."""
PAUSED: Final = _DOMAIN + "reconciliation-paused"
"""Exactly ``true`` keeps a user's object from being reconciled (FW-002)."""
SHARDS: Final = _DOMAIN + "shards"
"""On a Lease: into how many shards its holder divides the service; absent = 1 (FW-891)."""
ASKED_BY: Final = _DOMAIN + "asked-by"
"""On a Lease: the process that asks its holder for it (FW-892)."""
