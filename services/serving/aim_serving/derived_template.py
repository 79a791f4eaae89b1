"""The template that a service's overrides turn its base into (SV-108…SV-115, SV-265)."""

from typing import Final

from aim_domain import (
    DEFAULT_GPU_RESOURCE,
    AIMService,
    AIMServiceTemplate,
    Hardware,
    LabelPropagation,
    Overrides,
    canonical_model,
    child_labels,
    labels,
)
from aim_domain.kinds import AIM_SERVICE_TEMPLATE
from aim_domain.naming import HASH_LENGTH, HashSource, derive_name
from aim_domain.parts import TEMPLATES
from aim_serving.containers import CanonicalValue, canonical_hardware, written_hardware, written_resources
from aim_serving.references import Template, scope_of
from aim_serving.template_selection import traits_of
from controller_runtime import Child, JsonObject, WriteMode, kind_of, to_json

_SHORT_HASH: Final = 4
_IDENTITY: Final = ("modelName", "metric", "precision")


def derived_name(base: str, overrides: Overrides) -> str:
    """Its usual name, the same for all services with this base and these overrides (SV-110, SV-112)."""
    parts, inputs = _parts_and_inputs(overrides)
    return derive_name([base, "ovr", *parts], inputs, hash_length=_SHORT_HASH)


def other_derived_name(base: Template, overrides: Overrides) -> str:
    """Its name when the usual one is taken by something else (SV-265)."""
    parts, inputs = _parts_and_inputs(overrides)
    inputs = [scope_of(base).value, base.name, *inputs]
    return derive_name([base.name, "ovr", *parts], inputs, hash_length=HASH_LENGTH)


def _parts_and_inputs(overrides: Overrides) -> tuple[list[str], list[HashSource]]:
    gpu = overrides.hardware.gpu if overrides.hardware else None
    rows: list[tuple[str, tuple[HashSource, ...]]] = []
    if gpu and gpu.model:
        rows.append((gpu.model.lower(), ("gpu", gpu.model)))
    if gpu and gpu.requests:
        rows.append((f"{gpu.requests}gpu", ("count", gpu.requests)))
    if other := _other_hardware(overrides.hardware):
        rows.append(("hw", ("hw", other)))
    if overrides.precision:
        rows.append((overrides.precision.value, ("precision", overrides.precision.value)))
    if overrides.metric:
        rows.append((overrides.metric.value, ("metric", overrides.metric.value)))
    return [part for part, _ in rows], [source for _, sources in rows for source in sources]


def _other_hardware(hardware: Hardware | None) -> dict[str, CanonicalValue | dict[str, CanonicalValue]]:
    """What of the hardware has no row of its own in the name."""
    canonical = canonical_hardware(hardware)
    gpu = canonical.get("gpu", {})
    other: dict[str, CanonicalValue | dict[str, CanonicalValue]] = {}
    if "minVram" in gpu:
        other["minVram"] = gpu["minVram"]
    if gpu.get("resourceName", DEFAULT_GPU_RESOURCE) != DEFAULT_GPU_RESOURCE:
        other["resourceName"] = gpu["resourceName"]
    return {**other, "cpu": canonical["cpu"]} if "cpu" in canonical else other


def is_derived(template: AIMServiceTemplate) -> bool:
    """Whether the template was made for overrides."""
    return template.metadata.labels.get(labels.ORIGIN) == labels.ORIGIN_DERIVED


def is_the_same(template: AIMServiceTemplate, spec: JsonObject) -> bool:
    """Whether an existing template is what would be made (SV-265)."""
    own = to_json(template.spec)
    hardware = Hardware.model_validate(spec.get("hardware") or {})
    return (
        is_derived(template)
        and all(own.get(name) == spec.get(name) for name in _IDENTITY)
        and canonical_hardware(template.spec.hardware) == canonical_hardware(hardware)
    )


def derived_spec(base: Template, service: AIMService, overrides: Overrides, model_name: str) -> JsonObject:
    """Spec of the derived template, starting from the base's (SV-113)."""
    spec = to_json(base.spec)
    wanted: JsonObject = {
        "modelName": base.spec.model_name or model_name,
        "runtimeConfigName": (service.spec.runtime_config_name or "").strip()
        or base.spec.runtime_config_name
        or "default",
    }
    if overrides.metric:
        wanted["metric"] = overrides.metric.value
    if overrides.precision:
        wanted["precision"] = overrides.precision.value
    if overrides.hardware:
        wanted["hardware"] = written_hardware(overrides.hardware)
    if service.spec.image_pull_secrets:
        wanted["imagePullSecrets"] = [to_json(secret) for secret in service.spec.image_pull_secrets]
    if service.spec.resources is not None:
        wanted["resources"] = written_resources(service.spec.resources)
    dropped = {"caching", *({"profileId"} if _changes_profile(base, overrides) else ())}
    kept = {name: value for name, value in spec.items() if name not in dropped}
    return {**kept, **wanted, **_caching(base)}


def _changes_profile(base: Template, overrides: Overrides) -> bool:
    """Whether the base's pinned profile cannot be meant any more."""
    traits = traits_of(base)
    gpu = overrides.hardware.gpu if overrides.hardware else None
    return bool(
        (overrides.metric and overrides.metric.value != traits.metric)
        or (overrides.precision and overrides.precision.value != traits.precision)
        or (gpu and gpu.model and canonical_model(gpu.model) != canonical_model(traits.gpu_model))
        or (gpu and gpu.requests and gpu.requests != traits.gpu_count)
    )


def _caching(base: Template) -> JsonObject:
    """Only the variables: the service makes the cache itself, so that it does not vanish with the template."""
    caching = base.spec.caching if isinstance(base, AIMServiceTemplate) else None
    if caching is None or not caching.env:
        return {}
    return {"caching": {"enabled": False, "env": [to_json(variable) for variable in caching.env]}}


def owner_reference(service: AIMService) -> JsonObject:
    """The reference of a service that uses the template; never a controller's (FW-213)."""
    return {"apiVersion": service.api_version, "kind": service.kind, "name": service.name, "uid": service.uid}


def new_derived_template(
    service: AIMService, name: str, spec: JsonObject, propagation: LabelPropagation | None
) -> Child:
    """The template to create (SV-109, SV-111)."""
    own = {labels.APP_MANAGED_BY: labels.APP_MANAGED_BY_ENGINE, labels.ORIGIN: labels.ORIGIN_DERIVED}
    metadata = {
        "name": name,
        "namespace": service.namespace,
        "labels": child_labels(own, parent=service, controller="service", propagation=propagation),
        "ownerReferences": [owner_reference(service)],
    }
    body = kind_of({"metadata": metadata, "spec": spec}, AIM_SERVICE_TEMPLATE)
    return Child(TEMPLATES, body, owned=False, mode=WriteMode.CREATE)
