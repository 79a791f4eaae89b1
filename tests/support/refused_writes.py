"""Plans of unit tests that are refused, each for what the user wrote, with the cause."""

from support.planned_writes import PlannedWrite

REFUSED: tuple[tuple[str, str], ...] = (
    # KServe's webhook wants a query and a value for each metric; the AIMService admits metrics without (SV-183).
    ("InferenceService", "the query should not be empty"),
    ("InferenceService", "the target threshold value should not be empty"),
)
"""Kind, and a part of the message."""


def is_expected(write: PlannedWrite, message: str) -> bool:
    """Whether a refusal is one of the table."""
    return any(write.body["kind"] == kind and part in message for kind, part in REFUSED)
