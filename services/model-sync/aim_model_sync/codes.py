"""What can be wrong with a selector, as stable codes (MS-261…MS-277)."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from aim_shared.registry.errors import RegistryErrorCode


class SyncCode(StrEnum):
    """Code of a selector's error; appears in condition messages and logs."""

    INVALID_SELECTOR = "InvalidSelector"
    INVALID_VERSION_CONSTRAINT = "InvalidVersionConstraint"
    WILDCARD_NAMESPACE_REQUIRED = "WildcardNamespaceRequired"
    WILDCARD_UNSUPPORTED = "WildcardUnsupported"
    MISSING_CREDENTIALS = "MissingCredentials"
    SECRET_INVALID = "SecretInvalid"  # noqa: S105 - a code, not a secret
    SECRET_ACCESS_FAILED = "SecretAccessFailed"  # noqa: S105 - a code, not a secret
    AUTH_FAILED = "AuthFailed"
    NOT_FOUND = "NotFound"
    RATE_LIMITED = "RateLimited"
    TIMEOUT = "Timeout"
    UNREACHABLE = "Unreachable"
    SERVER_ERROR = "ServerError"
    INVALID_RESPONSE = "InvalidResponse"
    TRUNCATED_RESULT = "TruncatedResult"
    NAME_COLLISION = "NameCollision"
    MODEL_CREATION_FAILED = "ModelCreationFailed"
    INTERNAL_ERROR = "InternalError"

    @property
    def is_transient(self) -> bool:
        """Whether trying again soon can help (column *Transient* of MS-261)."""
        return self in _TRANSIENT

    @property
    def is_configuration(self) -> bool:
        """Whether the spec is at fault (``ConfigValid=False``)."""
        return self in _CONFIGURATION

    @property
    def is_auth(self) -> bool:
        """Whether access was refused or could not be asked for (``AuthValid=False``)."""
        return self in _AUTH

    @property
    def is_outage(self) -> bool:
        """Whether the registry did not work (``RegistryReachable=False``)."""
        return self in _OUTAGE

    @property
    def lacks_credentials(self) -> bool:
        """Whether a usable pull secret could have prevented it (MS-165…MS-167)."""
        return self in (SyncCode.AUTH_FAILED, SyncCode.MISSING_CREDENTIALS)


_CONFIGURATION: Final = frozenset(
    {SyncCode.INVALID_SELECTOR, SyncCode.INVALID_VERSION_CONSTRAINT, SyncCode.WILDCARD_NAMESPACE_REQUIRED}
)
_AUTH: Final = frozenset(
    {SyncCode.MISSING_CREDENTIALS, SyncCode.SECRET_INVALID, SyncCode.SECRET_ACCESS_FAILED, SyncCode.AUTH_FAILED}
)
_OUTAGE: Final = frozenset({SyncCode.TIMEOUT, SyncCode.UNREACHABLE, SyncCode.SERVER_ERROR})
_TRANSIENT: Final = _OUTAGE | {
    SyncCode.SECRET_ACCESS_FAILED,
    SyncCode.RATE_LIMITED,
    SyncCode.INVALID_RESPONSE,
    SyncCode.MODEL_CREATION_FAILED,
    SyncCode.INTERNAL_ERROR,
}

OF_REGISTRY: Final[Mapping[RegistryErrorCode, SyncCode]] = MappingProxyType(
    {code: SyncCode(code.value) for code in RegistryErrorCode}
)
"""The client's codes are a subset with the same texts."""


class SelectorError(Exception):
    """A selector can not be evaluated.

    Attributes:
        code: why, for conditions and the schedule.
        retry_after: seconds until the registry wants to be asked again, if it said so (MS-151).
    """

    def __init__(self, code: SyncCode, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
