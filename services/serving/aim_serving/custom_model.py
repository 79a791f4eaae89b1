"""Models described inline: which existing model is the same, and the one that is made otherwise (SV-073…SV-080)."""

from collections.abc import Iterable, Sequence
from typing import Final

from aim_domain import AIMModel, AIMService, CustomModel, ModelSource, labels
from aim_domain.naming import HashSource, derive_name, optional_label_value
from aim_serving.hardware import canonical_hardware
from aim_serving.written_quantities import written, written_hardware
from controller_runtime import JsonObject, to_json

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
    return {**to_json(source), **({} if source.size is None else {"size": written(source.size)})}


def _identity(source: ModelSource) -> tuple[str, str, str]:
    endpoints = (variable.value or "" for variable in source.env if variable.name == ENDPOINT)
    return (source.model_id, source.source_uri, next(endpoints, ""))


def _first_id(sources: Sequence[ModelSource]) -> str:
    return sources[0].model_id if sources else ""
