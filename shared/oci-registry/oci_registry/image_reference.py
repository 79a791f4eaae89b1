"""Image references: how they are parsed, written and compared.

One set of rules for selectors, model specs and services, so that `docker.io/a/b:1`, `index.docker.io/a/b:1` and `a/b:1`
are the same image everywhere (MS-046…MS-061, DI-080).
"""

import re
from dataclasses import dataclass
from typing import Final

DOCKER_HUB: Final = "docker.io"
LATEST: Final = "latest"

_DOCKER_HUB_HOSTS: Final = frozenset(
    {DOCKER_HUB, "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com", "hub.docker.com"}
)
_REGISTRY: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_REPOSITORY: Final = re.compile(r"[a-z0-9_.-]+(?:/[a-z0-9_.-]+)*")
_REPOSITORY_PATTERN: Final = re.compile(r"[a-z0-9_.*-]+(?:/[a-z0-9_.*-]+)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class InvalidReferenceError(ValueError):
    """A text is no image reference; the message says what is wrong with it (MS-062, DI-081)."""


@dataclass(frozen=True, slots=True, order=True)
class Repository:
    """A repository in canonical spelling: what tags are listed of."""

    registry: str
    """Canonical host with optional port, e.g. `docker.io` (MS-056)."""
    path: str
    """Path on that host, e.g. `library/ubuntu` (MS-058)."""

    def __str__(self) -> str:
        """The shortest spelling: `docker.io` is never written (MS-060)."""
        return self.path if self.registry == DOCKER_HUB else f"{self.registry}/{self.path}"


@dataclass(frozen=True, slots=True)
class ImageReference:
    """One image in canonical spelling; two references are the same image when they are equal (MS-061)."""

    repository: Repository
    tag: str | None = None
    digest: str | None = None

    @property
    def version(self) -> str:
        """What follows `/manifests/` in the registry API: the digest if there is one, else the tag."""
        return self.digest or self.tag or LATEST

    def __str__(self) -> str:
        """The image URI (MS-060; with a digest MS-055)."""
        separator = "@" if self.digest else ":"
        return f"{self.repository}{separator}{self.version}"


@dataclass(frozen=True, slots=True)
class ReferenceParts:
    """The parts that a reference's text names; what the text leaves out is None."""

    registry: str | None
    repository: str
    tag: str | None
    digest: str | None

    @property
    def is_pinned(self) -> bool:
        """Whether the text names exactly one image (MS-049, MS-055)."""
        return self.tag is not None or self.digest is not None

    def in_registry(self, default_registry: str = DOCKER_HUB) -> Repository:
        """The canonical repository; the registry in the text wins over the default (MS-057)."""
        return canonical_repository(self.registry or default_registry, self.repository)


def is_registry_host(text: str) -> bool:
    """Whether a lower-case text is a bare host with optional port (MS-027)."""
    match = _REGISTRY.fullmatch(text)
    return match is not None and int(match["port"] or 1) in range(1, 1 << 16)


def canonical_registry(host: str) -> str:
    """Lower case, all spellings of Docker Hub as `docker.io`, empty as `docker.io` (MS-056)."""
    lowered = host.lower()
    return DOCKER_HUB if not lowered or lowered in _DOCKER_HUB_HOSTS else lowered


def canonical_repository(registry: str, path: str) -> Repository:
    """Canonical host, with `library/` added where Docker Hub implies it and nowhere else (MS-058, MS-059)."""
    host = canonical_registry(registry)
    implied = host == DOCKER_HUB and "/" not in path
    return Repository(host, f"library/{path}" if implied else path)


def parse_parts(text: str, *, wildcards: bool = False) -> ReferenceParts:
    """Split a reference into what it says, checking every part.

    Args:
        text: the reference as a user wrote it.
        wildcards: whether `*` may occur in the repository part (MS-066).

    Raises:
        InvalidReferenceError: naming the text, the faulty part and the rule.
    """
    stripped = text.strip()
    _check_shape(stripped)
    registry, remainder = _split_registry(stripped)
    remainder, digest = _split_digest(stripped, remainder)
    repository, tag = _split_tag(stripped, remainder)
    _check_repository(stripped, repository, wildcards=wildcards)
    # The digest decides alone which image is meant (MS-055).
    return ReferenceParts(registry, repository, None if digest else tag, digest)


def parse_image(text: str, *, default_registry: str = DOCKER_HUB) -> ImageReference:
    """Parse the image of a spec; without tag and digest the tag is `latest` (DI-080).

    Raises:
        InvalidReferenceError: naming the text, the faulty part and the rule.
    """
    parts = parse_parts(text)
    tag = parts.tag if parts.is_pinned else LATEST
    return ImageReference(parts.in_registry(default_registry), tag, parts.digest)


def same_image(left: str, right: str) -> bool:
    """Whether two image URIs denote the same image (MS-061); texts that are no references compare as texts."""
    if left == right:
        return True
    try:
        return parse_image(left) == parse_image(right)
    except InvalidReferenceError:
        return False


def _check_shape(text: str) -> None:
    if not text:
        raise InvalidReferenceError("image reference is empty; write [registry/]repository[:tag]")
    if "://" in text:
        raise InvalidReferenceError(f"image reference {text!r} has a URL scheme; write it without")
    if re.search(r"[\s?#]", text):
        raise InvalidReferenceError(
            f"image reference {text!r} contains white space, '?' or '#'; write [registry/]repository[:tag]"
        )


def _split_registry(text: str) -> tuple[str | None, str]:
    # The rule of MS-047: the first component is a host only if nothing else can look like it.
    first, slash, rest = text.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        return None, text
    if not is_registry_host(first.lower()):
        raise InvalidReferenceError(f"image reference {text!r}: {first!r} is not a registry host[:port]")
    return first.lower(), rest


def _split_digest(text: str, remainder: str) -> tuple[str, str | None]:
    name, at, digest = remainder.partition("@")
    if not at:
        return remainder, None
    if not _DIGEST.fullmatch(digest):
        raise InvalidReferenceError(
            f"image reference {text!r}: {digest!r} is not sha256: and 64 lower-case hexadecimal digits"
        )
    return name, digest


def _split_tag(text: str, remainder: str) -> tuple[str, str | None]:
    repository, colon, tag = remainder.partition(":")
    if not colon:
        return remainder, None
    if "*" in tag:
        raise InvalidReferenceError(
            f"image reference {text!r}: '*' is not allowed in the tag; select versions with `versions`"
        )
    if not _TAG.fullmatch(tag):
        raise InvalidReferenceError(
            f"image reference {text!r}: tag {tag!r} is not 1 to 128 letters, digits, '_', '.', '-' "
            "starting with none of '.' and '-'"
        )
    return repository, tag


def _check_repository(text: str, repository: str, *, wildcards: bool) -> None:
    if "*" in repository and not wildcards:
        raise InvalidReferenceError(f"image reference {text!r}: '*' is allowed only in `filters`")
    pattern = _REPOSITORY_PATTERN if wildcards else _REPOSITORY
    shortest = 1 if wildcards else 2
    if not shortest <= len(repository) <= 255 or not pattern.fullmatch(repository):
        raise InvalidReferenceError(
            f"image reference {text!r}: repository {repository!r} is not 2 to 255 of a-z, 0-9, '_', '-', '.', '/' "
            "without leading, trailing or doubled '/'"
        )
