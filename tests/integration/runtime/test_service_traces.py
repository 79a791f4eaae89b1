"""One trace through a service: spans that reach a collector, log lines and children all name it."""

import pytest
from support.controlplane import RawApi
from support.nats import eventually
from support.otlp import collecting
from support.runtime_fixtures import MODELS, model, seen
from support.services import Platform

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = "aim.eai.amd.com/traceparent"


@pytest.mark.spec("FW-128", "FW-205")
async def test_the_trace_of_an_object_goes_on_in_everything_that_comes_of_it(stage: Platform, api: RawApi) -> None:
    async with collecting() as (collector, variables):
        service = await stage.started(**variables)
        await service.ready()
        await api.created(MODELS, model("qwen", "qwen:1", **{TRACEPARENT: f"00-{TRACE}-b7ad6b7169203331-01"}))
        child = await seen(api, "qwen", "qwen:1")
        assert child["metadata"]["annotations"][TRACEPARENT].split("-")[1] == TRACE
        await eventually(
            lambda: ("aim-tiny", "reconcile tiny") in {(one.service, one.name) for one in collector.trace(TRACE).spans},
            "the span arrives",
        )
        lines = [line for line in service.lines if line["message"] == "looking"]
        assert lines
        assert {line["trace_id"] for line in lines} == {TRACE}
        assert {line["name"] for line in lines} == {"qwen"}
        assert await service.stop() == 0
        assert service.tracebacks == []
