"""What can be wrong with a selector, as stable codes (MS-261…MS-277)."""

from enum import StrEnum
from typing import Final, TypeAlias

from oci_registry import RegistryErrorCode


class SyncCode(StrEnum):
    """Errors of a selector beside those that the registry client finds."""

    INVALID_SELECTOR = "InvalidSelector"
    INVALID_VERSION_CONSTRAINT = "InvalidVersionConstraint"
    WILDCARD_NAMESPACE_REQUIRED = "WildcardNamespaceRequired"
    SECRET_INVALID = "SecretInvalid"  # noqa: S105 - a code, not a secret
    SECRET_ACCESS_FAILED = "SecretAccessFailed"  # noqa: S105 - a code, not a secret
    IMAGE_UNREADABLE = "ImageUnreadable"
    INTERNAL_ERROR = "InternalError"


Code: TypeAlias = SyncCode | RegistryErrorCode
"""Code of a selector's error; appears in condition messages and logs."""

CONFIGURATION: Final[frozenset[Code]] = frozenset(
    {SyncCode.INVALID_SELECTOR, SyncCode.INVALID_VERSION_CONSTRAINT, SyncCode.WILDCARD_NAMESPACE_REQUIRED}
)
"""The spec is at fault (``ConfigValid=False``)."""
LACKS_CREDENTIALS: Final[frozenset[Code]] = frozenset(
    {RegistryErrorCode.AUTH_FAILED, RegistryErrorCode.MISSING_CREDENTIALS}
)
"""A usable pull secret could have prevented it (MS-165…MS-167)."""
AUTH: Final[frozenset[Code]] = LACKS_CREDENTIALS | {SyncCode.SECRET_INVALID, SyncCode.SECRET_ACCESS_FAILED}
"""Access was refused or could not be asked for (``AuthValid=False``)."""
OUTAGE: Final[frozenset[Code]] = frozenset(
    {RegistryErrorCode.TIMEOUT, RegistryErrorCode.UNREACHABLE, RegistryErrorCode.SERVER_ERROR}
)
"""The registry did not work (``RegistryReachable=False``)."""
TRANSIENT: Final[frozenset[Code]] = frozenset(
    {SyncCode.SECRET_ACCESS_FAILED, SyncCode.INTERNAL_ERROR, *(code for code in RegistryErrorCode if code.is_transient)}
)
"""Trying again soon can help (column *Transient* of MS-261)."""


class SelectorError(Exception):
    """A selector cannot be evaluated.

    Attributes:
        code: why, for conditions and the schedule.
        retry_after: seconds until the registry wants to be asked again, if it said so (MS-151).
        reached: whether an endpoint of the registry gave an answer all the same (FW-397).
    """

    def __init__(self, code: Code, message: str, retry_after: float | None = None, *, reached: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after
        self.reached = reached
