"""Specs that are unusable as a whole: an older definition may have let them in (MS-031, MS-034)."""

from aim_domain import AIMClusterModelSourceSpec
from aim_model_sync.schedule import InvalidIntervalError, interval_seconds


def spec_problem(spec: AIMClusterModelSourceSpec) -> str | None:
    """What is wrong and what to do; ``None`` when selectors can be evaluated one by one."""
    if spec.images and spec.filters:
        return "spec.images and spec.filters are both set; keep one of them"
    if not spec.images and not spec.filters:
        return "neither spec.images nor spec.filters is set; list images, or filters with patterns"
    try:
        interval_seconds(spec.sync_interval)
    except InvalidIntervalError as error:
        return str(error)
    return None
