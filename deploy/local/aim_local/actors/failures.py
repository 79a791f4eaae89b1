"""Failures on demand: what an annotation makes go wrong, and what it then looks like.

The annotation `local.aim/fail` on an object, on the Job or InferenceService above a Pod, or on the namespace holds
failures, separated by commas, each optionally limited to a role and with an argument: `crash`,
`download=auth, predictor=oom`, `crash:3`, `route:NotAllowedByListeners`. What the container then prints can be given in
`local.aim/fail-log` beside it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from aim_local.actors.objects import LOCAL_PREFIX
from controller_runtime import dumps

FAIL_ANNOTATION: Final = LOCAL_PREFIX + "fail"
LOG_ANNOTATION: Final = LOCAL_PREFIX + "fail-log"


class Role(StrEnum):
    """What a pod is for."""

    DISCOVERY = "discovery"
    DOWNLOAD = "download"
    CHECK_SIZE = "check-size"
    PREDICTOR = "predictor"
    OTHER = "other"


class Failure(StrEnum):
    """Names of failures."""

    IMAGE_PULL = "image-pull"
    IMAGE_AUTH = "image-auth"
    IMAGE_RATE_LIMIT = "image-rate-limit"
    UNSCHEDULABLE = "unschedulable"
    OOM = "oom"
    CRASH = "crash"
    EVICTED = "evicted"
    HANG = "hang"
    NOT_READY = "not-ready"
    SLOW_START = "slow-start"
    AUTH = "auth"
    NOT_FOUND = "not-found"
    STORAGE_FULL = "storage-full"
    DOWNLOAD = "download"
    PVC = "pvc"
    ROUTE = "route"
    GATEWAY = "gateway"
    GATEWAY_MISSING = "gateway-missing"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a container ends.

    Attributes:
        code: exit code.
        reason: reason of the terminated state; empty gives `Completed` or `Error`.
        log: what it printed.
        message: its termination message.
    """

    code: int = 0
    reason: str = ""
    log: str = ""
    message: str = ""


def _report(category: str, message: str) -> str:
    return dumps({"category": category, "message": message}).decode()


_GATED: Final = "401 Client Error: Unauthorized; access to model is restricted"
_MISSING: Final = "404 Client Error: Repository Not Found"
_FULL: Final = "No space left on device"

ENDINGS: Final[Mapping[Failure, Ending]] = MappingProxyType(
    {
        Failure.OOM: Ending(137, "OOMKilled"),
        Failure.CRASH: Ending(1, log="RuntimeError: engine core initialization failed\n"),
        Failure.AUTH: Ending(10, log=f"{_GATED}\n", message=_report("Auth", _GATED)),
        Failure.NOT_FOUND: Ending(11, log=f"{_MISSING}\n", message=_report("SourceNotFound", _MISSING)),
        Failure.STORAGE_FULL: Ending(12, log=f"OSError: {_FULL}\n", message=_report("StorageFull", _FULL)),
        Failure.DOWNLOAD: Ending(15, message=_report("DownloadFailed", "all protocols failed")),
    }
)
"""Failures in which a container runs and ends, with the exit codes of AR-764."""


ELSEWHERE: Final = frozenset({Failure.PVC, Failure.ROUTE, Failure.GATEWAY, Failure.GATEWAY_MISSING, Failure.METRICS})
"""Failures of other objects than pods."""
POD_FAILURES: Final = frozenset(Failure) - ELSEWHERE


@dataclass(frozen=True, slots=True)
class Wanted:
    """A failure that was asked for.

    Attributes:
        failure: which.
        argument: an exit code, seconds or a reason, as the failure takes it; empty for the usual one.
        log: what the container prints; empty for the usual text.
        message: its termination message; empty for the usual one.
    """

    failure: Failure
    argument: str = ""
    log: str = ""
    message: str = ""

    @property
    def ending(self) -> Ending | None:
        """How the container ends; None if it never gets that far or never ends."""
        usual = ENDINGS.get(self.failure)
        if usual is None:
            return None
        code = int(self.argument) if self.argument.isdecimal() else usual.code
        log = f"{self.log}\n" if self.log else usual.log
        return Ending(code, usual.reason, log, self.message or usual.message)

    def seconds(self, usual: float) -> float:
        """The argument as a duration."""
        try:
            return float(self.argument)
        except ValueError:
            return usual


def failure_for(annotation: str, role: Role, among: Collection[Failure] = POD_FAILURES) -> Wanted | None:
    """The first failure in an annotation's value that concerns the role; unknown names are ignored."""
    for entry in annotation.split(","):
        limit, _, rest = entry.strip().rpartition("=")
        name, _, argument = rest.strip().partition(":")
        if limit.strip() in ("", role) and name in among:
            return Wanted(Failure(name), argument)
    return None
