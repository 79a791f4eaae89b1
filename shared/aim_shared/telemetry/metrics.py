"""Metrics in Prometheus form, under the names that dashboards of controllers know (FW-284…FW-286).

What others count already (queues, publishers, the feed) is read when the page is asked for; only durations and
results of passes and requests are recorded as they happen.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Gauges = Mapping[str, Iterable[tuple[Mapping[str, str], float]]]
"""Metric name → its samples as (labels, value)."""


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._passes = Counter(
            "controller_runtime_reconcile", "Passes by result", ["controller", "result"], registry=self._registry
        )
        self._errors = Counter(
            "controller_runtime_reconcile_errors", "Passes that failed", ["controller"], registry=self._registry
        )
        self._seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of passes",
            ["controller"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._requests = Counter(
            "rest_client_requests",
            "Requests to the Kubernetes API",
            ["code", "method", "resource"],
            registry=self._registry,
        )

    def watch(self, gauges: Callable[[], Gauges]) -> None:
        """Ask ``gauges`` for the present state at each scrape."""
        self._registry.register(_State(gauges))

    def on_pass(self, controller: str, result: str, seconds: float) -> None:
        """A pass ended."""
        self._passes.labels(controller, result).inc()
        self._seconds.labels(controller).observe(seconds)
        if result == "error":
            self._errors.labels(controller).inc()

    def on_request(self, verb: str, resource: str, code: int, _seconds: float) -> None:
        """A request to the API server ended; code 0 stands for no answer."""
        self._requests.labels(str(code), verb, resource).inc()

    def page(self) -> bytes:
        """The page as Prometheus reads it."""
        return generate_latest(self._registry)


class _State(Collector):
    def __init__(self, gauges: Callable[[], Gauges]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        for name, samples in self._gauges().items():
            listed = list(samples)
            keys = sorted({key for labels, _ in listed for key in labels})
            family = GaugeMetricFamily(name, name.replace("_", " "), labels=keys)
            for labels, value in listed:
                family.add_metric([labels.get(key, "") for key in keys], value)
            yield family


def gauges_of(prefix: str, statistics: object, labels: Mapping[str, str]) -> dict[str, tuple[Mapping[str, str], float]]:
    """One sample per number in a statistics dataclass, named ``<prefix>_<field>``."""
    assert is_dataclass(statistics)
    assert not isinstance(statistics, type)
    numbers = {name: value for name, value in asdict(statistics).items() if isinstance(value, int | float)}
    return {f"{prefix}_{name}": (labels, float(value)) for name, value in numbers.items()}
