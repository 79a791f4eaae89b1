"""Failed attempts of discovery: how they are remembered and when the next one is due (DI-291…DI-304)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

from aim_domain import DiscoveryState
from controller_runtime import Backoff, Category, ClassifiedError, JsonObject, timestamp

RESULT_UNREADABLE: Final = "ResultUnreadable"
INVALID_OUTPUT: Final = "InvalidDiscoveryOutput"

_BACKOFF: Final = Backoff(base=60, cap=3600)
_LONGEST_TEXT: Final = 1024
_NEVER: Final = datetime.max.replace(tzinfo=UTC)

_CATEGORIES: Final[Mapping[str, Category]] = MappingProxyType(
    {
        "ImagePullAuthFailure": Category.AUTH,
        "AuthError": Category.AUTH,
        "ImageNotFound": Category.MISSING_UPSTREAM,
        "PodOOMKilled": Category.RESOURCE_EXHAUSTION,
        "StorageFull": Category.RESOURCE_EXHAUSTION,
        "ImagePullBackOff": Category.INFRASTRUCTURE,
        "PodInfrastructureError": Category.INFRASTRUCTURE,
        "PodEvicted": Category.INFRASTRUCTURE,
        "JobEvicted": Category.INFRASTRUCTURE,
        RESULT_UNREADABLE: Category.INFRASTRUCTURE,
    }
)
"""Categories of recorded reasons; every other reason is an invalid spec (sections 13.1 and 13.4)."""


def backoff(attempts: int) -> timedelta:
    """Wait after that many failed attempts (DI-297)."""
    if attempts <= 0:
        return timedelta()
    return timedelta(seconds=_BACKOFF.nominal(attempts))


@dataclass(frozen=True, slots=True)
class Attempts:
    """``status.discovery`` as a value.

    Attributes:
        failed: number of failed attempts.
        last: creation time of the latest Job.
        failure: ``<Reason>: <text>`` of the last attempt; empty unless it failed.
        spec_hash: of the inputs that all this is about.
    """

    failed: int = 0
    last: datetime | None = None
    failure: str = ""
    spec_hash: str = ""

    @classmethod
    def of(cls, state: DiscoveryState | None) -> "Attempts":
        """What is stored."""
        if state is None:
            return cls()
        return cls(state.attempts or 0, state.last_attempt_time, state.last_failure_reason or "", state.spec_hash or "")

    def is_about(self, spec_hash: str) -> bool:
        """Whether it belongs to these inputs; what does not say so does (DI-218)."""
        return self.spec_hash in ("", spec_hash)

    def begun(self, created: datetime | None) -> "Attempts":
        """A new attempt was begun by a Job of that age (DI-292)."""
        return Attempts(self.failed, created, "", self.spec_hash)

    def failed_with(self, error: ClassifiedError, spec_hash: str, now: datetime) -> "Attempts":
        """The attempt has failed; counted once (DI-293, DI-296)."""
        before = self.failed if self.is_about(spec_hash) else 0
        return Attempts(before + 1, self.last or now, str(error)[:_LONGEST_TEXT], spec_hash)

    def succeeded(self, spec_hash: str) -> "Attempts":
        """Reduced to what a success leaves (DI-219)."""
        return Attempts(0, self.last, "", spec_hash)

    @property
    def error(self) -> ClassifiedError | None:
        """The recorded failure, classified again (DI-295)."""
        if not self.failure:
            return None
        reason, _, text = self.failure.partition(": ")
        return ClassifiedError(_CATEGORIES.get(reason, Category.INVALID_SPEC), reason, text or reason)

    def due(self, recorded: datetime | None) -> datetime | None:
        """When the next attempt may begin; ``None`` = at once.

        Args:
            recorded: when the failure was noted, which may be later than the Job (DI-298).
        """
        times = [moment for moment in (self.last, recorded) if moment is not None]
        if self.failed <= 0 or not times:
            return None
        try:
            return max(times) + backoff(self.failed)
        except OverflowError:
            # A status may hold any moment; beyond the last one there is none.
            return _NEVER

    def as_json(self) -> JsonObject | None:
        """For ``status.discovery``."""
        values: JsonObject = {
            "attempts": self.failed or None,
            "lastAttemptTime": None if self.last is None else timestamp(self.last),
            "lastFailureReason": self.failure or None,
            "specHash": self.spec_hash or None,
        }
        present = {name: value for name, value in values.items() if value is not None}
        return present or None
