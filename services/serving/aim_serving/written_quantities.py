"""Quantities as Kubernetes' own clients write them: ``2000m`` becomes ``2`` (SV-281).

What is read is never rewritten in place (CC-165); this is for objects that serving makes.
"""

from aim_domain import Hardware
from controller_runtime import JsonObject, quantity, to_json
from controller_runtime.core import ResourceRequirements


def written(amount: int | str) -> str:
    """The canonical text; what is no quantity goes out as it came, for the API server to refuse."""
    return str(amount) if quantity.parse_or_none(amount) is None else quantity.canonical(amount)


def written_resources(resources: ResourceRequirements) -> JsonObject:
    """Requests and limits."""
    sides = {"requests": resources.requests, "limits": resources.limits}
    told = {side: {name: written(amount) for name, amount in held.items()} for side, held in sides.items() if held}
    return {**to_json(resources), **told}


def written_hardware(hardware: Hardware) -> JsonObject:
    """Hardware requirements; the number of GPUs is no quantity."""
    told = to_json(hardware)
    gpu, cpu = hardware.gpu, hardware.cpu
    if gpu is not None and gpu.min_vram is not None:
        told["gpu"] = {**told["gpu"], "minVram": written(gpu.min_vram)}
    if cpu is not None:
        limits = {} if cpu.limits is None else {"limits": written(cpu.limits)}
        told["cpu"] = {**told["cpu"], "requests": written(cpu.requests), **limits}
    return told
