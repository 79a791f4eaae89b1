"""Spans continue the trace they are given, logs name it, metrics show what was counted."""

import contextvars
import json
from collections.abc import Iterator

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from controller_runtime import JsonObject, Total
from controller_runtime.log.wire.messages import trace_of
from controller_runtime.manager.troubles import StartError, leaves, report
from controller_runtime.telemetry import logs, tracing
from controller_runtime.telemetry.metrics import Metrics

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What this process exports."""
    exported = InMemorySpanExporter()
    with tracing.exporting("tiny", SimpleSpanProcessor(exported)):
        yield exported


@pytest.mark.spec("FW-570", "FW-572")
def test_a_span_continues_the_trace_and_names_its_service(spans: InMemorySpanExporter) -> None:
    with tracing.span("reconcile tiny", PARENT):
        stamped = tracing.current_traceparent()
    (reported,) = spans.get_finished_spans()
    assert reported.resource.attributes["service.name"] == "aim-tiny"
    assert reported.parent is not None
    assert trace.format_span_id(reported.parent.span_id) == "b7ad6b7169203331"
    assert stamped == f"00-{TRACE}-{trace.format_span_id(reported.context.span_id)}-01"


@pytest.mark.spec("FW-572")
@pytest.mark.parametrize("flags", ["00", "02"])
def test_a_trace_that_is_not_sampled_goes_on_unchanged(spans: InMemorySpanExporter, flags: str) -> None:
    parent = f"{PARENT[:-2]}{flags}"
    with tracing.span("reconcile tiny", parent):
        stamped = tracing.current_traceparent()
        tracing.request_ended("apply tinies", "PATCH", "/apis", 200, 0.1)
    assert tracing.past("wait", parent, 0.0) == parent
    tracing.root_span("apply Tiny", parent, 0.0, {})
    assert stamped == f"{PARENT[:-2]}00"
    assert spans.get_finished_spans() == ()


@pytest.mark.spec("FW-572")
def test_without_a_collector_the_context_goes_on_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    with tracing.exporting("tiny"), tracing.span("reconcile tiny", PARENT):
        assert tracing.current_traceparent() == PARENT
        assert tracing.current_ids() is None


@pytest.mark.spec("FW-572")
def test_a_share_of_the_traces_is_sampled_and_everybody_picks_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
    objects: list[JsonObject] = [{"metadata": {"uid": f"u{number}", "generation": 1}} for number in range(2000)]
    picked = []
    for service in ("tiny", "other"):
        with tracing.exporting(service, SimpleSpanProcessor(InMemorySpanExporter())):
            picked.append([trace_of(obj).endswith("-01") for obj in objects])
    assert picked[0] == picked[1]
    assert 420 < sum(picked[0]) < 580


@pytest.mark.spec("FW-571")
def test_the_root_has_the_ids_that_follow_from_the_object(spans: InMemorySpanExporter) -> None:
    reported = trace_of({"metadata": {"uid": "u1", "generation": 1}})
    tracing.root_span("apply Tiny", reported, 12.5, {"k8s.object.kind": "Tiny"})
    with tracing.span("reconcile tiny", reported):
        pass
    root, child = spans.get_finished_spans()
    assert root.parent is None
    assert root.start_time == 12_500_000_000
    assert child.parent is not None
    assert child.parent.span_id == root.context.span_id
    assert (root.context.trace_id, trace.format_trace_id(root.context.trace_id)) == (
        child.context.trace_id,
        reported.split("-")[1],
    )


@pytest.mark.spec("FW-574")
@pytest.mark.parametrize(("code", "failed"), [(200, None), (409, "HTTP 409"), (0, "no answer")])
def test_a_request_is_a_span_of_whoever_makes_it(spans: InMemorySpanExporter, code: int, failed: str | None) -> None:
    tracing.request_ended("watch tinies", "GET", "/apis", code, 0.1)
    with tracing.span("reconcile tiny", PARENT):
        tracing.request_ended("apply tinies", "PATCH", "/apis/tinies", code, 0.25)
        later = contextvars.copy_context()
    # As of a task that a pass has left behind.
    later.run(tracing.request_ended, "get tinies", "GET", "/apis/tinies", 200, 0.1)
    request, pass_ = spans.get_finished_spans()
    assert request.parent is not None
    assert request.parent.span_id == pass_.context.span_id
    assert (request.status.description, dict(request.attributes or {})["http.response.status_code"]) == (failed, code)
    assert request.end_time is not None
    assert request.start_time is not None
    assert 0.2e9 < request.end_time - request.start_time < 10e9


@pytest.mark.spec("FW-128")
def test_a_log_line_is_json_with_the_ids_of_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    usual = structlog.get_config()
    logs.configure_logs("info", "json", "tiny")
    try:
        with tracing.span("reconcile tiny", PARENT):
            structlog.get_logger().info("hello", name="qwen")
        structlog.get_logger().info("outside")
        structlog.get_logger().debug("too much")
    finally:
        structlog.configure(**usual)
        structlog.contextvars.clear_contextvars()
    inside, outside = map(json.loads, capsys.readouterr().err.splitlines())
    assert (inside["message"], inside["trace_id"], inside["service"]) == ("hello", TRACE, "tiny")
    assert "trace_id" not in outside


@pytest.mark.spec("FW-273", "FW-280", "FW-128")
@pytest.mark.parametrize(
    ("least", "reported"), [("dpanic", []), ("error", ["failed"]), ("info", ["hello", "odd", "failed"])]
)  # fmt: skip
def test_lines_from_a_severity_on_tell_where_they_were_written(
    capsys: pytest.CaptureFixture[str], least: logs.StackLevel, reported: list[str]
) -> None:
    usual = structlog.get_config()
    logs.configure_logs("info", "json", "tiny", least)
    try:
        log = structlog.get_logger()
        log.info("hello")
        log.warning("odd")
        log.error("failed")
    finally:
        structlog.configure(**usual)
        structlog.contextvars.clear_contextvars()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in lines] == ["hello", "odd", "failed"]
    with_stack = [line for line in lines if "stack" in line]
    assert [line["message"] for line in with_stack] == reported
    assert all(__name__.rpartition(".")[2] in line["stack"].splitlines()[-2] for line in with_stack)


@pytest.mark.spec("FW-284")
def test_names_decide_what_a_reading_is() -> None:
    metrics = Metrics("https://api:6443")
    metrics.watch(
        lambda: {
            "workqueue_adds_total": [({"name": "tiny"}, 3.0)],
            "workqueue_depth": [({"name": "tiny"}, 1.0)],
            "workqueue_queue_duration_seconds": [({"name": "tiny"}, Total(2, 0.5))],
        },
        ["tiny"],
    )
    metrics.on_request("apply", "aimmodels", 200, 0.1)
    metrics.on_request("list", "aimmodels", 0, 0.1)
    page = metrics.page().decode()
    for line in (
        "# TYPE workqueue_adds_total counter",
        'workqueue_adds_total{name="tiny"} 3.0',
        "# TYPE workqueue_depth gauge",
        'workqueue_queue_duration_seconds_count{name="tiny"} 2.0',
        'workqueue_queue_duration_seconds_sum{name="tiny"} 0.5',
        'controller_runtime_reconcile_total{controller="tiny",result="requeue_after"} 0.0',
        'rest_client_requests_total{code="200",host="api:6443",method="PATCH"} 1.0',
        'rest_client_requests_total{code="<error>",host="api:6443",method="GET"} 1.0',
    ):
        assert line in page.splitlines()


@pytest.mark.spec("FW-578")
def test_the_duration_of_a_pass_names_its_trace_to_those_who_read_openmetrics(spans: InMemorySpanExporter) -> None:
    metrics = Metrics("https://api:6443")
    metrics.watch(
        lambda: {"workqueue_depth": [({"name": "tiny"}, 1.0)], "workqueue_seconds": [({"name": "tiny"}, Total(2, 0.5))]}
    )
    with tracing.span("reconcile tiny", PARENT):
        exemplar = tracing.current_ids()
    metrics.on_pass("tiny", "success", 0.02, exemplar)
    metrics.on_pass("tiny", "success", 3.0, None)
    asked = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5"
    page, content_type = metrics.page_for(asked)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    (reported,) = spans.get_finished_spans()
    exemplars = [line.partition(" # ")[::2] for line in page.decode().splitlines() if " # {" in line]
    ((bucket, named),) = exemplars
    assert bucket == 'controller_runtime_reconcile_time_seconds_bucket{controller="tiny",le="0.025"} 1.0'
    assert f'trace_id="{TRACE}"' in named
    assert f'span_id="{trace.format_span_id(reported.context.span_id)}"' in named
    assert page.endswith(b"# EOF\n")
    plain, content_type = metrics.page_for("*/*")
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert TRACE not in plain.decode()


@pytest.mark.spec("FW-282")
def test_silence_lasts_until_the_first_answer() -> None:
    now = 0.0
    metrics = Metrics(clock=lambda: now)
    metrics.on_request("get", "leases", 0, 0.1)
    now = 12.0
    metrics.on_request("get", "leases", 0, 0.1)
    assert metrics.unanswered_seconds == 12.0
    metrics.on_request("get", "leases", 503, 0.1)
    assert metrics.unanswered_seconds == 0.0


def test_expected_failures_are_reported_once_and_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    usual = structlog.get_config()
    logs.configure_logs("info", "json", "tiny")
    try:
        nested = ExceptionGroup("", [StartError("port taken"), ExceptionGroup("", [StartError("port taken")])])
        assert len(list(leaves(nested))) == 2
        report(nested, "service stops because of an error")
        report(ZeroDivisionError("a bug"), "service stops because of an error")
    finally:
        structlog.configure(**usual)
        structlog.contextvars.clear_contextvars()
    expected, bug = map(json.loads, capsys.readouterr().err.splitlines())
    assert (expected["error"], "exception" in expected) == ("port taken", False)
    assert "ZeroDivisionError" in bug["exception"]
