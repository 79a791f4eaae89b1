"""The effects of model-sync and their parameters; never a secret value among them."""

from typing import Final

from aim_model_sync.selectors import SelectorText
from controller_runtime import ApiModel

SERVICE_NAME: Final = "model-sync"
SYNC: Final = "sync"
"""Evaluates all selectors of a source. Its key is the source's UID: one sync at a time, one fact per source."""
PULL_SECRETS: Final = "pull-secret-versions"
"""Looks whether the pull secrets of a source have changed (FW-096)."""


class SyncParams(ApiModel):
    """What a sync needs.

    Attributes:
        source: name of the source, for logs.
        registry: ``spec.registry`` as written.
        interval: seconds between syncs, which bound one sync.
        attempt: 1, or more when the previous one left something to retry.
    """

    source: str
    uid: str
    generation: int
    attempt: int
    registry: str
    interval: float
    selectors: tuple[SelectorText, ...]
    secrets: tuple[str, ...] = ()


class SecretParams(ApiModel):
    """Which Secrets of the operator namespace to look at."""

    secrets: tuple[str, ...]
