"""Which files of a repository a download filter selects (AR-401…AR-406). Shared by service and downloader."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from typing import Final

from controller_runtime import JsonObject, dumps, loads


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
