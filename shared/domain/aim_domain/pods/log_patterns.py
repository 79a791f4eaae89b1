"""What the log of a failed container says about the cause (FW-147, FW-150…FW-152)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

LOG_TAIL_LINES: Final = 50
"""Lines of the container's log that are read (FW-146)."""
_EXCERPT_LINES: Final = 3


class LogGroup(Enum):
    """Groups of patterns, with their number in FW-150."""

    CLUSTER_PERMISSIONS = 1
    SOURCE_NOT_FOUND = 2
    AUTH = 3
    STORAGE_FULL = 4


@dataclass(frozen=True, slots=True)
class LogMatch:
    """The group that decides and the trimmed line that matched."""

    group: LogGroup
    line: str


_Pieces: TypeAlias = tuple[str, ...]
"""A pattern: texts that a line holds in this order, whatever stands between them."""


def _pieces(*patterns: str) -> tuple[_Pieces, ...]:
    """Patterns as FW-150 writes them.

    An image or a hub chooses what a log says, up to 64 KiB in one line: a regular expression with several ``.*`` takes
    time that grows with the third power of it, the search of one text after the other reads the line once (FW-740).
    """
    return tuple(tuple(pattern.replace("\\.", ".").casefold().split(".*")) for pattern in patterns)


_PERMISSIONS: Final = _pieces(
    r"RBAC:.*not found",
    r"clusterrole.*not found",
    r"forbidden.*cannot.*resource",
    r"serviceaccount.*cannot",
)
_GROUPS: Final = (
    (
        LogGroup.SOURCE_NOT_FOUND,
        _pieces(
            r"Repository Not Found",
            r"RepositoryNotFoundError",
            r"404.*not.*found",
            r"not.*found.*404",
            r"NoSuchKey",
            r"NoSuchBucket",
            r"model.*not.*found",
            r"file.*not.*found",
            r"s3.*404",
        ),
    ),
    (
        LogGroup.AUTH,
        _pieces(
            r"access.*denied.*s3",
            r"s3.*403",
            r"InvalidAccessKeyId",
            r"SignatureDoesNotMatch",
            r"s3.*unauthorized",
            r"aws.*credentials.*not.*found",
            r"NoCredentialProviders",
            r"Access to model .* is restricted",
            r"Cannot access gated repo",
            r"Invalid.*token.*huggingface",
            r"huggingface.*authentication.*failed",
            r"401.*Unauthorized.*hf\.co",
            r"403.*Forbidden.*hf\.co",
        ),
    ),
    (
        LogGroup.STORAGE_FULL,
        _pieces(
            r"no space left on device",
            r"disk.*full",
            r"ENOSPC",
            r"quota.*exceeded",
            r"storage.*full",
        ),
    ),
)
# Missing sources come before auth because Hugging Face answers 401 for repositories that do not exist (FW-151).


def match_log(tail: str) -> LogMatch | None:
    """The cause that a log tail names, if any.

    Lines about cluster permissions often say "not found": they are set aside first, and decide only when nothing
    else does, lest a failed status patch hide the real cause (FW-150).
    """
    permission_lines: list[str] = []
    others: list[str] = []
    for line in _lines(tail):
        (permission_lines if _first([line], _PERMISSIONS) else others).append(line)
    for group, patterns in _GROUPS:
        hit = _first(others, patterns)
        if hit is not None:
            return LogMatch(group, hit)
    if permission_lines:
        return LogMatch(LogGroup.CLUSTER_PERMISSIONS, permission_lines[0])
    return None


def excerpt(tail: str) -> str:
    """What is quoted when no pattern matches: the last three lines (FW-147)."""
    return " | ".join(_lines(tail)[-_EXCERPT_LINES:])


def _lines(tail: str) -> list[str]:
    return [line.strip() for line in tail.splitlines() if line.strip()]


def _first(lines: Sequence[str], patterns: Iterable[_Pieces]) -> str | None:
    """The first line that the first matching pattern finds: patterns in order, each over all lines (FW-152)."""
    folded = [line.casefold() for line in lines]
    places = (place for pieces in patterns for place, line in enumerate(folded) if _holds(line, pieces))
    return next((lines[place] for place in places), None)


def _holds(line: str, pieces: _Pieces) -> bool:
    """Whether the texts stand in a line one after the other; the leftmost place of each leaves most for the others."""
    position = 0
    for piece in pieces:
        found = line.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return True
