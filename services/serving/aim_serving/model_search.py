"""Which model a service uses: by name, by image, or one described inline (SV-054…SV-081)."""

from dataclasses import dataclass

from aim_domain import (
    AIMClusterModel,
    AIMModel,
    AIMService,
    CustomModel,
    LabelPropagation,
    ResolutionScope,
    child_labels,
    labels,
)
from aim_domain.kinds import AIM_MODEL
from aim_domain.naming import image_model_name
from aim_domain.parts import CLUSTER_MODELS, MODELS
from aim_serving.custom_model import (
    custom_model_labels,
    custom_model_name,
    custom_model_spec,
    matches,
    matching_model,
)
from aim_serving.image_name import ImageNameError, parse_image_name
from aim_serving.indexes import (
    CLUSTER_MODELS_BY_CANONICAL_IMAGE,
    CLUSTER_MODELS_BY_IMAGE,
    MODELS_BY_CANONICAL_IMAGE,
    MODELS_BY_IMAGE,
    canonical_image,
)
from aim_serving.references import Model, described, is_ready
from controller_runtime import (
    Category,
    Child,
    ClassifiedError,
    JsonObject,
    Selection,
    View,
    WriteMode,
    kind_of,
    scoped,
    to_json,
)

MODEL_NOT_FOUND = "ModelNotFound"


@dataclass(frozen=True, slots=True)
class ModelResult:
    """What the search came to: a model, one to be made, or an error; all empty when nothing was searched.

    Attributes:
        wanted: what the model is made for, for the message.
    """

    model: Model | None = None
    create: Child | None = None
    wanted: str = ""
    error: ClassifiedError | None = None


def find_model(view: View, service: AIMService, propagation: LabelPropagation | None) -> ModelResult:
    """The stored model while it is Ready, else what the spec leads to (SV-054, SV-055)."""
    stored = _stored(view, service)
    if stored.error is not None or (stored.model is not None and is_ready(stored.model)):
        return stored
    model = service.spec.model
    if model.custom is not None:
        return _by_description(view, service, model.custom, propagation)
    if image := (model.image or "").strip():
        return _by_image(view, service, image, propagation)
    if name := (model.name or "").strip():
        return _by_name(view, service, name)
    return _invalid(MODEL_NOT_FOUND, "spec.model names no model; set one of name, image and custom")


def _stored(view: View, service: AIMService) -> ModelResult:
    reference = service.status.resolved_model
    if reference is None or not reference.name:
        return ModelResult()
    if reference.scope is ResolutionScope.CLUSTER:
        in_cluster = view.get(CLUSTER_MODELS, None, reference.name)
        return ModelResult(in_cluster.value, error=in_cluster.error)
    local = view.get(MODELS, service.namespace, reference.name)
    return ModelResult(local.value, error=local.error)


def _by_name(view: View, service: AIMService, name: str) -> ModelResult:
    """The namespace's model wins; the cluster's is not even looked at then (SV-058…SV-060)."""
    local = view.get(MODELS, service.namespace, name)
    if local.value is not None or local.error is not None:
        return ModelResult(local.value, error=local.error)
    in_cluster = view.get(CLUSTER_MODELS, None, name)
    if in_cluster.value is not None or in_cluster.error is not None:
        return ModelResult(in_cluster.value, error=in_cluster.error)
    message = f"neither AIMModel {service.namespace}/{name} nor AIMClusterModel {name} exists; create one of them"
    return ModelResult(error=ClassifiedError(Category.MISSING_UPSTREAM, MODEL_NOT_FOUND, message))


# By image


def _by_image(view: View, service: AIMService, image: str, propagation: LabelPropagation | None) -> ModelResult:
    namespace = service.namespace
    exact = (
        view.select(MODELS_BY_IMAGE, scoped(namespace, image)),
        view.select(CLUSTER_MODELS_BY_IMAGE, image),
    )
    found = _only(image, *exact)
    if found is not None:
        return found
    canonical = canonical_image(image)
    similar = (
        view.select(MODELS_BY_CANONICAL_IMAGE, scoped(namespace, canonical)),
        view.select(CLUSTER_MODELS_BY_CANONICAL_IMAGE, canonical),
    )
    # Another spelling is never ambiguous: namespace first, then the smallest name (SV-061).
    spelled_otherwise: tuple[Model, ...] = (*similar[0].items, *similar[1].items)
    if spelled_otherwise:
        return ModelResult(spelled_otherwise[0])
    return _to_be_made_for_image(view, service, image, propagation)


def _only(image: str, local: Selection[AIMModel], cluster: Selection[AIMClusterModel]) -> ModelResult | None:
    """The one match of the winning scope; several are an error, and so is not knowing (SV-062, SV-063)."""
    error = local.error or (None if local.items else cluster.error)
    if error is not None:
        return ModelResult(error=error)
    matches_: tuple[Model, ...] = local.items or cluster.items
    if len(matches_) > 1:
        listed = ", ".join(described(model) for model in matches_)
        return _invalid(
            "MultipleModelsFound",
            f"several models have the image {image}: {listed}; name one of them in spec.model.name",
        )
    return ModelResult(matches_[0]) if matches_ else None


def _to_be_made_for_image(
    view: View, service: AIMService, image: str, propagation: LabelPropagation | None
) -> ModelResult:
    try:
        parsed = parse_image_name(image)
    except ImageNameError as error:
        return _invalid("InvalidImageReference", f"spec.model.image: no model has it, and none can be created: {error}")
    name = image_model_name(parsed.name, parsed.tag, image)
    # Whatever has this name now has another image, else the search had found it.
    occupied = _occupied(view, service, name)
    if occupied is not None:
        return occupied
    own_labels = {labels.ORIGIN: labels.ORIGIN_AUTO_GENERATED}
    return ModelResult(create=_child(service, name, own_labels, {"image": image}, propagation), wanted=f"image {image}")


# Described inline


def _by_description(
    view: View, service: AIMService, custom: CustomModel, propagation: LabelPropagation | None
) -> ModelResult:
    candidates = view.select(MODELS_BY_IMAGE, scoped(service.namespace, custom.base_image))
    if candidates.error is not None:
        return ModelResult(error=candidates.error)
    model = matching_model(candidates.items, custom)
    if model is not None:
        return ModelResult(model)
    name = custom_model_name(custom)
    occupied = _occupied(view, service, name, custom)
    if occupied is not None:
        return occupied
    child = _child(service, name, custom_model_labels(service), custom_model_spec(service, custom), propagation)
    wanted = custom.model_sources[0].model_id if custom.model_sources else custom.base_image
    return ModelResult(create=child, wanted=f"custom model {wanted}")


# What all made models have in common


def _occupied(view: View, service: AIMService, name: str, custom: CustomModel | None = None) -> ModelResult | None:
    """The error of a name that another model has already; that one is left alone (SV-267)."""
    there = view.get(MODELS, service.namespace, name)
    if there.error is not None:
        return ModelResult(error=there.error)
    if there.value is None or (custom is not None and matches(there.value, custom)):
        return None
    return _invalid(
        "AlreadyExists",
        f"AIMModel {service.namespace}/{name} exists, but is not what this service asks for; delete or rename it",
    )


def _child(
    service: AIMService,
    name: str,
    own_labels: dict[str, str],
    own_spec: JsonObject,
    propagation: LabelPropagation | None,
) -> Child:
    """A model without owner, so that it outlives the service and is shared (SV-067…SV-070, SV-078)."""
    spec = service.spec
    shared: JsonObject = {
        "runtimeConfigName": spec.runtime_config_name,
        "imagePullSecrets": [to_json(secret) for secret in spec.image_pull_secrets],
        "serviceAccountName": spec.service_account_name,
    }
    body = {
        "metadata": {
            "name": name,
            "namespace": service.namespace,
            "labels": child_labels(own_labels, parent=service, controller="service", propagation=propagation),
        },
        "spec": {**own_spec, **{key: value for key, value in shared.items() if value}},
    }
    return Child(MODELS, kind_of(body, AIM_MODEL), owned=False, mode=WriteMode.CREATE)


def _invalid(reason: str, message: str) -> ModelResult:
    return ModelResult(error=ClassifiedError(Category.INVALID_SPEC, reason, message))
