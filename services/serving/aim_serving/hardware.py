"""Hardware in the one form in which it is compared and hashed (SV-264)."""

from decimal import Decimal
from typing import TypeAlias

from aim_domain import DEFAULT_GPU_RESOURCE, CpuRequirements, GpuRequirements, Hardware
from controller_runtime import quantity

CanonicalValue: TypeAlias = str | int
CanonicalHardware: TypeAlias = dict[str, dict[str, CanonicalValue]]


def canonical_hardware(hardware: Hardware | None) -> CanonicalHardware:
    """Members that say something, quantities as exact decimal numbers of the base unit."""
    if hardware is None:
        return {}
    gpu = {} if hardware.gpu is None else {"gpu": canonical_gpu(hardware.gpu)}
    cpu = {} if hardware.cpu is None else {"cpu": canonical_cpu(hardware.cpu)}
    return {**gpu, **cpu}


def canonical_gpu(gpu: GpuRequirements) -> dict[str, CanonicalValue]:
    """The GPU part; requests and resource name are always there."""
    canonical: dict[str, CanonicalValue] = {
        "requests": gpu.requests or 0,
        "resourceName": gpu.resource_name or DEFAULT_GPU_RESOURCE,
    }
    if gpu.model:
        canonical["model"] = gpu.model
    vram = None if gpu.min_vram is None else exact_number(gpu.min_vram)
    return {**canonical, "minVram": vram} if vram and vram != "0" else canonical


def canonical_cpu(cpu: CpuRequirements) -> dict[str, CanonicalValue]:
    """The CPU part."""
    limits: dict[str, CanonicalValue] = {} if cpu.limits is None else {"limits": exact_number(cpu.limits)}
    return {"requests": exact_number(cpu.requests), **limits}


def exact_number(text: str | int) -> str:
    """A quantity without suffix, exponent and trailing zeros; what is no quantity stays as it is.

    >>> exact_number("64Gi"), exact_number("500m"), exact_number(4)
    ('68719476736', '0.5', '4')
    """
    parsed = quantity.parse_or_none(text)
    return str(text) if parsed is None else _plain(parsed.value)


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
