"""What a service wants differently from its template (SV-097, SV-106, SV-107)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aim_domain import DEFAULT_GPU_RESOURCE, GpuRequirements, Overrides, Precision
from aim_serving.hardware import CanonicalHardware, canonical_hardware
from aim_serving.template_traits import Traits

Normalise: TypeAlias = Callable[[str], str]


def effective_overrides(overrides: Overrides | None, *, selecting: bool = False) -> Overrides | None:
    """The overrides, or nothing when they ask for nothing (SV-107).

    Args:
        selecting: whether the template is selected, where precision ``auto`` is no preference (SV-310); of a named
            template it is the precision of the derived one.
    """
    if overrides is None:
        return None
    if selecting and overrides.precision is Precision.AUTO:
        overrides = overrides.model_copy(update={"precision": None})
    hardware = overrides.hardware
    says_hardware = hardware is not None and (hardware.cpu is not None or _asks(hardware.gpu))
    return overrides if overrides.metric or overrides.precision or says_hardware else None


def _asks(gpu: GpuRequirements | None) -> bool:
    if gpu is None:
        return False
    return bool(gpu.requests or gpu.model or gpu.min_vram) or gpu.resource_name not in ("", DEFAULT_GPU_RESOURCE)


def passes(traits: Traits, overrides: Overrides, normalise: Normalise) -> bool:
    """Whether a candidate does not contradict the overrides; unknown GPU model or count does not (SV-097)."""
    gpu = overrides.hardware.gpu if overrides.hardware else None
    return (
        (not overrides.metric or traits.metric.lower() == overrides.metric.lower())
        and (not overrides.precision or traits.precision.lower() == overrides.precision.lower())
        and _passes_gpu(traits, gpu, normalise)
    )


def _passes_gpu(traits: Traits, gpu: GpuRequirements | None, normalise: Normalise) -> bool:
    if gpu is None:
        return True
    model = not gpu.model or not traits.gpu_model or normalise(gpu.model) == normalise(traits.gpu_model)
    return model and (not gpu.requests or not traits.gpu_count or gpu.requests == traits.gpu_count)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a template declares, to be held against overrides."""

    traits: Traits
    hardware: CanonicalHardware


def declares(declared: Declared, overrides: Overrides, normalise: Normalise) -> bool:
    """Whether the template itself has every overridden attribute with the wanted value (SV-106)."""
    if not passes(declared.traits, overrides, normalise):
        return False
    wanted = canonical_hardware(overrides.hardware)
    gpu, own_gpu = wanted.get("gpu", {}), declared.hardware.get("gpu", {})
    if gpu.get("model") and not declared.traits.gpu_model:
        return False
    if gpu.get("requests") and not declared.traits.gpu_count:
        return False
    if "minVram" in gpu and gpu["minVram"] != own_gpu.get("minVram"):
        return False
    other_resource = gpu.get("resourceName", DEFAULT_GPU_RESOURCE) not in (
        DEFAULT_GPU_RESOURCE,
        own_gpu.get("resourceName"),
    )
    return not other_resource and ("cpu" not in wanted or wanted["cpu"] == declared.hardware.get("cpu"))
