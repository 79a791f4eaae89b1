"""What cannot be taken again because a part was fed directly for a while (FW-401).

Brokers of the chart's lane are ended while the platform runs; under load it takes longer than a service waits until
another one leads all streams.
"""

import re
from typing import Final

from support.stack import Platform

from controller_runtime.replay import Replayed, Verdict

FED_DIRECTLY: Final = "it came by another way than the bus"
_MISSING: Final = re.compile(r"^ +missing: (.*)$", re.MULTILINE)


def lacks(platform: Platform, one: Replayed) -> bool:
    """Whether a decision is undetermined for that reason alone."""
    only = one.verdict is Verdict.UNKNOWN and all(FED_DIRECTLY in what for what in one.missing)
    return only and platform.chart is not None


def is_well(platform: Platform, code: int, out: str) -> bool:
    """Whether ``aim replay`` took everything alike, but for what such decisions lack."""
    missing = _MISSING.findall(out)
    only = code == 2 and " 0 different" in out and bool(missing) and all(FED_DIRECTLY in what for what in missing)
    return code == 0 or (only and platform.chart is not None)
