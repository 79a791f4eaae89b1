"""Order of status values, and modes with older names."""

from __future__ import annotations

import pytest

from aim_domain import CacheMode, Metric
from aim_domain.api.enums import CachingMode
from controller_runtime import StatusValue, best_status, worst_status


@pytest.mark.spec("FW-020", "FW-021")
def test_priorities() -> None:
    ordered = sorted(StatusValue, key=lambda status: -status.priority)
    assert " ".join(ordered) == "Running Ready Progressing Starting Pending Degraded NotAvailable Failed"
    assert StatusValue.RUNNING.priority == 7
    assert StatusValue("Sleeping").priority == 0


@pytest.mark.spec("FW-025")
def test_the_first_of_equals_wins() -> None:
    unknown = StatusValue("Sleeping")
    candidates = [StatusValue.READY, unknown, StatusValue.FAILED, StatusValue.RUNNING]
    assert worst_status(candidates) is unknown
    assert best_status(candidates) is StatusValue.RUNNING
    assert best_status([]) is None
    assert worst_status([]) is None


@pytest.mark.spec("CC-030")
@pytest.mark.parametrize(
    ("mode", "effective"),
    [
        (CachingMode.DEDICATED, CacheMode.DEDICATED),
        (CachingMode.NEVER, CacheMode.DEDICATED),
        (CachingMode.SHARED, CacheMode.SHARED),
        (CachingMode.ALWAYS, CacheMode.SHARED),
        (CachingMode.AUTO, CacheMode.SHARED),
    ],
)
def test_older_caching_modes(mode: CachingMode, effective: CacheMode) -> None:
    assert mode.effective is effective


@pytest.mark.spec("CC-311")
def test_values_from_outside_are_mapped_or_dropped() -> None:
    assert Metric.parse("latency") is Metric.LATENCY
    assert Metric.parse("speed") is None
    assert Metric.parse("") is None
