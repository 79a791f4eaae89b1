"""Metrics in Prometheus form, under the names that dashboards of controllers know (FW-284…FW-286).

What others count already (queues, publishers, the feed) is read when the page is asked for; only durations and
results of passes and requests are recorded as they happen.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from itertools import accumulate
from typing import Final, Protocol, runtime_checkable

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from controller_runtime.names import PREFIX
from controller_runtime.telemetry.catalogue import MEANINGS, Readings, Total

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_METHODS: Final = {"create": "POST", "update": "PUT", "patch": "PATCH", "apply": "PATCH", "delete": "DELETE"}
_RESULTS: Final = ("success", "error", "requeue", "requeue_after")
_NO_ANSWER: Final = "<error>"


@runtime_checkable
class Measured(Protocol):
    """Something that has metrics of its own."""

    def readings(self) -> Readings:
        """The present values."""
        ...


class Metrics:
    """The metrics of one process.

    Args:
        api_server: label ``host`` of requests to it.
    """

    def __init__(self, api_server: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._api_server = api_server.partition("://")[2]
        self._clock = clock
        self._silent_since: float | None = None
        self._registry = CollectorRegistry()
        # Reads /proc when the page is asked for.
        ProcessCollector(registry=self._registry)
        self._passes = Counter(
            "controller_runtime_reconcile", "Reconciles by result", ["controller", "result"], registry=self._registry
        )
        self._errors = Counter(
            "controller_runtime_reconcile_errors", "Failed reconciles", ["controller"], registry=self._registry
        )
        self._seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of reconciles",
            ["controller"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._requests = Counter(
            "rest_client_requests",
            "Requests to the API server",
            ["code", "method", "host"],
            registry=self._registry,
        )
        self._kinds = Counter(
            f"{PREFIX}_api_requests",
            "Requests to the API server by verb and kind",
            ["verb", "resource", "code"],
            registry=self._registry,
        )
        self._latency = Histogram(
            "rest_client_request_duration_seconds",
            "Duration of requests to the API server; of watches until they begin",
            ["verb", "host"],
            buckets=_BUCKETS,
            registry=self._registry,
        )

    def watch(self, readings: Callable[[], Readings], controllers: Iterable[str] = ()) -> None:
        """Ask ``readings`` for the present state at each scrape; show the passes of ``controllers`` from the start."""
        self._registry.register(_State(readings))
        for controller in controllers:
            self._errors.labels(controller)
            self._seconds.labels(controller)
            for result in _RESULTS:
                self._passes.labels(controller, result)

    def on_pass(self, controller: str, result: str, seconds: float, exemplar: dict[str, str] | None = None) -> None:
        """A pass ended; its exemplar names the span that tells more of it (FW-578)."""
        self._passes.labels(controller, result).inc()
        self._seconds.labels(controller).observe(seconds, exemplar)
        if result == "error":
            self._errors.labels(controller).inc()

    def on_request(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """A request to the API server ended; code 0 stands for no answer."""
        shown, method = str(code) if code else _NO_ANSWER, _METHODS.get(verb, "GET")
        self._requests.labels(shown, method, self._api_server).inc()
        self._kinds.labels(verb, resource, shown).inc()
        self._latency.labels(method, self._api_server).observe(seconds)
        if code:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = self._clock()

    @property
    def unanswered_seconds(self) -> float:
        """For how long every request to the API server went without an answer."""
        return 0.0 if self._silent_since is None else self._clock() - self._silent_since

    def page(self) -> bytes:
        """The page as Prometheus reads it."""
        return generate_latest(self._registry)

    def page_for(self, accept: str) -> tuple[bytes, str]:
        """The page in the form that a client asks for, with its type; only OpenMetrics has exemplars."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _State(Collector):
    def __init__(self, readings: Callable[[], Readings]) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        for name, samples in self._readings().items():
            yield _family(name, list(samples))


def _family(name: str, samples: list[tuple[Mapping[str, str], float | Total]]) -> Metric:
    keys = sorted({key for labels, _ in samples for key in labels})
    meaning = MEANINGS.get(name) or name.replace("_", " ")
    summary = SummaryMetricFamily(name, meaning, labels=keys)
    spread = HistogramMetricFamily(name, meaning, labels=keys)
    number = (CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily)(name, meaning, labels=keys)
    for labels, value in samples:
        values = [labels.get(key, "") for key in keys]
        if isinstance(value, Total) and value.buckets:
            spread.add_metric(values, buckets=_cumulative(value), sum_value=value.seconds)
        elif isinstance(value, Total):
            summary.add_metric(values, count_value=value.count, sum_value=value.seconds)
        else:
            number.add_metric(values, value)
    return next((one for one in (summary, spread) if one.samples), number)


def _cumulative(value: Total) -> list[tuple[str, float]]:
    bounds = (floatToGoString(bound) for bound, _ in value.buckets)  # type: ignore[no-untyped-call]
    up_to = accumulate(count for _, count in value.buckets)
    return [*zip(bounds, up_to, strict=True), ("+Inf", value.count)]


def readings_of(
    prefix: str, statistics: object, labels: Mapping[str, str]
) -> dict[str, tuple[Mapping[str, str], float]]:
    """One sample per number in a statistics dataclass, named ``<prefix>_<field>``, or as the counter of that name."""
    assert is_dataclass(statistics)
    assert not isinstance(statistics, type)
    numbers = {name: value for name, value in asdict(statistics).items() if isinstance(value, int | float)}
    return {_metric_name(f"{prefix}_{name}"): (labels, float(value)) for name, value in numbers.items()}


def _metric_name(name: str) -> str:
    return counted if (counted := f"{name}_total") in MEANINGS else name
