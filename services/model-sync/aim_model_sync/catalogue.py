"""Which AIMClusterModels there are: those of a source, and those of an image (MS-175…MS-177)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from aim_domain import AIMClusterModel, AIMClusterModelSource, labels
from aim_domain.component_names import ComponentName
from aim_domain.kinds import AIM_CLUSTER_MODEL_SOURCE
from aim_domain.naming import label_value
from aim_domain.parts import CLUSTER_MODELS
from aim_model_sync.codes import Code, SyncCode
from aim_model_sync.outcome import Refusal
from aim_model_sync.selection import model_name
from aim_model_sync.words import counted
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
    told = find_condition(model.status.conditions, ComponentName.IMAGE_METADATA.condition)
    if told is None or told.status is not ConditionStatus.FALSE:
        return None
    code = _REFUSED.get(told.reason)
    if code is None or told.observed_generation not in (None, 0, model.metadata.generation):
        return None
    return code, f"AIMClusterModel {model.name}: {told.message}"


def refusals(view: View, managed: Managed, pinned: Mapping[int, ImageReference]) -> Mapping[int, Refusal]:
    """The pinned images that cannot be resolved, by index of their selector (MS-385, MS-391)."""
    own = {model.name: model for model in managed.models}
    found: dict[int, Refusal] = {}
    for index, image in pinned.items():
        told = [verdict(model) for model in _models_of(view, own, image)]
        first = next((one for one in told if one is not None), None)
        if first is not None and None not in told:
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
        f"waiting until garbage collection has removed {counted(len(left), 'model')} "
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
