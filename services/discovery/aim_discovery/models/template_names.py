"""Names of the templates that a model creates (DI-125…DI-129, DI-146…DI-149)."""

from typing import Final

from aim_domain import CustomTemplate, RecommendedDeployment
from aim_domain.naming import HashSource, derive_name

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
