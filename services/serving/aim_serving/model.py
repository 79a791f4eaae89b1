"""The model of a service: found by name, by image or as a custom one, and whether it can be used."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from aim_domain import (
    AIMClusterModel,
    AIMModel,
    AIMService,
    CustomModel,
    LabelPropagation,
    ModelSource,
    ResolutionScope,
    ResolvedReference,
    child_labels,
    labels,
)
from aim_domain.component_names import ComponentName
from aim_domain.kinds import AIM_MODEL
from aim_domain.naming import HashSource, derive_name, image_model_name, optional_label_value
from aim_domain.parts import CLUSTER_MODELS, MODELS
from aim_serving.containers import canonical_hardware, canonical_text, written_hardware
from aim_serving.indexes import (
    CLUSTER_MODELS_BY_CANONICAL_IMAGE,
    CLUSTER_MODELS_BY_IMAGE,
    MODELS_BY_CANONICAL_IMAGE,
    MODELS_BY_IMAGE,
    canonical_image,
)
from aim_serving.references import Model, is_ready, name_of
from controller_runtime import (
    Category,
    Child,
    ClassifiedError,
    Component,
    Dependency,
    JsonObject,
    Selection,
    State,
    StatusValue,
    View,
    WriteMode,
    kind_of,
    ready_words,
    scoped,
    to_json,
)

ENDPOINT: Final = "AWS_ENDPOINT_URL"
"""The one variable of a source that makes it another source."""


def matching_model(models: Iterable[AIMModel], custom: CustomModel) -> AIMModel | None:
    """The first by name of those that serve the same weights on the same hardware (SV-073, SV-074)."""
    return min((model for model in models if matches(model, custom)), key=lambda model: model.name, default=None)


def matches(model: AIMModel, custom: CustomModel) -> bool:
    """Whether image, sources and hardware are equal (SV-073)."""
    hardware = model.spec.custom.hardware if model.spec.custom else None
    return (
        model.spec.image == custom.base_image
        and hardware is not None
        and canonical_hardware(hardware) == canonical_hardware(custom.hardware)
        and [_identity(source) for source in model.spec.model_sources]
        == [_identity(source) for source in custom.model_sources]
    )


def custom_model_name(custom: CustomModel) -> str:
    """Name of the model made for it; depends on everything that is compared, and on nothing else (SV-075)."""
    inputs: list[HashSource] = [custom.base_image]
    for source in custom.model_sources:
        inputs += [text for text in _identity(source) if text]
    inputs.append(canonical_hardware(custom.hardware))
    return derive_name([_first_id(custom.model_sources) or "custom-model"], inputs)


def custom_model_labels(service: AIMService) -> dict[str, str]:
    """Labels of the model made for a service (SV-076)."""
    name = optional_label_value(service.name)
    return {
        labels.ORIGIN: labels.ORIGIN_AUTO_GENERATED,
        labels.CUSTOM_MODEL: labels.TRUE,
        **({labels.SERVICE: name} if name else {}),
    }


def custom_model_spec(service: AIMService, custom: CustomModel) -> JsonObject:
    """Spec of the model made for a service, without what all made models have (SV-077)."""
    env = [to_json(variable) for variable in service.spec.env]
    return {
        "image": custom.base_image,
        "modelSources": [_written_source(source) for source in custom.model_sources],
        "custom": {"hardware": written_hardware(custom.hardware)},
        **({"env": env} if env else {}),
    }


def _written_source(source: ModelSource) -> JsonObject:
    return {**to_json(source), **({} if source.size is None else {"size": canonical_text(source.size)})}


def _identity(source: ModelSource) -> tuple[str, str, str]:
    endpoints = (variable.value or "" for variable in source.env if variable.name == ENDPOINT)
    return (source.model_id, source.source_uri, next(endpoints, ""))


def _first_id(sources: Sequence[ModelSource]) -> str:
    return sources[0].model_id if sources else ""


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
    stored = _stored_model(view, service)
    if stored.error is not None:
        return stored
    if stored.model is not None and is_ready(stored.model) and _is_asked_for(stored.model, service):
        return stored
    model = service.spec.model
    if model.custom is not None:
        return _by_description(view, service, model.custom, propagation)
    if image := (model.image or "").strip():
        return _by_image(view, service, image, propagation)
    if name := (model.name or "").strip():
        return _by_name(view, service, name)
    return _invalid(MODEL_NOT_FOUND, "spec.model names no model; set one of name, image and custom")


def _is_asked_for(model: Model, service: AIMService) -> bool:
    """Whether the stored model is that of the spec, which changes with a rollout alone (SV-340, CEL-11)."""
    asked = service.spec.model
    if service.spec.rollout is None:
        return True
    if asked.custom is not None:
        return isinstance(model, AIMModel) and matches(model, asked.custom)
    if image := (asked.image or "").strip():
        return canonical_image(model.spec.image) == canonical_image(image)
    return model.name == (asked.name or "").strip()


def _stored_model(view: View, service: AIMService) -> ModelResult:
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
        listed = ", ".join(name_of(model) for model in matches_)
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


_NOT_READY: Final[Mapping[StatusValue, tuple[State, str]]] = MappingProxyType(
    {
        StatusValue.PENDING: (State.PROGRESSING, "is not ready yet"),
        StatusValue.PROGRESSING: (State.PROGRESSING, "is not ready yet"),
        StatusValue.FAILED: (State.FAILED, "has failed"),
        StatusValue.DEGRADED: (State.FAILED, "is degraded"),
    }
)


def model_component(
    result: ModelResult, stored: ResolvedReference | None, *, running: bool, template_ready: bool
) -> Component:
    """How the model is doing.

    Args:
        stored: what an earlier pass resolved to.
        running: whether the InferenceService exists.
        template_ready: whether the template of the service is Ready.
    """
    if result.error is not None:
        return _model(State.FAILED, result.error.reason, result.error.message, result)
    if result.create is not None:
        message = f"AIMModel {result.create.name} is being created for {result.wanted}"
        return Component(ComponentName.MODEL, State.PENDING, "CreatingModel", message)
    if result.model is not None:
        return _found_component(result.model, in_use=running and template_ready)
    if running and stored is not None:
        message = f"using {_kind(stored)} {stored.name} as resolved before"
        return _model(State.READY, "ModelResolved", message)
    return _model(State.PENDING, MODEL_NOT_FOUND, "no model is resolved yet")


def _found_component(model: Model, *, in_use: bool) -> Component:
    status = model.status.status
    if status is StatusValue.READY:
        return _model(State.READY, "ModelResolved", f"using {name_of(model)}")
    state, words = _NOT_READY.get(status, (State.PROGRESSING, f"is {status.value}"))
    unusable = state is State.FAILED or status is StatusValue.NOT_AVAILABLE
    message = f"{name_of(model)} {words}{ready_words(model.status.conditions) if unusable else ''}"
    if state is not State.FAILED:
        return _model(state, "ModelNotReady", message)
    # What serves goes on with its template, whatever the image or another template of the model has (SV-219).
    return _model(State.DEGRADED if in_use else state, "ModelNotReady", message)


def _model(state: State, reason: str, message: str, result: ModelResult | None = None) -> Component:
    errors = () if result is None or result.error is None else (result.error,)
    return Component(ComponentName.MODEL, state, reason, message, errors, Dependency.UPSTREAM)


def _kind(reference: ResolvedReference) -> str:
    return (reference.kind or "model").rsplit("/", 1)[-1]
