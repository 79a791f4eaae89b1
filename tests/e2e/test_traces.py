"""One trace from `kubectl apply` to Running: what reaches a collector from the five services is one whole tree."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import aiohttp
import pytest
import pytest_asyncio
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.nats import eventually
from support.otlp import Collector, Trace, collecting
from support.stack import OWN, Platform, started_platform

from aim_domain.services import SERVICES
from aim_local.demo.run import demo_files
from controller_runtime.telemetry import tracing

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
UNLISTED = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.4"
"""Of no source: one that is quicker than the service would have the model looked at in a trace of its own."""
ALL = frozenset({"aim-serving", "aim-routing", "aim-discovery", "aim-artifacts"})
"""Who takes part where nothing is there yet, not even the model."""
WORDS = frozenset({"apply", "process", "reconcile", "effect", "wait"})
"""First words of the names of all spans but those of requests."""


@dataclass(frozen=True)
class Traced:
    platform: Platform
    collector: Collector

    async def service(self, namespace: str, name: str, image: str = IMAGE) -> str:
        return await self.platform.service(namespace, name, model={"image": image})

    async def trace(self, name: str, accept: Callable[[Trace], bool]) -> Trace:
        """The trace that began with an AIMService, once it is whole and as wished."""

        def is_there() -> bool:
            found = self.collector.begun_by("AIMService", name)
            return found is not None and found.is_whole and accept(found)

        try:
            await eventually(is_there, "the trace is whole")
        except AssertionError:
            pytest.fail(f"trace of {name}:\n{self.collector.begun_by('AIMService', name)}")
        found = self.collector.begun_by("AIMService", name)
        assert found is not None
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def traced(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Traced]:
    async with collecting() as (collector, variables):
        folder = tmp_path_factory.mktemp("traced")
        async with started_platform(folder, service_env=dict.fromkeys(SERVICES, variables)) as platform:
            yield Traced(platform, collector)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def first(traced: Traced) -> Trace:
    """The trace of the first service on the platform, which came to run."""
    await traced.platform.namespace("first")
    await traced.platform.running(await traced.service("first", "chat", UNLISTED))
    return await traced.trace("chat", lambda trace: trace.services >= ALL)


@pytest.mark.spec("FW-570", "FW-571")
async def test_the_trace_of_a_deployment_is_one_whole_tree(first: Trace) -> None:
    (root,) = first.roots
    assert (root.name, root.kind, root.attributes["k8s.namespace.name"]) == ("apply AIMService", "PRODUCER", "first")
    assert first.orphans == []
    assert first.repeated == []
    assert first.services == ALL


@pytest.mark.spec("FW-573")
async def test_each_hop_over_the_bus_leads_to_a_pass(first: Trace) -> None:
    (root,) = first.roots
    hops = [span for span in first.children(root) if span.name == "process aim.state.aimservices"]
    assert {span.service for span in hops} == {"aim-serving", "aim-routing"}
    for hop in hops:
        assert (hop.kind, hop.attributes["messaging.system"]) == ("CONSUMER", "nats")
        # The version bears the time of its publication in whole milliseconds.
        assert root.began - 1_000_000 <= hop.began <= hop.ended
        assert [child.name for child in first.children(hop)] in (["reconcile service"], ["reconcile routing"])


@pytest.mark.spec("FW-574", "FW-575")
async def test_passes_hold_requests_and_effects_and_follow_upon_waits(first: Trace) -> None:
    by_id = {span.id: span for span in first.spans}
    passes = {span.name for span in first.spans if span.name.startswith("reconcile ")}
    writes = [span for span in first.spans if span.kind == "CLIENT" and span.attributes["http.request.method"] != "GET"]
    effects = [span for span in first.spans if span.name == "effect job-log"]
    waits = [span for span in first.spans if span.name == "wait"]

    kinds = ("service", "routing", "model", "service-template", "template-cache", "artifact")
    assert passes == {f"reconcile {kind}" for kind in kinds}
    assert {"create jobs.batch", "apply httproutes.gateway.networking.k8s.io"} <= {span.name for span in writes}
    # The account of downloads is made where the API server has none, which only an effect knows.
    assert {by_id[span.parent].name for span in writes} <= passes | {"effect download-account"}
    assert {by_id[span.parent].name for span in effects} == {"reconcile service-template"}
    # None, where news came before each time that a pass had asked for.
    assert {child.name.partition(" ")[0] for span in waits for child in first.children(span)} <= {"reconcile"}


@pytest.mark.spec("FW-575")
async def test_who_waits_for_the_cache_of_another_names_the_trace_of_that(traced: Traced) -> None:
    await traced.platform.namespace("shared")
    paths = [await traced.service("shared", name) for name in ("one", "other")]
    for path in paths:
        await traced.platform.running(path)

    traces = [await traced.trace(name, lambda trace: "aim-routing" in trace.services) for name in ("one", "other")]
    (owner,) = [trace for trace in traces if "aim-artifacts" in trace.services]
    (guest,) = [trace for trace in traces if trace is not owner]

    links = {link for span in guest.spans for link in span.links}
    assert owner.roots[0].trace in links


@pytest.mark.spec("FW-571")
async def test_who_names_a_trace_has_its_root(traced: Traced) -> None:
    exported = InMemorySpanExporter()
    with tracing.exporting("demo", SimpleSpanProcessor(exported)):
        trace_id = await traced.platform.apply([demo_files()[-1]])
    await traced.platform.running(f"{OWN}/namespaces/demo/aimservices/qwen-chat")

    (root,) = exported.get_finished_spans()
    reported = f"{root.context.trace_id:032x}", f"{root.context.span_id:016x}"

    def is_whole() -> bool:
        """But for the root, which went elsewhere."""
        trace = traced.collector.trace(trace_id)
        return not trace.roots and {(one.trace, one.parent) for one in trace.orphans} == {reported}

    await eventually(is_whole, "all spans lead to the root")


@pytest.mark.spec("FW-576")
@pytest.mark.usefixtures("first")
async def test_nothing_but_what_happens_to_objects_is_a_span(traced: Traced) -> None:
    async with aiohttp.ClientSession() as session:
        for name in SERVICES:
            async with session.get(traced.platform.stack[name].url + "/readyz") as answer:
                assert answer.status == 200
    spans = traced.collector.spans
    assert {span.name.partition(" ")[0] for span in spans if span.kind != "CLIENT"} <= WORDS
    assert not [span for span in spans if span.kind == "CLIENT" and ("leases" in span.name or not span.parent)]
    assert not [trace for trace in traced.collector.traces() if len(trace.roots) > 1]
