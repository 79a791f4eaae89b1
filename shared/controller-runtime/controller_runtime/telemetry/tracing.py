"""Traces: W3C trace context through NATS headers and the trace annotation, spans through OpenTelemetry.

Export is switched on by the usual OTEL_EXPORTER_OTLP_ENDPOINT variables (FW-274); without them spans still carry
ids for logs, headers and decision records, and are dropped when they end.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR = TraceContextTextMapPropagator()
_TRACEPARENT = "traceparent"
_FLUSH_SECONDS: Final = 2.0


@contextmanager
def exporting(service: str) -> Iterator[None]:
    """Trace for the length of the block; what is left to export at its end gets a moment."""
    provider = configure(service)
    try:
        yield
    finally:
        # A collector that does not answer holds up the flush for longer than a stopping process may take (FW-287).
        flush = threading.Thread(target=provider.shutdown, name="flush spans", daemon=True)
        flush.start()
        flush.join(_FLUSH_SECONDS)


def configure(service: str) -> TracerProvider:
    """Install the tracer provider of this process."""
    # Its own hook at exit would wait for the collector once more.
    provider = TracerProvider(resource=Resource.create({"service.name": f"aim-{service}"}), shutdown_on_exit=False)
    if os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        # Imported only when used: the exporter pulls in an HTTP stack and protobuf (about 15 MB).
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider


def context_of(traceparent: str | None) -> Context | None:
    """The OpenTelemetry context of a ``traceparent`` header; ``None`` where there is none."""
    return None if traceparent is None else _PROPAGATOR.extract({_TRACEPARENT: traceparent})


def current_traceparent() -> str | None:
    """The ``traceparent`` of the current span, to be stamped on what it writes."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier.get(_TRACEPARENT)


@cache
def _tracer_of(provider: trace.TracerProvider) -> trace.Tracer:
    # The library makes another one at each request, which takes a third of the time of a span.
    return provider.get_tracer("aim")


@contextmanager
def span(name: str, traceparent: str | None = None, **attributes: str | int) -> Iterator[trace.Span]:
    """Run a block as a span that continues ``traceparent``; attributes are dotted by ``_`` → ``.``."""
    tracer = _tracer_of(trace.get_tracer_provider())
    dotted = {key.replace("_", "."): value for key, value in attributes.items()}
    with tracer.start_as_current_span(name, context=context_of(traceparent), attributes=dotted) as current:
        yield current
