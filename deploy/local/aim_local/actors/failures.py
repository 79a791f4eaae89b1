"""Failures on demand: what an annotation makes go wrong, and what it then looks like.

The annotation `local.aim/fail` on a Pod, on the Job or InferenceService above it, or on the namespace holds names of
failures, separated by commas, each optionally limited to a role: `crash`, `download=auth, predictor=oom`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from aim_local.actors.objects import LOCAL_PREFIX
from aim_shared.json import dumps

FAIL_ANNOTATION: Final = LOCAL_PREFIX + "fail"


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
    UNSCHEDULABLE = "unschedulable"
    OOM = "oom"
    CRASH = "crash"
    EVICTED = "evicted"
    HANG = "hang"
    NOT_READY = "not-ready"
    AUTH = "auth"
    NOT_FOUND = "not-found"
    STORAGE_FULL = "storage-full"
    DOWNLOAD = "download"
    PVC = "pvc"
    ROUTE = "route"


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


def failure_for(annotation: str, role: Role) -> Failure | None:
    """The first failure in an annotation's value that concerns the role; unknown names are ignored."""
    for entry in annotation.split(","):
        limit, _, name = entry.strip().rpartition("=")
        if limit.strip() in ("", role) and name.strip() in _NAMES:
            return Failure(name.strip())
    return None


_NAMES: Final = frozenset(Failure)


def no_such_image(image: str) -> str:
    """What the kubelet says when the registry does not have the image."""
    return f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": {image}: not found'


def no_access_to_image(image: str) -> str:
    """What the kubelet says when the registry wants other credentials."""
    return (
        f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": pull access denied, '
        "repository does not exist or may require authorization: authorization failed: no basic auth credentials"
    )
