"""The metrics as tables, for people."""

from collections.abc import Iterable
from typing import Final

from aim_domain.metric_catalogue import BY_SERVICE
from controller_runtime.telemetry import FRAMEWORK_METRICS, Metric

_HEAD: Final = """\
# Metrics

Some appear with their first sample, and those of queues, publishers and streams on the leader only. Where Prometheus
puts labels of the pod on them, a `namespace` of a metric is called `exported_namespace`.
"""


def page() -> str:
    """The tables of all services."""
    own = "".join(f"\n## {name}\n\n{_table(some)}" for name, some in BY_SERVICE.items() if some)
    return f"{_HEAD}\n## All services\n\n{_table(FRAMEWORK_METRICS)}{own}"


def _table(metrics: Iterable[Metric]) -> str:
    head = "| metric | kind | labels | meaning |\n|---|---|---|---|\n"
    return head + "".join(
        f"| `{one.name}` | {one.kind} | {', '.join(one.labels)} | {one.meaning} |\n" for one in metrics
    )
