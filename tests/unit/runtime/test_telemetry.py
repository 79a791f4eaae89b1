"""Spans continue the trace they are given, logs name it, metrics show what was counted."""

import json

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from controller_runtime import Total
from controller_runtime.manager.failure import StartError, leaves, report
from controller_runtime.telemetry import logs, tracing
from controller_runtime.telemetry.metrics import Metrics

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture(scope="module", autouse=True)
def _tracing() -> None:
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        tracing.configure("tiny")


def test_a_span_continues_the_trace_and_names_its_service() -> None:
    with tracing.span("reconcile tiny", PARENT) as current:
        assert trace.format_trace_id(current.get_span_context().trace_id) == TRACE
        stamped = tracing.current_traceparent()
        assert stamped is not None
        assert stamped.split("-")[1] == TRACE
        assert stamped != PARENT
    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    assert str(provider.resource.attributes["service.name"]).startswith("aim-")


@pytest.mark.spec("FW-128")
def test_a_log_line_is_json_with_the_ids_of_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    usual = structlog.get_config()
    logs.configure("info", "json", "tiny")
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
    ("least", "told"), [("dpanic", []), ("error", ["failed"]), ("info", ["hello", "odd", "failed"])]
)  # fmt: skip
def test_lines_from_a_severity_on_tell_where_they_were_written(
    capsys: pytest.CaptureFixture[str], least: logs.StackLevel, told: list[str]
) -> None:
    usual = structlog.get_config()
    logs.configure("info", "json", "tiny", least)
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
    assert [line["message"] for line in with_stack] == told
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


def test_expected_failures_are_told_once_and_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    usual = structlog.get_config()
    logs.configure("info", "json", "tiny")
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
