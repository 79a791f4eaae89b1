"""The trace of one deployment on real programs, as the real OpenTelemetry Collector receives it."""

from pathlib import Path

import pytest
from support.nats import eventually
from support.otel_collector import otel_collector
from support.otlp import Trace
from support.stack import started_platform

from aim_domain.services import SERVICES
from aim_local.assets import AssetError, Program, find_toolset
from aim_local.stack import ClusterKind

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.4"
"""Of no source: one that is quicker than the service would have the model looked at in a trace of its own."""
PARTICIPANTS = frozenset({"aim-serving", "aim-routing", "aim-discovery", "aim-artifacts"})


@pytest.mark.spec("FW-570", "FW-571", "FW-576")
async def test_a_real_collector_receives_one_whole_tree(tmp_path: Path) -> None:
    try:
        find_toolset().require(Program.COLLECTOR)
    except AssetError as error:
        pytest.exit(str(error), returncode=1)
    async with otel_collector(tmp_path) as collector:
        variables = dict.fromkeys(SERVICES, collector.variables)
        folder = tmp_path / "platform"
        async with started_platform(folder, service_env=variables, cluster=ClusterKind.REAL) as platform:
            await platform.namespace("traced")
            await platform.running(await platform.service("traced", "chat", model={"image": IMAGE}), 120)

            def found() -> Trace | None:
                return collector.received().begun_by("AIMService", "chat")

            def is_there() -> bool:
                trace = found()
                return trace is not None and trace.is_whole and trace.services >= PARTICIPANTS

            try:
                await eventually(is_there, "the trace is whole", interval=0.5)
            except AssertionError:
                pytest.fail(f"the trace that the collector received:\n{found()}")
        trace = found()
    assert trace is not None
    assert trace.repeated == []
    assert trace.services == PARTICIPANTS
    assert "create jobs.batch" in {span.name for span in trace.spans}
    assert not [span for span in collector.received().spans if "healthz" in span.name or "readyz" in span.name]
