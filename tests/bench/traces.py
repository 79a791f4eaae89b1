"""What traces cost the services: ``PYTHONPATH=tests python -m bench.traces 100 2``.

Processor time of the five services for a burst of AIMServices until all run, on new stacks that alternate between no
collector and one that takes everything; and of one pass alone.
"""

import os
import statistics
import sys
import tempfile
import timeit
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from bench.figures import Figure
from bench.latency import measure_cold
from bench.site import WARM, service_body, site
from bench.table import show
from bench.usage import read_cpu
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from rich.console import Console
from support.otlp import Collector, collecting

from aim_domain import kinds
from aim_domain.services import SERVICES
from controller_runtime import Key
from controller_runtime.telemetry import tracing

_SUBJECT: Final = "traces"
_PATIENCE: Final = 120.0
_PASSES: Final = 5000
_CONTEXT: Final = f"00-{'a' * 32}-{'1' * 16}-01"


async def _burst(count: int) -> float:
    """Milliseconds of processor time of the services, for each AIMService."""
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        async with site(Path(folder)) as place:
            await measure_cold(place)
            await place.settled()
            before = read_cpu(place.stack)
            keys = [Key(WARM, f"many-{number}") for number in range(count)]
            await place.create(kinds.AIM_SERVICE, map(service_body, keys))
            await place.services.until_seen(keys, _PATIENCE)
            await place.settled()
            used = read_cpu(place.stack).since(before)
    return 1000 * sum(used[name] for name in SERVICES) / count


@asynccontextmanager
async def _environment(*, traced: bool) -> AsyncIterator[Collector | None]:
    """What the services of a stack inherit."""
    if not traced:
        yield None
        return
    async with collecting() as (collector, variables):
        # As often as the library sends by default.
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = variables["OTEL_EXPORTER_OTLP_ENDPOINT"]
        try:
            yield collector
        finally:
            del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]


async def measure(count: int, pairs: int) -> list[Figure]:
    """Both ways in turn, as a machine is not the same for long."""
    used: dict[bool, list[float]] = {False: [], True: []}
    spans = 0
    for _ in range(pairs):
        for traced in (False, True):
            async with _environment(traced=traced) as collector:
                used[traced].append(await _burst(count))
                spans = len(collector.spans) if collector is not None else spans
    without, with_ = statistics.median(used[False]), statistics.median(used[True])
    typer.echo(f"each: without {used[False]}, with {used[True]}; {spans} spans")
    return [
        Figure(_SUBJECT, "without a collector, per service", without, "ms"),
        Figure(_SUBJECT, "with a collector, per service", with_, "ms"),
        Figure(_SUBJECT, "more", 100 * (with_ - without) / without, "%"),
    ]


def _one_pass() -> None:
    with tracing.span("reconcile tiny", _CONTEXT):
        tracing.request_ended("apply tinies", "PATCH", "/", 200, 0.1)


class _Nowhere(SpanExporter):
    """Takes spans and does nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 (as the library names it)
        return SpanExportResult.SUCCESS


def measure_pass() -> list[Figure]:
    """Microseconds of a span with a request in it."""

    def cost() -> float:
        return 1e6 * min(timeit.repeat(_one_pass, number=_PASSES, repeat=5)) / _PASSES

    off = cost()
    with tracing.exporting("tiny", SimpleSpanProcessor(_Nowhere())):
        on = cost()
    return [Figure(_SUBJECT, "a pass, off", off, "µs"), Figure(_SUBJECT, "a pass with one request, on", on, "µs")]


def main(
    count: Annotated[int, typer.Argument()] = 100,
    pairs: Annotated[int, typer.Argument(help="How often each way.")] = 2,
) -> None:
    """Measure and print."""
    figures = [*measure_pass(), *uvloop.run(measure(count, pairs))]
    show(figures, Console(width=None if sys.stdout.isatty() else 120))


if __name__ == "__main__":
    typer.run(main)
