"""What can go wrong with a registry, as typed errors.

Two vocabularies look at the same failure: model-sync reports a *code* per selector (MS-261…MS-277), image inspection
and pod health know three *categories* (FW-050). Every `RegistryError` carries both.
"""

import re
from enum import StrEnum
from typing import Final

MESSAGE_LIMIT: Final = 256
"""Characters of a registry's own error text that may reach a condition message (MS-153)."""


class RegistryErrorCategory(StrEnum):
    """The three kinds of registry failure of FW-050."""

    AUTH = "auth"
    NOT_FOUND = "not-found"
    GENERIC = "generic"


class RegistryErrorCode(StrEnum):
    """Stable code of a registry failure; the subset of MS-261 that the client itself can find."""

    AUTH_FAILED = "AuthFailed"
    NOT_FOUND = "NotFound"
    RATE_LIMITED = "RateLimited"
    TIMEOUT = "Timeout"
    UNREACHABLE = "Unreachable"
    SERVER_ERROR = "ServerError"
    INVALID_RESPONSE = "InvalidResponse"
    TRUNCATED_RESULT = "TruncatedResult"
    WILDCARD_UNSUPPORTED = "WildcardUnsupported"
    MISSING_CREDENTIALS = "MissingCredentials"
    ADDRESS_REFUSED = "AddressRefused"

    @property
    def is_transient(self) -> bool:
        """Whether trying again later, with nothing changed, can help (column *Transient* of MS-261)."""
        return self in _TRANSIENT

    @property
    def is_outage(self) -> bool:
        """Whether the registry itself did not work, as opposed to having given an answer (FW-389)."""
        return self in _OUTAGE


_TRANSIENT: Final = frozenset(
    {
        RegistryErrorCode.RATE_LIMITED,
        RegistryErrorCode.TIMEOUT,
        RegistryErrorCode.UNREACHABLE,
        RegistryErrorCode.SERVER_ERROR,
        RegistryErrorCode.INVALID_RESPONSE,
    }
)
_OUTAGE: Final = _TRANSIENT - {RegistryErrorCode.INVALID_RESPONSE}
_UNREACHED: Final = _OUTAGE - {RegistryErrorCode.RATE_LIMITED}

_CATEGORY_OF_CODE: Final = {
    RegistryErrorCode.AUTH_FAILED: RegistryErrorCategory.AUTH,
    RegistryErrorCode.MISSING_CREDENTIALS: RegistryErrorCategory.AUTH,
    RegistryErrorCode.NOT_FOUND: RegistryErrorCategory.NOT_FOUND,
}


class RegistryError(Exception):
    """A request to a registry failed.

    Attributes:
        code: the stable code of MS-261.
        status: HTTP status of the answer, or None when there was none.
        registry_code: code of the registry's own error body such as `NAME_UNKNOWN`, or empty.
        retry_after: seconds until the registry wants to be asked again, when it announced that (MS-151).
        reached: whether the registry, or a mirror of it, gave an answer that is no 5xx (FW-397).
    """

    def __init__(
        self,
        code: RegistryErrorCode,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        registry_code: str = "",
        reached: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retry_after = retry_after
        self.registry_code = registry_code
        self.reached = code not in _UNREACHED if reached is None else reached

    @property
    def category(self) -> RegistryErrorCategory:
        """The category that image inspection reports (FW-050)."""
        return _CATEGORY_OF_CODE.get(self.code, RegistryErrorCategory.GENERIC)


def category_of_status(status: int) -> RegistryErrorCategory:
    """Category of a failing HTTP status (FW-050, DI-090)."""
    if status in (401, 403):
        return RegistryErrorCategory.AUTH
    if status == 404:
        return RegistryErrorCategory.NOT_FOUND
    return RegistryErrorCategory.GENERIC


def code_of_status(status: int) -> RegistryErrorCode:
    """Code of a failing HTTP status (MS-268…MS-274)."""
    if status in (401, 403):
        return RegistryErrorCode.AUTH_FAILED
    if status == 404:
        return RegistryErrorCode.NOT_FOUND
    if status == 429:
        return RegistryErrorCode.RATE_LIMITED
    if status >= 500 or status in (408, 499):
        return RegistryErrorCode.SERVER_ERROR
    return RegistryErrorCode.INVALID_RESPONSE


def _number(digits: str) -> str:
    # A port (`:403`), a digest, a path segment and a version part (`1.404`) are not statuses (FW-052).
    return rf"(?<![\w.:/@-]){digits}(?![\w/-]|\.\w)"


_TEXT_PATTERNS: Final = (
    (
        RegistryErrorCategory.AUTH,
        re.compile("unauthorized|authentication|forbidden|denied|credentials|" + _number("401") + "|" + _number("403")),
    ),
    (
        RegistryErrorCategory.NOT_FOUND,
        re.compile("not found|manifest unknown|name unknown|no such(?! host)|" + _number("404")),
    ),
)


def category_of_text(text: str) -> RegistryErrorCategory:
    """Category of an error that has only a text, such as a container's image-pull message (FW-051, FW-052)."""
    lowered = text.lower()
    for category, pattern in _TEXT_PATTERNS:
        if pattern.search(lowered):
            return category
    return RegistryErrorCategory.GENERIC
