"""Which names of a source may become files (AR-738, AR-806): the operator of the source chooses them."""

import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from aim_artifacts.downloader.failure import DownloadError
from aim_artifacts.downloader_contract import ExitCode

BOOKKEEPING: Final = (PurePosixPath(".cache", "aim-s3"), PurePosixPath(".cache", "huggingface"))
"""Where the program and the Hub client keep their notes, below the target."""
_LONGEST: Final = 255
"""Bytes of one part of a path that file systems take."""
MOST_FILES: Final = 100_000
"""Files of one source, where the largest models have a few hundred; each takes memory, and an inode of a volume."""

T = TypeVar("T")


def at_most(entries: Iterable[T], source: str) -> Iterator[T]:
    """The entries of a list that its server may continue without end.

    Raises:
        DownloadError: there are more than `MOST_FILES`; what follows is not asked for.
    """
    for number, entry in enumerate(entries, 1):
        if number > MOST_FILES:
            raise DownloadError(
                ExitCode.USAGE, f"{source} has more than {MOST_FILES} files; correct the source, or split it"
            )
        yield entry


def check_names(paths: Iterable[str], target: Path) -> None:
    """Refuse a source one of whose files would not end up as a file of its own below the target.

    Raises:
        DownloadError: naming the file, and why.
    """
    known: dict[str, str] = {}
    for path in sorted(paths):
        reason = _refusal(path) or _leads_out(path, target)
        if reason:
            raise DownloadError(ExitCode.USAGE, f"the name {path!r} {reason}; rename it in the source")
        other = known.setdefault(_folded(path), path)
        if other != path:
            raise DownloadError(
                ExitCode.USAGE,
                f"the names {other!r} and {path!r} are one file where case or Unicode forms do not count; rename one",
            )
    for path in known.values():
        folder = next((known[one] for one in _folders(path) if one in known), None)
        if folder is not None:
            raise DownloadError(ExitCode.USAGE, f"{folder!r} is a file and the folder of {path!r}; rename one")


def _refusal(path: str) -> str:
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        return "would leave the target directory"
    if "" in parts or "." in parts:
        return "has an empty part"
    if any(ord(character) < ord(" ") for character in path):
        return "holds a control character"
    if any(len(part.encode()) > _LONGEST for part in parts):
        return f"has a part of more than {_LONGEST} bytes"
    folded = PurePosixPath(_folded(path))
    if any(folded.is_relative_to(folder) or folder.is_relative_to(folded) for folder in BOOKKEEPING):
        return "lies among the notes of the downloader, or in their place"
    return ""


def _leads_out(path: str, target: Path) -> str:
    """A volume may hold links of an earlier writer."""
    inside = target.resolve()
    folder = target
    for part in PurePosixPath(path).parts:
        folder /= part
        if folder.is_symlink() and not folder.resolve().is_relative_to(inside):
            return f"leads out of the target directory by the link {folder.relative_to(target).as_posix()!r}"
    return ""


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _folders(path: str) -> list[str]:
    return [folder.as_posix() for folder in PurePosixPath(_folded(path)).parents]
