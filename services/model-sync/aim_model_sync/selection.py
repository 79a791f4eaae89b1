"""Which candidates become models: the limit and what stands in the way (MS-176…MS-181, MS-233)."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from aim_domain.naming import catalogue_model_name, derive_name
from oci_registry import ImageReference

_NAME_HASH: Final = 6
_DIGEST_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be done about the candidates.

    Attributes:
        create: images to make a model of, in candidate order.
        withheld: number of images that the limit keeps from becoming models.
        collisions: images whose model name another image has.
    """

    create: tuple[ImageReference, ...] = ()
    withheld: int = 0
    collisions: tuple[ImageReference, ...] = ()


def model_name(image: ImageReference) -> str:
    """Name of the model of an image; it does not depend on the source (MS-182…MS-187)."""
    repository = image.repository
    if image.digest is None:
        return catalogue_model_name(repository.registry, repository.path, image.version)
    digits = image.digest.removeprefix("sha256:")[:_DIGEST_DIGITS]
    sources = [repository.registry, repository.path, image.digest]
    return derive_name([repository.path, digits], sources, hash_length=_NAME_HASH)


def choose(
    candidates: Iterable[ImageReference],
    *,
    managed: Collection[ImageReference],
    has_model: Callable[[ImageReference], bool],
    is_taken: Callable[[str], bool],
    capacity: int,
) -> Choice:
    """Divide the candidates; the first ones in candidate order win (MS-178).

    Args:
        managed: images of the source's models.
        has_model: whether an image has a model that is not the source's (MS-177).
        is_taken: whether a model of another image has this name.
        capacity: how many models may still be made.
    """
    create: list[ImageReference] = []
    collisions: list[ImageReference] = []
    names: set[str] = set()
    withheld = 0
    for image in candidates:
        if image in managed or has_model(image):
            continue
        if len(create) >= capacity:
            withheld += 1
            continue
        name = model_name(image)
        if name in names or is_taken(name):
            collisions.append(image)
            continue
        names.add(name)
        create.append(image)
    return Choice(tuple(create), withheld, tuple(collisions))
