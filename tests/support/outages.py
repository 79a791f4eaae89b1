"""What cannot be taken again because one of the brokers was ended while the platform ran, as in the chart's lane."""

from typing import Final

from support.stack import Platform

from controller_runtime.replay import Replayed, Verdict

FED_DIRECTLY: Final = "it came by another way than the bus"


def may_lack(platform: Platform) -> bool:
    """Whether one of its brokers is ended: what elects leaders for too long is read from the API server (FW-401)."""
    return platform.chart is not None


def lacks(platform: Platform, one: Replayed) -> bool:
    """Whether a decision is undetermined for that reason alone."""
    only = one.verdict is Verdict.UNKNOWN and all(FED_DIRECTLY in what for what in one.missing)
    return only and may_lack(platform)
