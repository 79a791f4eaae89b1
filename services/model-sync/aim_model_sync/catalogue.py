"""The models of a source: which images are selected, and which models exist."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from aim_domain import AIMClusterModel, AIMClusterModelSource, labels
from aim_domain.component_names import ComponentName
from aim_domain.kinds import AIM_CLUSTER_MODEL_SOURCE
from aim_domain.naming import catalogue_model_name, derive_name, label_value
from aim_domain.parts import CLUSTER_MODELS
from aim_model_sync.codes import Code, SyncCode
from aim_model_sync.conditions import count_of
from aim_model_sync.outcome import Refusal
from controller_runtime import (
    ClassifiedError,
    ConditionStatus,
    Index,
    View,
    find_condition,
    is_left_by_predecessor,
    label_index,
    owner_index,
    scoped,
)
from oci_registry import ImageReference, InvalidReferenceError, RegistryErrorCode, Repository, parse_image

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


_SOURCE_KIND: Final = "AIMClusterModelSource"


_REFUSED: Final[Mapping[str, Code]] = MappingProxyType(
    {
        "ImageNotFound": RegistryErrorCode.NOT_FOUND,
        "ImagePullAuthFailure": RegistryErrorCode.AUTH_FAILED,
        "SecretNotFound": RegistryErrorCode.MISSING_CREDENTIALS,
        "SecretAccessFailed": SyncCode.SECRET_ACCESS_FAILED,
        "MetadataExtractionFailed": SyncCode.IMAGE_UNREADABLE,
    }
)
"""Reasons of a model's ``ImageMetadataReady`` that mean that its image cannot be resolved (MS-386…MS-390)."""


def image_of_model(model: AIMClusterModel) -> ImageReference | None:
    """The canonical image of a model; ``None`` for a text that is no reference."""
    try:
        return parse_image(model.spec.image)
    except InvalidReferenceError:
        return None


def _repository(model: AIMClusterModel) -> list[str]:
    image = image_of_model(model)
    return [] if image is None else [str(image.repository)]


MODELS_BY_LABEL: Final = label_index(CLUSTER_MODELS, labels.MODEL_SOURCE)
MODELS_BY_OWNER: Final = owner_index(CLUSTER_MODELS)
MODELS_BY_REPOSITORY: Final = Index(CLUSTER_MODELS, "repository", _repository)
"""Models by canonical repository: one look-up answers for all tags of it."""


@dataclass(frozen=True, slots=True)
class Managed:
    """The models of a source.

    Attributes:
        error: why they are not known (MS-283).
    """

    models: tuple[AIMClusterModel, ...] = ()
    error: ClassifiedError | None = None

    @property
    def images(self) -> frozenset[ImageReference]:
        """Their canonical images."""
        return frozenset(image for model in self.models if (image := image_of_model(model)) is not None)


def managed_models(view: View, source: AIMClusterModelSource) -> Managed:
    """Models with the source's label and no other source as controller, and all it controls (MS-175, MS-240)."""
    labelled = view.select(MODELS_BY_LABEL, scoped(None, label_value(source.name)))
    owned = view.select(MODELS_BY_OWNER, scoped(None, source.uid))
    found = {model.name: model for model in labelled.items if not _belongs_to_another(model, source)}
    found |= {model.name: model for model in owned.items if source.uid in controllers(model)}
    if not found and (labelled.error or owned.error):
        return Managed(error=labelled.error or owned.error)
    return Managed(tuple(found[name] for name in sorted(found)))


def verdict(model: AIMClusterModel) -> tuple[Code, str] | None:
    """That the image of the model cannot be resolved, with code and cause; ``None`` where it says nothing (MS-385)."""
    reported = find_condition(model.status.conditions, ComponentName.IMAGE_METADATA.condition)
    if reported is None or reported.status is not ConditionStatus.FALSE:
        return None
    code = _REFUSED.get(reported.reason)
    if code is None or reported.observed_generation not in (None, 0, model.metadata.generation):
        return None
    return code, f"AIMClusterModel {model.name}: {reported.message}"


def refusals(view: View, managed: Managed, pinned: Mapping[int, ImageReference]) -> Mapping[int, Refusal]:
    """The pinned images that cannot be resolved, by index of their selector (MS-385, MS-391)."""
    own = {model.name: model for model in managed.models}
    found: dict[int, Refusal] = {}
    for index, image in pinned.items():
        reported = [verdict(model) for model in _models_of(view, own, image)]
        first = next((one for one in reported if one is not None), None)
        if first is not None and None not in reported:
            found[index] = Refusal(image, *first)
    return found


def _models_of(view: View, own: Mapping[str, AIMClusterModel], image: ImageReference) -> tuple[AIMClusterModel, ...]:
    """The models that speak for an image: the source's, else all others."""
    made = own.get(model_name(image))
    if made is not None and image_of_model(made) == image:
        # Known by name, because a source may have thousands of models and few pinned images.
        return (made,)
    found = view.select(MODELS_BY_REPOSITORY, str(image.repository)).items
    of_image = tuple(model for model in found if image_of_model(model) == image)
    return tuple(model for model in of_image if model.name in own) or of_image


def left_by_predecessor(view: View, source: AIMClusterModelSource) -> str | None:
    """That garbage collection has not reached models of an earlier source of this name yet (MS-239); else ``None``.

    They are of the images that this source selects, and there is no second chance to notice that they have gone before
    the next sync: concluding waits for it.
    """
    labelled = view.select(MODELS_BY_LABEL, scoped(None, label_value(source.name))).items
    left = sorted(model.name for model in labelled if is_left_by_predecessor(model, source, AIM_CLUSTER_MODEL_SOURCE))
    if not left:
        return None
    return (
        f"waiting until garbage collection has removed {count_of(len(left), 'model')} "
        f"of an earlier source of this name, first {left[0]}"
    )


def controllers(model: AIMClusterModel) -> tuple[str, ...]:
    """UIDs of the sources that control a model (at most one, if Kubernetes had its way)."""
    references = model.metadata.owner_references
    return tuple(one.uid for one in references if one.controller and one.kind == _SOURCE_KIND)


def _belongs_to_another(model: AIMClusterModel, source: AIMClusterModelSource) -> bool:
    return any(uid != source.uid for uid in controllers(model))


@dataclass(slots=True)
class Elsewhere:
    """Images that have a model which is not the source's; looked up once per repository."""

    view: View
    managed: frozenset[str]
    _images: dict[Repository, frozenset[ImageReference]] = field(default_factory=dict)

    def __call__(self, image: ImageReference) -> bool:
        """Whether the image has such a model (MS-177)."""
        known = self._images.get(image.repository)
        if known is None:
            # The next sync asks again; until then nothing follows from it (MS-177).
            found = self.view.untracked.select(MODELS_BY_REPOSITORY, str(image.repository)).items
            foreign = (image_of_model(model) for model in found if model.name not in self.managed)
            known = frozenset(one for one in foreign if one is not None)
            self._images[image.repository] = known
        return image in known
