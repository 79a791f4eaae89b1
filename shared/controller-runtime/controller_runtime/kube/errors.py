"""What can go wrong between us and the API server, as values that tell all that a classification needs."""

import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, final

from controller_runtime.backoff import bounded
from controller_runtime.json import JsonObject, loads
from controller_runtime.texts import shortened


class KubeError(Exception):
    """Base of every failure of a call to the API server."""


class StatusReason(StrEnum):
    """The ``reason`` values of ``metav1.Status`` that decisions depend on."""

    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    ALREADY_EXISTS = "AlreadyExists"
    CONFLICT = "Conflict"
    GONE = "Gone"
    EXPIRED = "Expired"
    INVALID = "Invalid"
    TIMEOUT = "Timeout"
    TOO_MANY_REQUESTS = "TooManyRequests"


@final
@dataclass(frozen=True, slots=True)
class StatusCause:
    """One entry of ``details.causes`` of a Status."""

    reason: str
    message: str
    field: str


_NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
_DEFINITION_TERMINATING: Final = "while custom resource definition is terminating"
_QUOTA: Final = "exceeded quota: "
_FORBIDDEN: Final = " is forbidden: "
_DENIED: Final = (("admission webhook ", " denied the request"), ("ValidatingAdmissionPolicy ", " denied request"))
"""How admission words what a webhook or a policy refuses, whose author chooses the code."""
_MISSING_PERMISSION: Final = re.compile(r"cannot \S+ (resource|path) \"")
"""How the API server words what its authorizers refuse; what admission refuses is worded by the plugin."""
_VERSION_TOO_LARGE: Final = "ResourceVersionTooLarge"
_TYPED_PATCH: Final = "failed to create typed patch object"


@final
class ApiError(KubeError):
    """The API server answered with an error (FW-044 classifies it).

    Attributes:
        request: what was asked, such as ``PATCH /apis/…/deployments/web``.
        code: HTTP status code, or that of the Status inside a watch.
        reason: machine-readable reason; empty when the body was no Status.
        message: the server's words.
        causes: ``details.causes``.
        has_details: whether the Status carried ``details``; that of a failed JSON patch ``test`` has none.
        retry_after: seconds the server asked us to wait, if it did; at most `LONGEST_ANNOUNCED`.
    """

    def __init__(
        self,
        request: str,
        code: int,
        reason: str = "",
        message: str = "",
        *,
        causes: tuple[StatusCause, ...] = (),
        has_details: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{request}: {code} {reason or 'error'}: {message}")
        self.request = request
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.has_details = has_details
        self.retry_after = retry_after

    @property
    def is_not_found(self) -> bool:
        """The object (or the kind itself) does not exist."""
        return self.code == 404

    @property
    def is_already_exists(self) -> bool:
        """A create found the name taken."""
        return self.code == 409 and self.reason == StatusReason.ALREADY_EXISTS

    @property
    def is_conflict(self) -> bool:
        """A precondition (resourceVersion, UID, field ownership) did not hold."""
        return self.code == 409 and not self.is_already_exists

    @property
    def is_expired(self) -> bool:
        """The resourceVersion or continue token is too old: list again."""
        return self.code == 410 or self.reason in {StatusReason.EXPIRED, StatusReason.GONE}

    @property
    def is_version_too_large(self) -> bool:
        """The asked resourceVersion lies ahead of the server: its cache lags, or its store was restored."""
        return any(cause.reason == _VERSION_TOO_LARGE for cause in self.causes) or (
            self.code == 504 and "Too large resource version" in self.message
        )

    @property
    def is_namespace_terminating(self) -> bool:
        """A create into a namespace that is being deleted; ends the pass quietly (FW-044)."""
        return self.code == 403 and any(cause.reason == _NAMESPACE_TERMINATING for cause in self.causes)

    @property
    def is_definition_terminating(self) -> bool:
        """A create of a kind whose definition is being deleted (FW-044)."""
        return self.code == 403 and _DEFINITION_TERMINATING in self.message

    @property
    def is_quota_exceeded(self) -> bool:
        """A ResourceQuota has no room for the object (FW-044)."""
        return self.code == 403 and _QUOTA in self.message

    @property
    def is_admission_denial(self) -> bool:
        """A webhook, a policy or a LimitRange refuses the object, which is not a lack of permission (FW-044)."""
        if 400 <= self.code < 500 and any(all(word in self.message for word in words) for words in _DENIED):
            return True
        if self.code != 403 or self.is_quota_exceeded or self.is_definition_terminating:
            return False
        return _FORBIDDEN in self.message and not _MISSING_PERMISSION.search(self.message)

    @property
    def is_typed_patch_failure(self) -> bool:
        """Server-side apply's way of reporting a schema error: a 500 that no retry can cure (FW-044)."""
        return self.code == 500 and _TYPED_PATCH in self.message

    @property
    def is_failed_json_patch_test(self) -> bool:
        """A 422 without details: a JSON patch whose ``test`` did not hold (FW-044)."""
        return self.code == 422 and not self.has_details

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed a moment later."""
        if self.is_typed_patch_failure or self.is_version_too_large:
            return False
        return self.code == 429 or self.code >= 500


class ConnectionFailure(Enum):
    """How a connection failed (FW-045 maps these to reasons)."""

    REFUSED = "connection refused"
    TIMEOUT = "timed out"
    RESET = "connection reset"
    DNS = "host name not resolved"
    OTHER = "connection failed"


@final
class ApiConnectionError(KubeError):
    """No answer from the API server; the original exception is ``__cause__``.

    Attributes:
        request: what was asked.
        failure: how the connection failed.
        host: host and port we tried to reach.
        operation: ``dial`` before a connection stood, else ``exchange``.
    """

    def __init__(self, request: str, failure: ConnectionFailure, host: str, operation: str, detail: str) -> None:
        super().__init__(f"{request}: {failure.value} ({operation} {host}): {detail}; check that it is reachable")
        self.request = request
        self.failure = failure
        self.host = host
        self.operation = operation


MOST_WORDS: Final = 4_096
"""Characters of what a server says that are kept: it may quote a whole object, and goes into conditions and records."""


def api_error(request: str, code: int, body: bytes, retry_after_header: str | None = None) -> ApiError:
    """Build the error from an HTTP error response, whose body is a Status or, from a proxy, anything."""
    try:
        status = loads(body)
    except ValueError:
        status = {"message": body[:500].decode(errors="replace").strip() or "no explanation in the response"}
    return status_error(request, status, code=code, retry_after_header=retry_after_header)


def status_error(
    request: str, status: JsonObject, *, code: int | None = None, retry_after_header: str | None = None
) -> ApiError:
    """Build the error from a decoded ``metav1.Status``, as found in bodies and in ERROR events of a watch."""
    details = status.get("details") or {}
    return ApiError(
        request,
        code or int(status.get("code") or 500),
        str(status.get("reason") or ""),
        shortened(str(status.get("message") or ""), MOST_WORDS),
        causes=tuple(
            StatusCause(str(c.get("reason", "")), str(c.get("message", "")), str(c.get("field", "")))
            for c in details.get("causes") or ()
        ),
        has_details=bool(details),
        retry_after=_seconds(retry_after_header) or _seconds(details.get("retryAfterSeconds")),
    )


def _seconds(value: object) -> float | None:
    # Retry-After may also be an HTTP date; API servers send seconds, anything else means "no advice".
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    return bounded(seconds) if seconds > 0 else None
