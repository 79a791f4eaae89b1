"""A receiver of OTLP over HTTP in this process, and the trees of the spans that reach it."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

QUICKLY = "200"
"""Milliseconds after which a service sends what it has."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span as a collector got it."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    kind: str
    began: int
    ended: int
    attributes: Mapping[str, str | int]
    links: tuple[str, ...]
    """Trace ids."""


@dataclass(frozen=True, slots=True)
class Trace:
    """All spans of one trace."""

    spans: tuple[Span, ...]

    @property
    def roots(self) -> list[Span]:
        return [span for span in self.spans if not span.parent]

    @property
    def orphans(self) -> list[Span]:
        """Spans with a parent that nobody exported."""
        known = {span.id for span in self.spans}
        return [span for span in self.spans if span.parent and span.parent not in known]

    @property
    def repeated(self) -> list[str]:
        """Ids that more than one span has."""
        return [one for one, times in Counter(span.id for span in self.spans).items() if times > 1]

    @property
    def services(self) -> set[str]:
        return {span.service for span in self.spans}

    @property
    def is_whole(self) -> bool:
        return len(self.roots) == 1 and not self.orphans

    def children(self, parent: Span) -> list[Span]:
        return [span for span in self.spans if span.parent == parent.id]

    def __str__(self) -> str:
        """The tree, with what belongs to nothing behind it."""
        first = min(span.began for span in self.spans)

        def reported(span: Span, depth: int) -> Iterable[str]:
            at, took = (span.began - first) / 1e6, (span.ended - span.began) / 1e6
            yield f"{at:9.1f} {took:8.1f} ms {'  ' * depth}{span.service}: {span.name}"
            for child in sorted(self.children(span), key=lambda one: one.began):
                yield from reported(child, depth + 1)

        return "\n".join(line for span in (*self.roots, *self.orphans) for line in reported(span, 0))


class Collector:
    """Takes spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []

    async def take(self, request: web.Request) -> web.Response:
        self.take_bytes(await request.read())
        return web.Response(body=b"", content_type="application/x-protobuf")

    def take_bytes(self, message: bytes) -> Self:
        self.requests.append(ExportTraceServiceRequest.FromString(message))
        return self

    @property
    def spans(self) -> list[Span]:
        return [
            _span(resource_attributes(resource.resource.attributes).get("service.name", ""), span)
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def trace(self, trace_id: str) -> Trace:
        return Trace(tuple(span for span in self.spans if span.trace == trace_id))

    def traces(self) -> list[Trace]:
        found: dict[str, list[Span]] = {}
        for span in self.spans:
            found.setdefault(span.trace, []).append(span)
        return [Trace(tuple(spans)) for spans in found.values()]

    def begun_by(self, kind: str, name: str) -> Trace | None:
        """The newest trace that began with an object."""
        begun = [
            span
            for span in self.spans
            if not span.parent and (span.name, span.attributes.get("k8s.object.name")) == (f"apply {kind}", name)
        ]
        return self.trace(begun[-1].trace) if begun else None


def resource_attributes(reported: Iterable[object]) -> dict[str, str]:
    """Attributes that are texts."""
    return {one.key: one.value.string_value for one in reported}  # type: ignore[attr-defined]


def _span(service: object, reported: ProtoSpan) -> Span:
    return Span(
        str(service),
        reported.name,
        reported.trace_id.hex(),
        reported.span_id.hex(),
        reported.parent_span_id.hex(),
        ProtoSpan.SpanKind.Name(reported.kind).removeprefix("SPAN_KIND_"),
        reported.start_time_unix_nano,
        reported.end_time_unix_nano,
        {one.key: one.value.string_value or one.value.int_value for one in reported.attributes},
        tuple(one.trace_id.hex() for one in reported.links),
    )


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[Collector, dict[str, str]]]:
    """A collector, and the variables that make a service send its spans there."""
    collector, app = Collector(), web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield collector, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": QUICKLY}
    finally:
        await runner.cleanup()
