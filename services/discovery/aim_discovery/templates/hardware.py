"""The hardware that services use for a template (DI-321…DI-330)."""

from aim_domain import DEFAULT_GPU_RESOURCE, Hardware, ProfileMetadata, TemplateSpec
from controller_runtime import JsonObject


def resolved_hardware(spec: TemplateSpec, discovered: ProfileMetadata | None) -> JsonObject | None:
    """Discovery's values first, then the spec's; ``None`` when neither names any hardware.

    Args:
        discovered: metadata of the discovered profile; ``None`` for inline templates.
    """
    own_gpu = spec.hardware.gpu if spec.hardware is not None else None
    cpu = spec.hardware.cpu if spec.hardware is not None else None
    count, model = (own_gpu.requests, own_gpu.model) if own_gpu is not None else (None, None)
    if discovered is not None:
        count = discovered.gpu_count if discovered.gpu_count is not None else count
        model = discovered.gpu or model
    resource = (own_gpu.resource_name or DEFAULT_GPU_RESOURCE) if own_gpu is not None else None
    vram = own_gpu.min_vram if own_gpu is not None else None
    result: JsonObject = {}
    if (count or 0) > 0 or model or resource:
        gpu: JsonObject = {
            "requests": count or 0,
            # The two exclude each other by the rule of the CRD, in status too (DI-326).
            "model": model if vram is None else None,
            "minVram": vram,
            "resourceName": resource or DEFAULT_GPU_RESOURCE,
        }
        result["gpu"] = {name: value for name, value in gpu.items() if value not in (None, "")}
    if cpu is not None:
        result["cpu"] = cpu.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return result or None


def hardware_summary(hardware: Hardware | None) -> str:
    """Hardware in a few words (DI-330).

    >>> hardware_summary(Hardware.model_validate({"gpu": {"requests": 2, "model": "MI300X"}}))
    '2 x MI300X'
    """
    if hardware is None:
        return ""
    gpu = hardware.gpu
    if gpu is not None and (gpu.requests or 0) > 0:
        return f"{gpu.requests} x {gpu.model or 'GPU'}"
    return "CPU" if gpu is None else gpu.model or "GPU"
