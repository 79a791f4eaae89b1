"""Hugging Face sources: repository and revision (AR-825, AR-826)."""

import string
from typing import Final

_OF_NAMES: Final = frozenset(string.ascii_letters + string.digits + "._-")
_OF_REVISIONS: Final = _OF_NAMES | {"/", "+"}
_MOST_SEGMENTS: Final = 2
LONGEST_REVISION: Final = 255
"""Characters; a name of Git's file system has no more, and the status has room for it."""


def split_revision(rest: str) -> tuple[str, str]:
    """Repository and revision of what follows ``hf://``; the revision is empty for the default branch.

    A revision is a branch, tag or commit behind ``@``, or behind ``:`` as in URIs of KServe.

    Raises:
        ValueError: no such repository or revision can exist; the message says what to write.
    """
    rest = rest.rstrip("/")
    repository, sign, revision = rest.replace(":", "@", 1).partition("@") if "@" not in rest else rest.partition("@")
    segments = repository.split("/")
    if not all(segments) or not set(repository) <= _OF_NAMES | {"/"}:
        raise ValueError(f"'hf://{rest}' names no repository; write hf://<organisation>/<name>")
    if len(segments) > _MOST_SEGMENTS:
        raise ValueError(
            f"'hf://{rest}' names a path in a repository; write hf://<organisation>/<name> and choose files with "
            "downloadFilter"
        )
    if sign and not _is_revision(revision):
        raise ValueError(f"'hf://{rest}' names no revision; write hf://<organisation>/<name>@<branch, tag or commit>")
    return repository, revision


def _is_revision(revision: str) -> bool:
    parts = revision.split("/")
    is_clean = all(parts) and not any(part.startswith((".", "-")) for part in parts)
    return is_clean and len(revision) <= LONGEST_REVISION and ".." not in revision and set(revision) <= _OF_REVISIONS
