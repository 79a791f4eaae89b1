"""Values of metrics as their owners tell them, whatever shows them (FW-286)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Total:
    """How often something happened, and how many seconds it took in all.

    Attributes:
        buckets: with each bound how often it took no longer, but longer than the bound before; what took longer than
            the last one is in the count alone. Without them it is shown as a summary, with them as a histogram.
    """

    count: int
    seconds: float
    buckets: tuple[tuple[float, int], ...] = ()


Samples = Iterable[tuple[Mapping[str, str], float | Total]]
"""Values of one metric with their labels."""
Readings = Mapping[str, Samples]
"""Metric name → its samples. A name in ``_total`` is a counter; summaries are given as such; the rest are gauges."""
