"""API errors as the real server words them: metav1.Status with reason, code and details."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from controller_runtime import JsonObject
from embedded_apiserver.objects.errors import FieldError, causes, render
from embedded_apiserver.resources import ResourceType


class Reason(StrEnum):
    """The metav1.StatusReason values that this server uses."""

    BAD_REQUEST = "BadRequest"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    ALREADY_EXISTS = "AlreadyExists"
    CONFLICT = "Conflict"
    GONE = "Gone"
    EXPIRED = "Expired"
    INVALID = "Invalid"
    TIMEOUT = "Timeout"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType"
    NOT_ACCEPTABLE = "NotAcceptable"
    UNAUTHORIZED = "Unauthorized"
    TOO_MANY_REQUESTS = "TooManyRequests"
    SERVICE_UNAVAILABLE = "ServiceUnavailable"
    INTERNAL_ERROR = "InternalError"
    UNKNOWN = ""


class ApiError(Exception):
    """A request that fails with a metav1.Status."""

    def __init__(
        self,
        code: int,
        reason: Reason,
        message: str,
        details: JsonObject | None = None,
        metadata: JsonObject | None = None,
    ) -> None:
        super().__init__(message)
        self.metadata: Final = metadata or {}
        self.code: Final = code
        self.reason: Final = reason
        self.details: Final = details

    @property
    def retry_after(self) -> int:
        """Seconds after which the client may ask again; 0 if the server does not say."""
        return int((self.details or {}).get("retryAfterSeconds", 0))

    def body(self) -> JsonObject:
        """The Status object."""
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": str(self),
        }
        if self.reason:
            status["reason"] = str(self.reason)
        if self.details is not None:
            status["details"] = self.details
        return status | {"code": self.code}


def _details(resource: ResourceType, name: str, **more: object) -> JsonObject:
    details: JsonObject = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    return details | {"kind": resource.plural} | more


def no_such_subresource() -> ApiError:
    """A built-in resource has no such subresource."""
    return ApiError(404, Reason.NOT_FOUND, "the server could not find the requested resource", {})


class PathNotFoundError(Exception):
    """The path is none that the server serves; answered in plain text."""


def not_found(resource: ResourceType, name: str) -> ApiError:
    """No object of that name."""
    return ApiError(404, Reason.NOT_FOUND, f'{resource.qualified} "{name}" not found', _details(resource, name))


def already_exists(resource: ResourceType, name: str) -> ApiError:
    """A create of a name that is taken."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, Reason.ALREADY_EXISTS, message, _details(resource, name))


def invalid_options(kind: str, error: FieldError) -> ApiError:
    """A query parameter that can't be; `kind` is that of the options, such as `ListOptions`."""
    message = f'{kind}.meta.k8s.io "" is invalid: {error}'
    details = {"group": "meta.k8s.io", "kind": kind, "causes": [error.cause()]}
    return ApiError(422, Reason.INVALID, message, details)


def invalid_kind(kind: str, name: str, error: FieldError) -> ApiError:
    """Options of a subresource that can't be; `kind` is that of the options."""
    details = {"name": name, "kind": kind, "causes": [error.cause()]}
    return ApiError(422, Reason.INVALID, f'{kind} "{name}" is invalid: {error}', details)


MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: ResourceType, name: str, why: str = MODIFIED) -> ApiError:
    """A lost race or a failed precondition."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, Reason.CONFLICT, message, _details(resource, name))


def precondition_failed(resource: ResourceType, name: str, why: str) -> ApiError:
    """A deletion of another version or another object; the real server names the kind here, not the resource."""
    details: JsonObject = {"name": name} | ({"group": resource.group} if resource.group else {})
    message = f'Operation cannot be fulfilled on {resource.qualified_kind} "{name}": {why}'
    return ApiError(409, Reason.CONFLICT, message, details | {"kind": resource.kind})


def bad_request(message: str) -> ApiError:
    """A request that can't be understood."""
    return ApiError(400, Reason.BAD_REQUEST, message)


def internal(message: str) -> ApiError:
    """A failure that the real server reports as its own, without a reason."""
    return ApiError(500, Reason.UNKNOWN, message)


def method_not_allowed() -> ApiError:
    """The resource exists, the method does not."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, Reason.METHOD_NOT_ALLOWED, message, {})


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """A body in a format that the resource does not take."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiError(415, Reason.UNSUPPORTED_MEDIA_TYPE, message)


def not_acceptable() -> ApiError:
    """No form that the client takes."""
    message = "406: Not Acceptable\n\nAvailable representations: application/json"
    return ApiError(406, Reason.NOT_ACCEPTABLE, message, {})


def expired(message: str, *, continued: str = "") -> ApiError:
    """A resourceVersion or continue token older than the event window; `continued` is a token to go on with."""
    return ApiError(410, Reason.EXPIRED, message, metadata={"continue": continued} if continued else {})


def namespace_terminating(resource: ResourceType, name: str, namespace: str) -> ApiError:
    """A create in a namespace that is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return forbidden(resource, name, why, causes=[cause])


def forbidden(resource: ResourceType, name: str, why: str, **details: object) -> ApiError:
    """A request that the server's admission refuses."""
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return ApiError(403, Reason.FORBIDDEN, message, _details(resource, name, **details))


def invalid(resource: ResourceType, name: str, errors: Sequence[FieldError], *, named: str = "") -> ApiError:
    """An object that its schema, its rules or the server's own checks refuse; `named` replaces the kind."""
    details: JsonObject = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    kind = named or resource.kind
    details["kind"] = kind
    details["causes"] = causes(errors)
    qualified = f"{kind}.{resource.group}" if resource.group else kind
    message = f'{qualified} "{name}" is invalid: {render(errors)}'
    return ApiError(422, Reason.INVALID, message, details)
