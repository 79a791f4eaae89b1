"""What download containers get to download."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from aim_local import hub

_PROGRESS: Final = {"PROGRESS_INTERVAL": "0.2"}
_SIMULATED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AIM_DEBUG_SIMULATE_DOWNLOAD": "true",
        "AIM_DEBUG_DOWNLOAD_DURATION": "1",
        "AIM_DEBUG_VERIFY_DURATION": "0.2",
        "AIM_DEBUG_SIMULATE_SIZE_BYTES": str(hub.WEIGHTS),
        **_PROGRESS,
    }
)
"""Switches of the downloader (AR-759) that make it work without a network."""
_CHOICES: Final = (
    "AIM_DEBUG_CAUSE_HANG",
    "AIM_DEBUG_CAUSE_FAILURE",
    "AIM_DEBUG_SIMULATE_DOWNLOAD",
    "AIM_DEBUG_SIMULATE_HF_DOWNLOAD",
    "HF_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "S3_ENDPOINT",
)
"""Variables by which a container says itself where its weights come from."""
_HUB_SCHEME: Final = "hf://"


class Weights(StrEnum):
    """Where weights come from, unless a container says it itself."""

    SIMULATED = "simulated"
    HUB = "hub"
    SOURCE = "source"
    NOTHING = "nothing"
    """Downloads succeed at once, and no downloader runs."""


def variables(weights: Weights, hub_url: str, own: Mapping[str, str], source: str) -> dict[str, str]:
    """The environment of a download container.

    Real weights would fill the disk of a laptop, so made-up ones are a MiB, also where somebody has told more.

    Args:
        hub_url: of the Hub of made-up models.
        own: what the container sets.
        source: the URI that it is asked for.
    """
    if weights is Weights.SOURCE or any(own.get(name) for name in _CHOICES):
        return dict(own)
    given = {"HF_ENDPOINT": hub_url, **_PROGRESS} if weights is Weights.HUB and source.startswith(_HUB_SCHEME) else {}
    told = own.get("EXPECTED_SIZE_BYTES", "")
    expected = min(int(told), hub.WEIGHTS) if told.isdecimal() else hub.WEIGHTS
    return {**(given or _SIMULATED), **own, "EXPECTED_SIZE_BYTES": str(expected)}
