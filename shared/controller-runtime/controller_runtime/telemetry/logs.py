"""Structured logs: one JSON line per event, with trace and span ids when there are any (FW-128, FW-129)."""

import logging
import sys
from typing import Literal, TypeAlias

import structlog
from opentelemetry import trace
from structlog.typing import EventDict, Processor

LogFormat: TypeAlias = Literal["json", "console"]
"""Values of the setting log_format."""

LogLevel: TypeAlias = Literal["debug", "info", "error"]
"""Values of the setting log_level."""

StackLevel: TypeAlias = Literal["debug", "info", "error", "dpanic", "panic", "fatal"]
"""Values of the setting log_stacktrace_level; the last three are severities that nothing here is logged with."""


def add_trace_ids(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Add ``trace_id`` and ``span_id`` of the current span."""
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
        event["span_id"] = trace.format_span_id(context.span_id)
    return event


def with_stack(level: StackLevel) -> Processor:
    """What adds to each line of a level, or a graver one, where it was written."""
    threshold = logging.getLevelNamesMapping().get(level.upper(), logging.CRITICAL + 1)

    def ask(_logger: object, _method: str, event: EventDict) -> EventDict:
        if logging.getLevelNamesMapping()[event["level"].upper()] >= threshold:
            event["stack_info"] = True
        return event

    return ask


def configure_logs(level: LogLevel, log_format: LogFormat, service: str, stacks_from: StackLevel = "dpanic") -> None:
    """Set up structlog and route the standard library's loggers into it. Call once per process."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
        add_trace_ids,
        structlog.processors.format_exc_info,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            *shared,
            with_stack(stacks_from),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.EventRenamer("message"),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(service=service)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.processors.EventRenamer("message")],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(threshold, logging.WARNING), force=True)
