"""Values of metrics as their owners tell them, whatever shows them (FW-286)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controller_runtime.names import PREFIX


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


class MetricKind(StrEnum):
    """How Prometheus counts it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: as on the page; of histograms and summaries without ``_bucket``, ``_sum`` and ``_count``.
        meaning: a line for people.
        labels: what tells its samples apart.
    """

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The names that a query may use."""
        if self.kind is MetricKind.HISTOGRAM:
            return (f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count")
        if self.kind is MetricKind.SUMMARY:
            return (f"{self.name}_sum", f"{self.name}_count")
        return (self.name,)


_C, _G, _H, _S = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM, MetricKind.SUMMARY


def _each(prefix: str, labels: tuple[str, ...], **meanings: str) -> tuple[Metric, ...]:
    """Numbers of a statistics dataclass, as `readings_of` names them."""
    return tuple(Metric(f"{prefix}_{name}", _G, meaning, labels) for name, meaning in meanings.items())


def _counts(prefix: str, labels: tuple[str, ...], **meanings: str) -> tuple[Metric, ...]:
    """Those of them that only grow."""
    return tuple(Metric(f"{prefix}_{name}_total", _C, meaning, labels) for name, meaning in meanings.items())


FRAMEWORK_METRICS: Final = (
    Metric("controller_runtime_reconcile_total", _C, "Reconciles by result", ("controller", "result")),
    Metric("controller_runtime_reconcile_errors_total", _C, "Failed reconciles", ("controller",)),
    Metric("controller_runtime_reconcile_time_seconds", _H, "Duration of reconciles", ("controller",)),
    Metric("controller_runtime_active_workers", _G, "Reconciles that run now", ("controller",)),
    Metric("controller_runtime_max_concurrent_reconciles", _G, "Reconciles that may run at once", ("controller",)),
    Metric("workqueue_depth", _G, "Objects that wait for a reconcile", ("name",)),
    Metric("workqueue_adds_total", _C, "Requests for a reconcile", ("name",)),
    Metric("workqueue_retries_total", _C, "Reconciles that are retried", ("name",)),
    Metric("workqueue_queue_duration_seconds", _H, "Time that objects waited for their reconcile", ("name",)),
    Metric("workqueue_work_duration_seconds", _H, "Time that reconciles took", ("name",)),
    Metric("workqueue_unfinished_work_seconds", _G, "Sum of the ages of running reconciles", ("name",)),
    Metric("workqueue_longest_running_processor_seconds", _G, "Age of the oldest running reconcile", ("name",)),
    Metric(f"{PREFIX}_queue_oldest_seconds", _G, "Age of the oldest waiting request", ("name",)),
    Metric("rest_client_requests_total", _C, "Requests to the API server", ("code", "method", "host")),
    Metric(
        "rest_client_request_duration_seconds",
        _H,
        "Duration of requests to the API server; of watches until they begin",
        ("verb", "host"),
    ),
    Metric(
        f"{PREFIX}_api_requests_total", _C, "Requests to the API server by verb and kind", ("verb", "resource", "code")
    ),
    Metric("leader_election_master_status", _G, "1 where this process leads", ("name",)),
    Metric(f"{PREFIX}_decisions_total", _C, "Reconciles by the reason of Ready", ("controller", "reason")),
    Metric(f"{PREFIX}_objects", _G, "Objects by status", ("controller", "status")),
    Metric(f"{PREFIX}_paused_objects", _G, "Objects that their user has paused", ("part",)),
    Metric(f"{PREFIX}_part_fresh", _G, "1 while what is known of a kind is confirmed", ("part", "source")),
    Metric(
        f"{PREFIX}_part_age_seconds", _G, "Time since the publisher of a kind last confirmed it", ("part", "source")
    ),
    Metric(f"{PREFIX}_part_objects", _G, "Objects of a kind that are known", ("part", "source")),
    Metric(f"{PREFIX}_part_foreign", _G, "1 where another cluster publishes under the same root", ("part", "source")),
    Metric(f"{PREFIX}_event_delivery_seconds", _S, "Time from the broker to the cache of the service"),
    Metric(f"{PREFIX}_publish_seconds", _S, "Time from the watch to the broker", ("part",)),
    *_each(
        f"{PREFIX}_publisher",
        ("part",),
        objects="Objects of a published kind",
        waiting="Unpublished versions",
        lag_seconds="Age of the oldest unpublished version",
        differences="Repairs of the last comparison",
    ),
    *_counts(
        f"{PREFIX}_publisher",
        ("part",),
        published="Versions published since the start",
        dropped="Versions that newer ones replaced before they were published",
        stale="Versions not written because the broker had a newer one",
        refused="Versions that the broker refused",
        rereads="Outcomes that had to be looked up",
        copied="Present versions that the history lacked",
        sessions="Times that publishing began",
        repaired="Repairs in all",
        checkpoints="Checkpoints written",
        swept="Tombstones removed",
    ),
    Metric(
        f"{PREFIX}_publisher_markers_total",
        _C,
        f"Former name of {PREFIX}_publisher_checkpoints_total, until 0.2",
        ("part",),
    ),
    *_counts(
        f"{PREFIX}_projection",
        (),
        generations="Snapshots of everything",
        restaged="Snapshots of one kind",
        disagreed="Checkpoints that disagreed with the versions before them",
        dropped="Messages rejected: unknown publisher",
        messages="Messages taken",
    ),
    *_each(
        f"{PREFIX}_decisions",
        (),
        waiting="Records under way",
    ),
    *_counts(
        f"{PREFIX}_decisions",
        (),
        recorded="Records stored",
        lost="Records lost",
    ),
    *_each(
        f"{PREFIX}_effects",
        (),
        running="Running effects",
        waiting="Waiting effects",
    ),
    *_counts(
        f"{PREFIX}_effects",
        (),
        succeeded="Effects that succeeded",
        failed="Effects that failed",
    ),
    *_each(
        f"{PREFIX}_stream",
        ("stream",),
        bytes="Size of a stream",
        limit_bytes="Its limit; 0 = none",
        messages="Its messages",
        reach_seconds="Age of its oldest message",
        short="1 where size will cut it before age does",
    ),
    *_counts(
        f"{PREFIX}_stream",
        ("stream",),
        dropped="Messages that gave way to newer ones or to age",
    ),
    Metric("process_cpu_seconds_total", _C, "Total user and system CPU time spent in seconds."),
    Metric("process_resident_memory_bytes", _G, "Resident memory size in bytes."),
    Metric("process_virtual_memory_bytes", _G, "Virtual memory size in bytes."),
    Metric("process_start_time_seconds", _G, "Start time of the process since unix epoch in seconds."),
    Metric("process_open_fds", _G, "Number of open file descriptors."),
    Metric("process_max_fds", _G, "Maximum number of open file descriptors."),
    Metric(f"{PREFIX}_failed_indexes_total", _C, "Objects that an index could not read", ("part",)),
    Metric(f"{PREFIX}_failed_changes_total", _C, "Changes that a listener could not take", ("part",)),
    Metric(f"{PREFIX}_failed_wakes_total", _C, "Changes whose dependents could not be determined", ("controller",)),
    Metric(f"{PREFIX}_untold_refusals_total", _C, "Failures to report a refusal on its object", ("controller",)),
)
"""All that a service shows once it leads."""

MEANINGS: Final = {one.name: one.meaning for one in FRAMEWORK_METRICS}
