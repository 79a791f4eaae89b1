"""What the service and its download program agree on: exit codes, progress, and the selection of files."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from fnmatch import translate
from types import MappingProxyType
from typing import Final

from controller_runtime import JsonObject, dumps, loads


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


COMPLETE: Final = 100


def progress_json(percentage: int, downloaded: int | None, total: int | None) -> JsonObject:
    """All members; unknown bytes are left out."""
    known = {"downloadedBytes": downloaded, "totalBytes": total}
    shown = {"percentage": percentage, "displayPercentage": display_percentage(percentage)}
    return {**shown, **{name: value for name, value in known.items() if value is not None}}


def display_percentage(percentage: int) -> str:
    """The percentage as people read it."""
    return f"{percentage} %"


class FilterError(ValueError):
    """A text that is no download filter; the message says why."""


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Patterns of files to take and to leave out; without any all files are selected."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def selects(self, path: str) -> bool:
        """Whether a file, given by its path relative to the repository, is downloaded (AR-403)."""
        taken = not self.include or _matches(self.include, path)
        return taken and not _matches(self.exclude, path)

    def select(self, paths: Iterable[str]) -> list[str]:
        """The selected paths, in their order."""
        return [path for path in paths if self.selects(path)]


DEFAULT_FILTER: Final[JsonObject] = {"exclude": ["*/*"]}
"""Subdirectories are left out when no level says anything (AR-401)."""


def selection_of(value: JsonObject) -> FileSelection:
    """The selection that a filter's JSON describes.

    Raises:
        FilterError: a member is no list of strings.
    """
    return FileSelection(_patterns(value, "include"), _patterns(value, "exclude"))


def parse_selection(text: str | None) -> FileSelection:
    """The selection in ``AIM_DOWNLOAD_FILTER``; unset and empty mean the default (AR-406).

    Raises:
        FilterError: the text is no filter.
    """
    if not text:
        return selection_of(DEFAULT_FILTER)
    try:
        value = loads(text)
    except ValueError as error:
        raise FilterError(f"AIM_DOWNLOAD_FILTER is not a JSON object: {error}") from error
    return selection_of(value)


def filter_text(value: JsonObject) -> str:
    """Compact JSON of a filter, members in the order include, exclude, absent ones left out (AR-406, AR-025)."""
    return dumps({name: value[name] for name in ("include", "exclude") if value.get(name) is not None}).decode()


def _patterns(value: JsonObject, member: str) -> tuple[str, ...]:
    patterns = value.get(member) or []
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        raise FilterError(f"download filter: {member} is {json.dumps(patterns)}, expected a list of patterns")
    return tuple(patterns)


def _matches(patterns: Iterable[str], path: str) -> bool:
    # fnmatch.fnmatch would fold case on some platforms; translate does not (AR-404).
    return any(re.match(translate(_completed(pattern)), path) for pattern in patterns)


def _completed(pattern: str) -> str:
    return f"{pattern}*" if pattern.endswith("/") else pattern
