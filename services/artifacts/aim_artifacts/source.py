"""Source URIs, the revision that one pins, and the model id that follows from it (AR-110…AR-113, AR-825…AR-827)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aim_domain.hub_sources import split_revision

CACHE_ROOT: Final = "/workspace/cache"
"""Directory of an inference container below which weights are mounted (AR-110)."""

_SEPARATOR: Final = "://"
_SEGMENTS: Final = 2


class Scheme(StrEnum):
    """Where weights can come from."""

    HUGGING_FACE = "hf"
    S3 = "s3"


class SourceError(ValueError):
    """A text that is no usable source URI; the message quotes it."""


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed source URI.

    Attributes:
        path: what follows ``scheme://``, without trailing slashes and revision.
        revision: branch, tag or commit of a Hugging Face repository; empty for the default branch.
    """

    scheme: Scheme
    path: str
    revision: str = ""

    def __str__(self) -> str:
        pinned = f"@{self.revision}" if self.revision else ""
        return f"{self.scheme}://{self.path}{pinned}"

    @property
    def bucket(self) -> str:
        """First segment of an S3 path."""
        return self.path.partition("/")[0]

    @property
    def key(self) -> str:
        """What follows the bucket of an S3 path; empty for the whole bucket."""
        return self.path.partition("/")[2]


def parse_source(uri: str) -> Source:
    """Take a source URI apart.

    Raises:
        SourceError: another scheme, or nothing behind it.
    """
    scheme, separator, rest = uri.partition(_SEPARATOR)
    path = rest.rstrip("/")
    if not separator or scheme not in set(Scheme) or not path:
        raise SourceError(
            f"{uri!r} is not a supported source URI; expected hf://<organisation>/<name> or s3://<bucket>/<key>"
        )
    if scheme != Scheme.HUGGING_FACE:
        return Source(Scheme(scheme), path)
    try:
        return Source(Scheme.HUGGING_FACE, *split_revision(rest))
    except ValueError as error:
        raise SourceError(str(error)) from error


def is_hugging_face(uri: str) -> bool:
    """Whether download filters concern the source (AR-405)."""
    return uri.startswith(Scheme.HUGGING_FACE + _SEPARATOR)


def without_scheme(uri: str) -> str:
    """The URI without ``scheme://``, for labels (AR-026)."""
    return uri.partition(_SEPARATOR)[2]


def effective_model_id(model_id: str | None, uri: str) -> str:
    """The given id, else the first two segments of a Hugging Face URI, else nothing (AR-111…AR-113)."""
    if model_id:
        return model_id
    if not is_hugging_face(uri):
        return ""
    repository = _without_revision(without_scheme(uri))
    return "/".join(repository.rstrip("/").split("/")[:_SEGMENTS])


def pinned_revision(uri: str) -> str:
    """The revision in the URI; empty for the default branch, for S3, and where no such revision can exist (AR-828)."""
    if not is_hugging_face(uri):
        return ""
    try:
        return split_revision(without_scheme(uri).rstrip("/"))[1]
    except ValueError:
        return ""


def _without_revision(rest: str) -> str:
    return rest.replace(":", "@").partition("@")[0]


def mount_point(model_id: str, fallback: str) -> str:
    """Directory in the inference container, cleaned of ``..`` (AR-575, FW-346)."""
    cleaned = model_id.replace("..", "").strip("/")
    return f"{CACHE_ROOT}/{fallback if cleaned in {'', '.'} else cleaned}"
