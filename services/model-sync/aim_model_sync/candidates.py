"""The candidate set of a sync: order, de-duplication and size (MS-172…MS-174)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from semver import Version

from aim_model_sync.versions import parse_tag
from controller_runtime import ApiModel
from oci_registry import ImageReference, Repository

MAX_KEPT: Final = 20_000
"""Candidates that a sync hands on; more are only counted. Twice the largest limit, about 300 kB."""

_DIGEST_PREFIX: Final = "sha256:"


class FoundImages(ApiModel):
    """Selected images of one repository.

    Attributes:
        registry: its canonical host.
        repository: its path there.
        versions: tags, or digests with their ``sha256:``, which no tag can begin with; in candidate order.
    """

    registry: str
    repository: str
    versions: tuple[str, ...]

    @classmethod
    def of(cls, repository: Repository, versions: Iterable[str]) -> "FoundImages":
        """Images of a repository by their versions."""
        return cls(registry=repository.registry, repository=repository.path, versions=tuple(versions))

    @property
    def origin(self) -> Repository:
        """Registry and path together."""
        return Repository(self.registry, self.repository)

    def images(self) -> Iterator[ImageReference]:
        """The single images."""
        origin = self.origin
        return (image_of(origin, version) for version in self.versions)


def image_of(repository: Repository, version: str) -> ImageReference:
    """The image that a tag or digest names."""
    if version.startswith(_DIGEST_PREFIX):
        return ImageReference(repository, digest=version)
    return ImageReference(repository, version)


def newest_first(tags: Iterable[str]) -> tuple[str, ...]:
    """Versions by falling precedence, equal ones by text, then everything else by text (MS-174)."""
    versions: list[tuple[Version, str]] = []
    others: list[str] = []
    for tag in sorted(set(tags)):
        version = parse_tag(tag)
        if version is None:
            others.append(tag)
        else:
            versions.append((version, tag))
    # A reversed sort keeps the order of equals, which is by text.
    versions.sort(key=lambda pair: pair[0], reverse=True)
    return (*(tag for _, tag in versions), *others)


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """The union of all selectors.

    Attributes:
        by_selector: per selector the images it owns, at most `MAX_KEPT` in total.
        size: number of different images, kept or not.
    """

    by_selector: tuple[tuple[FoundImages, ...], ...]
    size: int


def combine(found: Sequence[Sequence[FoundImages]], kept: int = MAX_KEPT) -> CandidateSet:
    """De-duplicate by canonical image: the first selector that yields an image owns it (MS-173)."""
    seen: defaultdict[Repository, set[str]] = defaultdict(set)
    size = 0
    by_selector = []
    for groups in found:
        own = []
        for group in sorted(groups, key=lambda group: group.origin):
            known = seen[group.origin]
            fresh = [version for version in group.versions if version not in known]
            known.update(fresh)
            shown = fresh[: max(0, kept - size)]
            size += len(fresh)
            if shown:
                own.append(FoundImages.of(group.origin, shown))
        by_selector.append(tuple(own))
    return CandidateSet(tuple(by_selector), size)
