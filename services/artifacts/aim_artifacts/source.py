"""Source URIs, and the model id that follows from them (AR-110…AR-113)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

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
        path: what follows ``scheme://``, without trailing slashes.
    """

    scheme: Scheme
    path: str

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
    return Source(Scheme(scheme), path)


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
    return "/".join(without_scheme(uri).rstrip("/").split("/")[:_SEGMENTS])


def mount_point(model_id: str, fallback: str) -> str:
    """Directory in the inference container, cleaned of ``..`` (AR-575, FW-346)."""
    cleaned = model_id.replace("..", "").strip("/")
    return f"{CACHE_ROOT}/{fallback if cleaned in {'', '.'} else cleaned}"
