"""One trace through a service: spans that reach a collector, log lines and children all name it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.controlplane import RawApi
from support.nats import eventually
from support.runtime_fixtures import MODELS, model, seen
from support.services import Platform

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = "aim.eai.amd.com/traceparent"


class Collector:
    """Takes spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []

    async def take(self, request: web.Request) -> web.Response:
        self.requests.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response(body=b"", content_type="application/x-protobuf")

    def spans(self) -> list[tuple[str, str, str]]:
        """Service, name and trace id of each span."""
        return [
            (attribute.value.string_value, span.name, span.trace_id.hex())
            for request in self.requests
            for resource in request.resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@asynccontextmanager
async def collecting() -> AsyncIterator[tuple[Collector, str]]:
    collector, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield collector, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.spec("FW-128", "FW-205")
async def test_the_trace_of_an_object_goes_on_in_everything_that_comes_of_it(stage: Platform, api: RawApi) -> None:
    async with collecting() as (collector, endpoint):
        service = await stage.started(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_BSP_SCHEDULE_DELAY="200")
        await service.ready()
        await api.created(MODELS, model("qwen", "qwen:1", **{TRACEPARENT: f"00-{TRACE}-b7ad6b7169203331-01"}))
        child = await seen(api, "qwen", "qwen:1")
        assert child["metadata"]["annotations"][TRACEPARENT].split("-")[1] == TRACE
        await eventually(lambda: ("aim-tiny", "reconcile tiny", TRACE) in collector.spans(), "the span arrives")
        lines = [line for line in service.lines if line["message"] == "looking"]
        assert lines
        assert {line["trace_id"] for line in lines} == {TRACE}
        assert {line["name"] for line in lines} == {"qwen"}
        assert await service.stop() == 0
        assert service.tracebacks == []
