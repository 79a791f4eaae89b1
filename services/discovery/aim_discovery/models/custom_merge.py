"""Merging of the hardware of a model and of one of its custom templates (DI-140…DI-143)."""

from aim_domain import DEFAULT_GPU_RESOURCE, CpuRequirements, GpuRequirements, Hardware
from controller_runtime.core import EnvVar, ResourceRequirements


def merge_hardware(default: Hardware | None, override: Hardware | None) -> Hardware | None:
    """Field by field; a side that only one of the two has is kept."""
    if default is None or override is None:
        return override or default
    gpu = _merge_gpu(default.gpu, override.gpu)
    cpu = _merge_cpu(default.cpu, override.cpu)
    return Hardware.model_validate({**({} if gpu is None else {"gpu": gpu}), **({} if cpu is None else {"cpu": cpu})})


def _merge_gpu(default: GpuRequirements | None, override: GpuRequirements | None) -> GpuRequirements | None:
    if default is None or override is None:
        return override or default
    # Model and minVram exclude each other, so setting one drops the inherited other (DI-141).
    model = override.model or (None if override.min_vram is not None else default.model)
    min_vram = override.min_vram if override.min_vram is not None else (None if override.model else default.min_vram)
    own_resource = override.resource_name not in ("", DEFAULT_GPU_RESOURCE)
    merged: dict[str, object] = {
        "requests": override.requests or default.requests,
        "model": model,
        "minVram": min_vram,
        # Admission fills in the default, so the default in an override says nothing (DI-142).
        "resourceName": override.resource_name if own_resource else default.resource_name,
    }
    return GpuRequirements.model_validate({name: value for name, value in merged.items() if value is not None})


def _merge_cpu(default: CpuRequirements | None, override: CpuRequirements | None) -> CpuRequirements | None:
    if default is None or override is None:
        return override or default
    limits = override.limits if override.limits is not None else default.limits
    merged: dict[str, object] = {"requests": override.requests or default.requests}
    return CpuRequirements.model_validate({**merged, **({} if limits is None else {"limits": limits})})


def cpu_resources(hardware: Hardware | None) -> ResourceRequirements | None:
    """Container resources that follow from the CPU side (DI-143)."""
    if hardware is None or hardware.cpu is None:
        return None
    cpu = hardware.cpu
    limits = {} if cpu.limits is None else {"limits": {"cpu": cpu.limits}}
    return ResourceRequirements.model_validate({"requests": {"cpu": cpu.requests}, **limits})


def overlay_env(base: tuple[EnvVar, ...], override: tuple[EnvVar, ...]) -> tuple[EnvVar, ...]:
    """Variables by name: base order, replaced in place and completely, then new ones (DI-138)."""
    return tuple({variable.name: variable for variable in (*base, *override)}.values())
