"""Errors as values: what went wrong, of which kind, said so that a person can act on it (FW-040, FW-041)."""

from dataclasses import dataclass, field
from enum import StrEnum


class Category(StrEnum):
    """Categories of FW-040; the value is the display name."""

    INFRASTRUCTURE = "Infrastructure"
    AUTH = "Auth"
    MISSING_DOWNSTREAM = "MissingDependency"
    MISSING_UPSTREAM = "MissingReference"
    INVALID_SPEC = "InvalidSpec"
    RESOURCE_EXHAUSTION = "ResourceExhaustion"
    UNKNOWN = "Unknown"


BLOCKING_CATEGORIES: frozenset[Category] = frozenset(
    {
        Category.AUTH,
        Category.INVALID_SPEC,
        Category.MISSING_UPSTREAM,
        Category.INFRASTRUCTURE,
        Category.UNKNOWN,
    }
)
"""Categories that block deletes and applies when they stand on an input of the pass (FW-090)."""

RETRIED_CATEGORIES: frozenset[Category] = frozenset({Category.INFRASTRUCTURE, Category.UNKNOWN})
"""Categories that are retried with backoff (FW-094); the others wait for an event (FW-095)."""


@dataclass(frozen=True, slots=True)
class ClassifiedError:
    """A classified error (FW-041).

    Attributes:
        category: decides state, blocking and retry.
        reason: a condition reason (FW-107).
        message: names the object, the cause and what to do; never a secret.
        retry_after: seconds that the refusing server asks to wait; no part of the error's identity.
    """

    category: Category
    reason: str
    message: str
    retry_after: float | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason
