"""Traces: W3C trace context through NATS headers and the trace annotation, spans through OpenTelemetry.

Export is switched on by the usual OTEL_EXPORTER_OTLP_ENDPOINT variables (FW-274); without them spans still carry
ids for logs, headers and decision records, and are dropped when they end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR = TraceContextTextMapPropagator()
_TRACEPARENT = "traceparent"


def configure(service: str) -> TracerProvider:
    """Install the tracer provider of this process; shut it down at exit to flush spans."""
    provider = TracerProvider(resource=Resource.create({"service.name": f"aim-{service}"}))
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


@contextmanager
def span(name: str, traceparent: str | None = None, **attributes: str | int) -> Iterator[trace.Span]:
    """Run a block as a span that continues ``traceparent``; attributes are dotted by ``_`` → ``.``."""
    tracer = trace.get_tracer("aim")
    dotted = {key.replace("_", "."): value for key, value in attributes.items()}
    with tracer.start_as_current_span(name, context=context_of(traceparent), attributes=dotted) as current:
        yield current
