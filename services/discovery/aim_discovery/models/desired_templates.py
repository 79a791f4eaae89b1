"""The templates that a model makes, and their names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from aim_discovery.models.custom_merge import cpu_resources, merge_hardware, overlay_env
from aim_discovery.models.expectation import DiscoveryFlags, recommended
from aim_domain import (
    AIMModelSpec,
    CustomTemplate,
    Hardware,
    ImageMetadata,
    Metric,
    Precision,
    ProfileType,
    RecommendedDeployment,
    labels,
)
from aim_domain.naming import HashSource, derive_name, label_value
from controller_runtime import Category, ClassifiedError, Event, EventType, JsonObject, to_json

_RECOMMENDED_HASH: Final = 4
_SHORT_METRICS: Final = {"latency": "lat", "throughput": "thr"}


def recommended_template_name(model: str, image: str, deployment: RecommendedDeployment) -> str:
    """Name of the template of a recommended deployment."""
    count, gpu = deployment.gpu_count or 0, deployment.gpu_model or ""
    metric, precision = deployment.metric or "", deployment.precision or ""
    hardware = f"{count}x-{gpu}" if gpu and count > 0 else gpu or (f"x{count}" if count > 0 else "")
    suffix = "-".join(part for part in (hardware, _SHORT_METRICS.get(metric, metric), precision) if part)
    hashed = [model, image, gpu, f"x{count}" if count > 0 else "", metric, precision]
    return derive_name([image, suffix], ["-".join(part for part in hashed if part)], hash_length=_RECOMMENDED_HASH)


def custom_template_name(model: str, entry: CustomTemplate, index: int) -> str:
    """Name of the template of an entry of ``customTemplates``."""
    gpu = entry.hardware.gpu if entry.hardware is not None else None
    profile = entry.profile
    precision = profile.precision if profile is not None else None
    gpu_model = gpu.model if gpu is not None else None
    hashed: list[HashSource] = [model, index, entry.name or ""]
    if profile is not None:
        hashed += [str(profile.precision or ""), str(profile.metric or "")]
    if gpu is not None:
        hashed += [gpu.requests or 0, gpu.model or ""]
    parts = [model, "custom", *(str(part) for part in (entry.name, precision, gpu_model) if part)]
    return derive_name(parts, hashed)


def generated_template_name(model: str) -> str:
    """Name of the one template of a custom model without ``customTemplates`` (DI-148)."""
    return derive_name([model, "custom"], [model, 0])


_LONGEST_GPU_MODEL: Final = 64
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class DesiredTemplate:
    """Name, own labels and spec of one template."""

    name: str
    labels: dict[str, str]
    spec: JsonObject


@dataclass(slots=True)
class DesiredTemplates:
    """All templates of a model, with what is wrong about those that were left out."""

    templates: dict[str, DesiredTemplate] = field(default_factory=dict)
    warnings: list[Event] = field(default_factory=list)
    error: ClassifiedError | None = None

    @property
    def unusable(self) -> str:
        """Why none of the recommended deployments becomes a template; empty when one does or there is none (DI-421)."""
        if self.templates or not self.warnings:
            return ""
        more = len(self.warnings) - 1
        return self.warnings[0].message + (f", and {more} more" if more else "")


def desired_templates(
    model: str, spec: AIMModelSpec, flags: DiscoveryFlags, effective: ImageMetadata | None
) -> DesiredTemplates:
    """What the model creates; nothing of it depends on the cluster."""
    result = DesiredTemplates()
    if flags.suppressed:
        return result
    result.error = _bad_alias(spec)
    if not spec.model_sources and flags.create:
        for deployment in recommended(effective):
            _add_recommended(result, model, spec, deployment)
    for template in _custom_templates(model, spec):
        result.templates.setdefault(template.name, template)
    return result


def _add_recommended(
    result: DesiredTemplates, model: str, spec: AIMModelSpec, deployment: RecommendedDeployment
) -> None:
    fault = _fault(deployment)
    if fault:
        message = f"recommended deployment {_formatted(deployment)} of {spec.image} is skipped: {fault}"
        result.warnings.append(_warning("InvalidRecommendedDeployment", message))
        return
    name = recommended_template_name(model, spec.image, deployment)
    if name in result.templates:
        message = f"recommended deployment {_formatted(deployment)} of {spec.image} gives template {name} a second time"
        result.warnings.append(_warning("DuplicateRecommendedDeployment", message))
        return
    result.templates[name] = DesiredTemplate(name, _labels(model), _recommended_spec(model, spec, deployment))


def _fault(deployment: RecommendedDeployment) -> str:
    """Why the API server would refuse a template of the deployment (DI-123)."""
    if deployment.metric and not Metric(deployment.metric).known:
        return f"metric {deployment.metric!r} is not one of {', '.join(Metric)}"
    if deployment.precision and not Precision(deployment.precision).known:
        return f"precision {deployment.precision!r} is not one of {', '.join(Precision)}"
    if len(deployment.gpu_model or "") > _LONGEST_GPU_MODEL:
        return f"gpuModel has more than {_LONGEST_GPU_MODEL} characters"
    return ""


def _recommended_spec(model: str, spec: AIMModelSpec, deployment: RecommendedDeployment) -> JsonObject:
    count = deployment.gpu_count or 0
    has_gpu = bool(deployment.gpu_model) and count > 0
    own: JsonObject = {
        "metric": deployment.metric or None,
        "precision": deployment.precision or None,
        "profileId": deployment.profile_id or None,
        "hardware": {"gpu": {"requests": count, "model": deployment.gpu_model}} if has_gpu else None,
    }
    return {**_common_spec(model, spec), **{name: value for name, value in own.items() if value is not None}}


def _custom_templates(model: str, spec: AIMModelSpec) -> Iterator[DesiredTemplate]:
    for index, entry in enumerate(spec.custom_templates):
        alias = {labels.TEMPLATE_ALIAS: entry.name} if entry.name else {}
        name = custom_template_name(model, entry, index)
        yield DesiredTemplate(name, {**_labels(model), **alias}, _entry_spec(model, spec, entry))
    if spec.model_sources and not spec.custom_templates:
        name = generated_template_name(model)
        yield DesiredTemplate(name, _labels(model), _generated_spec(model, spec))


def _entry_spec(model: str, spec: AIMModelSpec, entry: CustomTemplate) -> JsonObject:
    default = spec.custom.hardware if spec.custom is not None else None
    hardware = merge_hardware(default, entry.hardware)
    kind = entry.type if entry.has("type") else None
    given = to_json(entry)
    profile = entry.profile
    own: JsonObject = {
        "type": (kind or _default_type(spec)).value,
        "env": [to_json(variable) for variable in overlay_env(spec.env, entry.env)] or None,
        "metric": profile.metric.value if profile is not None and profile.metric else None,
        "precision": profile.precision.value if profile is not None and profile.precision else None,
        **{name: given.get(name) for name in ("aimId", "modelId", "customProfile")},
    }
    return _with_sources(model, spec, hardware, own)


def _generated_spec(model: str, spec: AIMModelSpec) -> JsonObject:
    own: JsonObject = {
        "type": _default_type(spec).value,
        "env": [to_json(variable) for variable in spec.env] or None,
    }
    return _with_sources(model, spec, spec.custom.hardware if spec.custom is not None else None, own)


def _with_sources(model: str, spec: AIMModelSpec, hardware: Hardware | None, own: JsonObject) -> JsonObject:
    resources = cpu_resources(hardware)
    shared: JsonObject = {
        "modelSources": [to_json(source) for source in spec.model_sources] or None,
        "hardware": None if hardware is None else to_json(hardware),
        "resources": None if resources is None else to_json(resources),
    }
    return {
        **_common_spec(model, spec),
        **{name: value for name, value in {**own, **shared}.items() if value is not None},
    }


def _common_spec(model: str, spec: AIMModelSpec) -> JsonObject:
    secrets = [to_json(secret) for secret in spec.image_pull_secrets]
    return {
        "modelName": model,
        **({"imagePullSecrets": secrets} if secrets else {}),
        **({"serviceAccountName": spec.service_account_name} if spec.service_account_name else {}),
    }


def _default_type(spec: AIMModelSpec) -> ProfileType:
    """Type where an entry names none (DI-137)."""
    return (spec.custom.type if spec.custom is not None else None) or ProfileType.UNOPTIMIZED


def _labels(model: str) -> dict[str, str]:
    return {labels.MODEL: label_value(model), labels.ORIGIN: labels.ORIGIN_AUTO_GENERATED}


def _bad_alias(spec: AIMModelSpec) -> ClassifiedError | None:
    """An entry whose name cannot become a label (DI-145)."""
    for number, entry in enumerate(spec.custom_templates):
        if entry.name and not _LABEL_VALUE.fullmatch(entry.name):
            message = (
                f"spec.customTemplates[{number}].name {entry.name!r} is not a valid label value; "
                "use at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
            )
            return ClassifiedError(Category.INVALID_SPEC, "InvalidTemplateName", message)
    return None


def _formatted(deployment: RecommendedDeployment) -> str:
    parts = (f"{name}={value}" for name, value in to_json(deployment).items() if name != "description" and value)
    return f"({', '.join(parts)})"


def _warning(reason: str, message: str) -> Event:
    return Event(EventType.WARNING, reason, message, standing=True)
