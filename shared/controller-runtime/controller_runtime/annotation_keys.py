"""Annotations that the framework itself reads and writes (FW-253)."""

from typing import Final

_DOMAIN: Final = "aim.eai.amd.com/"
TRACEPARENT: Final = _DOMAIN + "traceparent"
"""Stamped by the executor on what it creates, so that the trace goes on with the child (FW-205)."""
APPLIED_HASH: Final = _DOMAIN + "applied-hash"
"""Which members the last applied form of a child had (FW-409)."""
PAUSED: Final = _DOMAIN + "reconciliation-paused"
"""Exactly ``true`` keeps a user's object from being reconciled (FW-002)."""
