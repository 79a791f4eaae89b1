"""A pass as spans: whose child it is, what it names, and how long the way there was."""

import time
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.cache_objects import entry_of, widget, widgets

from controller_runtime import Resource
from controller_runtime.log.wire.version import Change, Entry
from controller_runtime.reconcile.record import Origin, Wait, pass_span, waits_from_now
from controller_runtime.telemetry import tracing

OWN = f"00-{'a' * 32}-{'1' * 16}-01"
SAME_TRACE = f"00-{'a' * 32}-{'2' * 16}-01"
OTHER_TRACE = f"00-{'b' * 32}-{'3' * 16}-01"
UNSAMPLED = f"00-{'c' * 32}-{'4' * 16}-00"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exported = InMemorySpanExporter()
    with tracing.exporting("tiny", SimpleSpanProcessor(exported)):
        yield exported


def entry(traceparent: str | None = OWN, published: float = 0.0) -> Entry[Resource]:
    part = widgets()
    found = entry_of(part, widget("a"), 1)
    return Entry(part, found.key, found.body, found.version, traceparent, published=published)


def parent(span: ReadableSpan) -> str:
    assert span.parent is not None
    return trace.format_span_id(span.parent.span_id)


def own_id(span: ReadableSpan) -> str:
    return trace.format_span_id(span.context.span_id)


@pytest.mark.spec("FW-573")
@pytest.mark.parametrize(("cause", "before", "links"), [(SAME_TRACE, "2" * 16, 0), (OTHER_TRACE, "1" * 16, 1)])
def test_the_way_of_the_change_lies_between_it_and_the_pass(
    spans: InMemorySpanExporter, cause: str, before: str, links: int
) -> None:
    published = time.time() - 2
    with pass_span("tiny", entry(), [Origin("Widget ns/b changed", "widgets", cause, published)], None):
        pass
    hop, pass_ = spans.get_finished_spans()
    assert (hop.name, pass_.name) == ("process aim.state.widgets", "reconcile tiny")
    assert (parent(hop), parent(pass_), len(hop.links)) == (before, own_id(hop), links)
    assert hop.start_time == int(published * 1e9)
    assert hop.end_time is not None
    assert pass_.start_time is not None
    assert hop.start_time < hop.end_time <= pass_.start_time


@pytest.mark.spec("FW-573", "FW-575")
def test_further_changes_of_other_traces_are_links_of_the_pass(spans: InMemorySpanExporter) -> None:
    others = [Origin("x", "widgets", OTHER_TRACE, 0.0)] * 3
    with pass_span("tiny", entry(), [Origin("x", "widgets", SAME_TRACE, 0.0), *others], None):
        pass
    (pass_,) = spans.get_finished_spans()
    assert parent(pass_) == "2" * 16, "an own write has no way over the bus"
    assert [trace.format_trace_id(link.context.trace_id) for link in pass_.links] == ["b" * 32]


@pytest.mark.spec("FW-575")
def test_a_wait_that_nothing_ended_before_is_a_span(spans: InMemorySpanExporter) -> None:
    wait = waits_from_now("retry after NotFound")
    assert wait is not None
    with pass_span("tiny", entry(), [], wait):
        pass
    with pass_span("tiny", entry(), [Origin("x", "widgets", SAME_TRACE, 0.0)], Wait("retry", 0.0)):
        pass
    waited, after, woken = spans.get_finished_spans()
    assert (waited.name, parent(waited), parent(after)) == ("wait", "1" * 16, own_id(waited))
    assert dict(waited.attributes or {}) == {"aim.wait.for": "retry after NotFound"}
    assert (woken.name, parent(woken)) == ("reconcile tiny", "2" * 16)


@pytest.mark.spec("FW-572")
@pytest.mark.parametrize("traceparent", [UNSAMPLED, None])
def test_the_pass_of_an_object_without_an_exported_trace_is_no_span(
    spans: InMemorySpanExporter, traceparent: str | None
) -> None:
    with pass_span("tiny", entry(traceparent), [Origin("x", "widgets", OTHER_TRACE, 1.0)], Wait("retry", 0.0)):
        assert tracing.current_traceparent() == traceparent
    assert spans.get_finished_spans() == ()


@pytest.mark.spec("FW-572", "FW-573")
def test_a_change_is_remembered_only_where_its_trace_is_exported(spans: InMemorySpanExporter) -> None:
    def origin(old: Entry[Resource] | None, new: Entry[Resource] | None) -> Origin | None:
        return Origin.of(Change(widgets(), entry().key, old, new), "what")

    assert origin(None, entry(OWN, 12.0)) == Origin("what", "widgets", OWN, 12.0)
    assert origin(entry(OWN, 12.0), None) == Origin("what", "widgets", OWN, 0.0)
    assert origin(None, entry(UNSAMPLED, 12.0)) is None
    assert origin(None, entry(None)) is None
    assert origin(None, None) is None


def test_without_a_collector_nothing_is_remembered() -> None:
    assert waits_from_now("retry") is None
    assert Origin.of(Change(widgets(), entry().key, None, entry()), "what") is None
