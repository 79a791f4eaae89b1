"""How the downloader says why it failed (AR-764, AR-765): the contract between the program and the service."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final


class ExitCode(IntEnum):
    """Exit codes of the downloader (AR-764)."""

    SUCCESS = 0
    UNKNOWN = 1
    USAGE = 2
    AUTH = 10
    SOURCE_NOT_FOUND = 11
    STORAGE_FULL = 12
    VERIFICATION_FAILED = 13
    STALLED = 14
    DOWNLOAD_FAILED = 15
    NO_MATCHING_FILES = 16
    TERMINATED = 143


class FailureCategory(StrEnum):
    """``category`` of the termination message (AR-765)."""

    AUTH = "Auth"
    SOURCE_NOT_FOUND = "SourceNotFound"
    STORAGE_FULL = "StorageFull"
    VERIFICATION_FAILED = "VerificationFailed"
    STALLED = "Stalled"
    DOWNLOAD_FAILED = "DownloadFailed"
    NO_MATCHING_FILES = "NoMatchingFiles"
    USAGE = "Usage"
    UNKNOWN = "Unknown"


CATEGORY_OF_CODE: Final[Mapping[int, FailureCategory]] = MappingProxyType(
    {
        ExitCode.UNKNOWN: FailureCategory.UNKNOWN,
        ExitCode.USAGE: FailureCategory.USAGE,
        ExitCode.AUTH: FailureCategory.AUTH,
        ExitCode.SOURCE_NOT_FOUND: FailureCategory.SOURCE_NOT_FOUND,
        ExitCode.STORAGE_FULL: FailureCategory.STORAGE_FULL,
        ExitCode.VERIFICATION_FAILED: FailureCategory.VERIFICATION_FAILED,
        ExitCode.STALLED: FailureCategory.STALLED,
        ExitCode.DOWNLOAD_FAILED: FailureCategory.DOWNLOAD_FAILED,
        ExitCode.NO_MATCHING_FILES: FailureCategory.NO_MATCHING_FILES,
    }
)
"""The category that belongs to an exit code; codes that are not listed say nothing."""

TERMINAL_CODES: Final = (
    ExitCode.AUTH,
    ExitCode.SOURCE_NOT_FOUND,
    ExitCode.STORAGE_FULL,
    ExitCode.NO_MATCHING_FILES,
)
"""Codes after which another pod would fail in the same way (AR-257)."""
