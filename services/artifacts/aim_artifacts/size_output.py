"""What a check-size Job reports (AR-155…AR-159)."""

from typing import Final

from aim_artifacts.sizing import LARGEST_SOURCE
from controller_runtime import JsonObject, loads

OUTPUT_LINES: Final = 20
"""Last lines of the log among which the result is looked for (AR-156)."""


def find_size(termination_message: str, log_tail: str | None) -> int | None:
    """The accepted size in bytes; ``None`` when neither text holds one (AR-156, AR-157)."""
    report = _report(termination_message) or (None if log_tail is None else _report_in_log(log_tail))
    return None if report is None else _accepted(report["sizeBytes"])


def has_report(termination_message: str) -> bool:
    """Whether the termination message makes reading the log needless (AR-156)."""
    return _report(termination_message) is not None


def _report_in_log(tail: str) -> JsonObject | None:
    lines = tail.splitlines()[-OUTPUT_LINES:]
    return next((report for line in reversed(lines) if (report := _report(line)) is not None), None)


def _report(text: str) -> JsonObject | None:
    try:
        value = loads(text)
    except ValueError:
        return None
    return value if "sizeBytes" in value else None


def _accepted(size: object) -> int | None:
    # bool is an int to Python, but not a size.
    if not isinstance(size, int) or isinstance(size, bool):
        return None
    return size if 0 < size <= LARGEST_SOURCE else None
