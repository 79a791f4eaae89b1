"""Name and tag inside an image URI, as far as names of models are made from them (SV-036, SV-037).

More lenient than `oci_registry.image_reference`, which speaks to registries: a short digest is enough here.
"""

import re
from dataclasses import dataclass
from typing import Final

_OUTSIDERS: Final = re.compile(r"[^a-z0-9-]+")
_DASHES: Final = re.compile(r"-{2,}")
_DIGEST_DIGITS: Final = 6


class ImageNameError(ValueError):
    """The URI has no registry, name or tag that a model could be named after; the message says which."""


@dataclass(frozen=True, slots=True)
class ImageName:
    """Last component of the repository, and the tag or the first digits of the digest; both sanitised."""

    name: str
    tag: str


def parse_image_name(uri: str) -> ImageName:
    """Split an image URI.

    Raises:
        ImageNameError: naming the URI and the part that is missing.
    """
    if not uri:
        raise ImageNameError("the image URI is empty; write [registry/]repository[:tag]")
    registry, repository = _registry_and_repository(uri)
    name, tag = _name_and_tag(uri, repository.rsplit("/", 1)[-1])
    for what, text in (("registry", registry), ("name", name), ("tag", tag)):
        if not _sanitise(text):
            raise ImageNameError(f"image URI {uri!r} has no usable {what}; write [registry/]repository[:tag]")
    return ImageName(_sanitise(name), _sanitise(tag))


def _registry_and_repository(uri: str) -> tuple[str, str]:
    first, slash, rest = uri.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return (first, rest) if is_host else ("docker.io", uri)


def _name_and_tag(uri: str, segment: str) -> tuple[str, str]:
    if "@" in segment:
        name, _, digest = segment.partition("@")
        digits = digest.partition(":")[2]
        if not digits:
            raise ImageNameError(f"image URI {uri!r} has no digest after '@'; write name@sha256:digest")
        return name, digits[:_DIGEST_DIGITS]
    name, colon, tag = segment.partition(":")
    if colon and not tag:
        raise ImageNameError(f"image URI {uri!r} has no tag after ':'; write name:tag")
    return name, tag or "latest"


def _sanitise(text: str) -> str:
    return _DASHES.sub("-", _OUTSIDERS.sub("-", text.lower())).strip("-")
