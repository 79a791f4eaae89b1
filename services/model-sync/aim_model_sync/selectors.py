"""Selectors of images, with wildcards and versions."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from aim_domain import AIMClusterModelSourceSpec
from aim_model_sync.codes import SelectorError, SyncCode
from aim_model_sync.versions import UNCONSTRAINED, Constraints, effective_versions, parse_constraints
from controller_runtime import ApiModel
from oci_registry import (
    DOCKER_HUB,
    ImageReference,
    InvalidReferenceError,
    ReferenceParts,
    Repository,
    canonical_registry,
    canonical_repository,
    is_registry_host,
    parse_parts,
)

WILDCARD: Final = "*"


def matches(pattern: str, repository: str) -> bool:
    """Whether the whole name matches; ``*`` stands for any run of characters, ``/`` included, possibly empty.

    Takes time linear in the name for any number of stars: users write the patterns, so a regular expression, which
    would backtrack, is not used.
    """
    first, *rest = pattern.split(WILDCARD)
    if not rest:
        return pattern == repository
    *inner, last = rest
    end = len(repository) - len(last)
    position = len(first)
    if position > end or not repository.startswith(first) or not repository.endswith(last):
        return False
    for literal in inner:
        # The leftmost occurrence leaves the most room for what follows.
        found = repository.find(literal, position, end)
        if found < 0:
            return False
        position = found + len(literal)
    return True


def literal_owner(pattern: str) -> str | None:
    """The first path component, if it is literal and something follows it (MS-069)."""
    owner, slash, _ = pattern.partition("/")
    return owner if slash and owner and WILDCARD not in owner else None


OWNER_LISTED: Final = frozenset({DOCKER_HUB, "ghcr.io"})
"""Registries that list repositories per owner only (MS-069)."""

_REFERRER_TAG: Final = re.compile(r"sha256-[0-9a-f]{64}(?:\..*)?", re.DOTALL)
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class SelectorText(ApiModel):
    """A selector as the user wrote it, with what applies to it; part of the parameters of a sync.

    Attributes:
        wildcards: whether ``*`` may occur, which is so in ``filters`` only (MS-064).
        versions: the list that applies, own or inherited (MS-072).
    """

    text: str
    wildcards: bool = False
    exclude: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selector:
    """A selector that can be evaluated.

    Attributes:
        repository: the repository, or the pattern of repositories.
        tag: the only tag that is wanted.
        digest: the only image that is wanted.
    """

    repository: Repository
    tag: str | None = None
    digest: str | None = None
    exclude: frozenset[str] = frozenset()
    constraints: Constraints = UNCONSTRAINED

    @property
    def is_wildcard(self) -> bool:
        """Whether repositories have to be listed."""
        return WILDCARD in self.repository.path

    @property
    def is_pinned(self) -> bool:
        """Whether it names one image, which the sync does not look for in the registry (MS-106)."""
        return not self.is_wildcard and (self.tag is not None or self.digest is not None)

    @property
    def owner(self) -> str | None:
        """The owner whose repositories are listed, on registries that list per owner."""
        return literal_owner(self.repository.path) if self.repository.registry in OWNER_LISTED else None

    @property
    def pinned_image(self) -> ImageReference:
        """The image of a pinned selector."""
        return ImageReference(self.repository, self.tag, self.digest)

    def selects_repository(self, path: str) -> bool:
        """Whether the pattern matches a repository of its registry that is not excluded (MS-065, MS-093…MS-097)."""
        return path not in self.exclude and (
            matches(self.repository.path, path) if self.is_wildcard else path == self.repository.path
        )

    def selects_tag(self, tag: str) -> bool:
        """Whether a listed tag becomes a candidate (MS-067, MS-074, MS-108)."""
        if _REFERRER_TAG.fullmatch(tag) or not _TAG.fullmatch(tag):
            return False
        return tag == self.tag if self.tag is not None else self.constraints.admits(tag)


def selector_texts(spec: AIMClusterModelSourceSpec) -> tuple[SelectorText, ...]:
    """All selectors of a source in order; versions of the source apply where a filter has none (MS-037, MS-072)."""
    images = (SelectorText(text=image, versions=spec.versions) for image in spec.images)
    filters = (
        SelectorText(
            text=one.image,
            wildcards=True,
            exclude=one.exclude,
            versions=effective_versions(one.versions, spec.versions),
        )
        for one in spec.filters
    )
    return (*images, *filters)


def resolve(selector: SelectorText, registry: str) -> Selector:
    """What a selector's text means on the source's registry (MS-046…MS-062).

    Raises:
        SelectorError: a code of `CONFIGURATION`.
    """
    parts = _parts(selector)
    host = parts.registry or _checked_host(registry)
    is_pattern = WILDCARD in parts.repository
    repository = (
        # `library/` is never implied in a pattern (MS-058 speaks of repositories).
        Repository(canonical_registry(host), parts.repository)
        if is_pattern
        else canonical_repository(host, parts.repository)
    )
    if is_pattern and repository.registry in OWNER_LISTED and literal_owner(repository.path) is None:
        raise SelectorError(
            SyncCode.WILDCARD_NAMESPACE_REQUIRED,
            f"{repository.registry} lists repositories per owner; begin the pattern with a literal owner, "
            "for example myorg/aim-*",
        )
    # A version list means nothing to a literal tag, so a bad one does no harm there (MS-073).
    constraints = UNCONSTRAINED if parts.is_pinned else parse_constraints(selector.versions)
    return Selector(repository, parts.tag, parts.digest, frozenset(selector.exclude), constraints)


def pinned_images(spec: AIMClusterModelSourceSpec) -> Mapping[int, ImageReference]:
    """The image of each pinned selector by its index; what cannot be evaluated pins none (MS-101, MS-385)."""
    found: dict[int, ImageReference] = {}
    for index, text in enumerate(selector_texts(spec)):
        try:
            selector = resolve(text, spec.registry)
        except SelectorError:
            continue
        if selector.is_pinned and selector.selects_repository(selector.repository.path):
            found[index] = selector.pinned_image
    return found


def _parts(selector: SelectorText) -> ReferenceParts:
    if WILDCARD in selector.text and not selector.wildcards:
        raise SelectorError(
            SyncCode.INVALID_SELECTOR,
            f"{selector.text.strip()!r}: `images` takes explicit references only; move the pattern to `filters`",
        )
    try:
        return parse_parts(selector.text, wildcards=selector.wildcards)
    except InvalidReferenceError as error:
        raise SelectorError(SyncCode.INVALID_SELECTOR, str(error)) from error


def _checked_host(registry: str) -> str:
    """The source's registry, which must be a bare host (MS-027); an absent one is Docker Hub (MS-026)."""
    host = (registry or DOCKER_HUB).lower()
    if not is_registry_host(host):
        raise SelectorError(
            SyncCode.INVALID_SELECTOR,
            f"spec.registry {registry!r} is not a bare host[:port]; write it without scheme and path, such as ghcr.io",
        )
    return host


def repositories_of(selector: Selector, names: Iterable[str]) -> tuple[Repository, ...]:
    """The listed repositories that a wildcard selects, by name (MS-098, MS-174)."""
    registry = selector.repository.registry
    return tuple(Repository(registry, name) for name in sorted(set(names)) if selector.selects_repository(name))
