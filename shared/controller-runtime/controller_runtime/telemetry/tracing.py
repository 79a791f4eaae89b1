"""Traces: W3C trace context through NATS headers and the trace annotation, spans through OpenTelemetry (FW-570…FW-577).

Whether a trace is exported is decided where it begins, by its id; the flag of its context tells everybody else. What is
not exported has no spans: its context goes on unchanged into logs, headers, annotations and decision records, so that
the parent of whatever is exported after it is always one that was (FW-572).
"""

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from controller_runtime.names import PREFIX

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

_REMEMBERED: Final = 4096
"""Contexts that are kept as read: passes of one object come close to each other."""
_NOTHING: Final = Context()
_FLUSH_SECONDS: Final = 2.0
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_QUEUE: Final = ("OTEL_BSP_MAX_QUEUE_SIZE", "32768")
"""Spans that may wait for the collector: the library's 2,048 are a second of a burst, and a lost one leaves orphans."""

_SAMPLED: Final = int(TraceFlags.SAMPLED)

Attributes: TypeAlias = Mapping[str, AttributeValue]
"""Of a span, under the names of OpenTelemetry's semantic conventions where these have one."""


class _Exporter:
    """What spans of this process go through, while they go anywhere.

    Its provider is not made the one that libraries find: what they trace by themselves, such as each request of a
    probe, would be traces of their own (FW-576).
    """

    def __init__(self, service: str, processor: "SpanProcessor") -> None:
        # Who has no collector does not pay for the SDK.
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import Decision  # noqa: PLC0415

        # Its own hook at exit would wait for the collector once more.
        resource = Resource.create({"service.name": f"{PREFIX}-{service}"})
        self.provider: Final = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.provider.add_span_processor(processor)
        self.processor: Final = processor
        # The library makes another one at each request, which takes a third of the time of a span.
        self.tracer: Final = self.provider.get_tracer(PREFIX)
        self._taken: Final = Decision.RECORD_AND_SAMPLE

    def samples(self, trace_id: int) -> bool:
        return self.provider.sampler.should_sample(None, trace_id, "").decision is self._taken


_exporter: _Exporter | None = None


@contextmanager
def exporting(service: str, processor: "SpanProcessor | None" = None) -> Iterator[None]:
    """Trace for the length of the block; what is left to export at its end gets a moment.

    Args:
        processor: takes the spans instead of the collector that the environment names.
    """
    global _exporter  # noqa: PLW0603 (a process exports to one place)
    processor = processor or _to_collector()
    if processor is None:
        yield
        return
    _exporter = _Exporter(service, processor)
    try:
        yield
    finally:
        # A collector that does not answer holds up the flush for longer than a stopping process may take (FW-287).
        flush = threading.Thread(target=_exporter.provider.shutdown, name="flush spans", daemon=True)
        _exporter = None
        flush.start()
        flush.join(_FLUSH_SECONDS)


def _to_collector() -> "SpanProcessor | None":
    """What sends spans to the collector that the environment names, if it names one (FW-274)."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if disabled or os.environ.get("OTEL_TRACES_EXPORTER") == "none" or not any(map(os.environ.get, _ENDPOINTS)):
        return None
    # Imported only when used: the exporter pulls in an HTTP stack and protobuf (about 15 MB).
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    os.environ.setdefault(*_QUEUE)
    return BatchSpanProcessor(OTLPSpanExporter())


# Contexts


def is_sampled(traceparent: str | None) -> bool:
    """Whether spans of a trace are exported from here."""
    return _exporter is not None and traceparent is not None and int(traceparent[-2:], 16) & _SAMPLED == _SAMPLED


def is_exporting() -> bool:
    """Whether this process has a collector to send spans to."""
    return _exporter is not None


def samples(trace_id: int) -> bool:
    """Whether a trace that begins here is exported: decided by its id alone, so that everybody decides the same.

    Without a collector it is: whether to is for those who have one to say.
    """
    return _exporter is None or _exporter.samples(trace_id)


def current_traceparent() -> str | None:
    """The ``traceparent`` of the current span, to be stamped on what it writes."""
    return _traceparent(trace.get_current_span().get_span_context())


def current_ids() -> dict[str, str] | None:
    """Trace and span id of the current span, for an exemplar; ``None`` when it is not exported."""
    current = trace.get_current_span()
    if not current.is_recording():
        return None
    found = current.get_span_context()
    return {"trace_id": trace.format_trace_id(found.trace_id), "span_id": trace.format_span_id(found.span_id)}


def _traceparent(found: SpanContext) -> str | None:
    if not found.is_valid:
        return None
    flags = int(found.trace_flags) & _SAMPLED
    return f"00-{trace.format_trace_id(found.trace_id)}-{trace.format_span_id(found.span_id)}-{flags:02x}"


@lru_cache(_REMEMBERED)
def _span_context(traceparent: str) -> SpanContext:
    """What a valid ``traceparent`` says; the library reads it as a header of a request, which takes a while."""
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


@lru_cache(_REMEMBERED)
def _context(traceparent: str) -> Context:
    return trace.set_span_in_context(trace.NonRecordingSpan(_span_context(traceparent)), Context())


# Names of attributes, from the semantic conventions of OpenTelemetry; objects as its Kubernetes receivers name them


def about_object(kind: str, namespace: str, name: str, uid: str) -> dict[str, AttributeValue]:
    """Attributes of a span that is about an object of Kubernetes."""
    where = {"k8s.namespace.name": namespace} if namespace else {}
    return {"k8s.object.kind": kind, "k8s.object.name": name, "k8s.object.uid": uid, **where}


def messaging(operation: str, subject: str) -> dict[str, AttributeValue]:
    """Attributes of a span of a message: ``send`` or ``process``."""
    return {
        "messaging.system": "nats",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": subject,
    }


# Spans


@contextmanager
def span(
    name: str,
    traceparent: str | None = None,
    attributes: Attributes | None = None,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    links: Iterable[str] = (),
) -> Iterator[trace.Span]:
    """Run a block as a span that continues ``traceparent``, or only in its context when that is not exported.

    Args:
        links: contexts of other traces that had a part in it.
    """
    if _exporter is None or traceparent is None or not is_sampled(traceparent):
        context = _NOTHING if traceparent is None else _context(traceparent)
        token = attach(context)
        try:
            yield trace.get_current_span(context)
        finally:
            detach(token)
        return
    with _exporter.tracer.start_as_current_span(
        name, context=_context(traceparent), kind=kind, attributes=attributes, links=_links(links)
    ) as current:
        yield current


def past(
    name: str,
    traceparent: str | None,
    began: float,
    attributes: Attributes | None = None,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    links: Iterable[str] = (),
    failed: str = "",
) -> str | None:
    """A span that ends now; returns the context of whatever follows it.

    Args:
        began: when, in seconds since 1970.
        failed: what went wrong, in words.
    """
    if _exporter is None or traceparent is None or not is_sampled(traceparent):
        return traceparent
    one = _exporter.tracer.start_span(
        name, _context(traceparent), kind, attributes, _links(links), start_time=int(began * 1e9)
    )
    if failed:
        one.set_status(Status(StatusCode.ERROR, failed))
    one.end()
    return _traceparent(one.get_span_context())


def root_span(name: str, traceparent: str, began: float, attributes: Attributes) -> None:
    """Export the span that a context names, which ends now and has no parent: that of a trace that begins (FW-571)."""
    if _exporter is None or not is_sampled(traceparent):
        return
    from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415

    _exporter.processor.on_end(
        ReadableSpan(
            name,
            _span_context(traceparent),
            resource=_exporter.provider.resource,
            attributes=attributes,
            kind=SpanKind.PRODUCER,
            start_time=int(began * 1e9),
            end_time=time.time_ns(),
            status=Status(StatusCode.UNSET),
        )
    )


def request_ended(name: str, method: str, path: str, code: int, seconds: float) -> None:
    """A request to the API server ended: a span of the pass or effect that made it, if there is one (FW-574)."""
    current = trace.get_current_span()
    if not current.is_recording():
        return
    past(
        name,
        _traceparent(current.get_span_context()),
        time.time() - seconds,
        {"http.request.method": method, "url.path": path, "http.response.status_code": code},
        kind=SpanKind.CLIENT,
        failed="" if 0 < code < HTTPStatus.BAD_REQUEST else f"HTTP {code}" if code else "no answer",
    )


def link(current: trace.Span, contexts: Iterable[str]) -> None:
    """Name traces that had a part in a span, which was not known when it began."""
    for one in contexts:
        current.add_link(_span_context(one))


def _links(contexts: Iterable[str]) -> list[Link]:
    return [Link(_span_context(one)) for one in contexts]
