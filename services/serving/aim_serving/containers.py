"""The container of the predictor: its environment, resources and amounts, in the form in which KServe reads them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Final, TypeAlias

from aim_domain import (
    DEFAULT_GPU_RESOURCE,
    AIMService,
    CpuRequirements,
    GpuRequirements,
    Hardware,
    RenderedProfile,
    RuntimeConfigSpec,
    labels,
    merge_env,
    ordered_by_references,
)
from aim_serving.references import Template
from controller_runtime import JsonObject, quantity, to_json
from controller_runtime.core import EnvVar, ResourceRequirements

CACHE_PATH: Final = "/workspace/cache"
_DEFAULTS: Final = (
    EnvVar(name="AIM_CACHE_PATH", value=CACHE_PATH),
    EnvVar(name="VLLM_ENABLE_METRICS", value="true"),
)


def container_env(
    service: AIMService,
    template: Template,
    config: RuntimeConfigSpec,
    profile: RenderedProfile | None = None,
    *,
    hf_home: str = "",
    engine: Mapping[str, str] = MappingProxyType({}),
) -> list[JsonObject]:
    """The variables as they are applied; a higher layer replaces, AIM_ENGINE_ARGS is merged (SV-038).

    Args:
        profile: the mounted custom profile, whose ids nothing overrides (SV-158).
        hf_home: of a KaiwoConfig, below everything else (RC-156).
        engine: of a service that is ready for adapters (LA-030).
    """
    # One of them is empty for profiles, which is said, too (PR-072).
    custom = tuple(EnvVar(name=name, value=value) for name, value in profile.env.items()) if profile else ()
    derived = () if profile else _ids(template)
    layers = (
        _DEFAULTS,
        _variables({"HF_HOME": hf_home, **engine}),
        _of_profile(template),
        config.env,
        (*derived, *_purpose(template)),
    )
    merged = merge_env(*layers, template.spec.env, service.spec.env, custom)
    by_name = sorted(merged, key=lambda variable: variable.name)
    return [to_json(variable) for variable in ordered_by_references(by_name)]


def _of_profile(template: Template) -> tuple[EnvVar, ...]:
    profile = template.status.profile
    return tuple(EnvVar(name=name, value=value) for name, value in (profile.env_vars if profile else {}).items())


def _ids(template: Template) -> tuple[EnvVar, ...]:
    """Profile and weights: always of the spec, never of what was discovered (SV-156, SV-157)."""
    spec = template.spec
    model_id = spec.model_sources[0].model_id if spec.model_sources else None
    return _variables({"AIM_PROFILE_ID": spec.profile_id, "AIM_MODEL_ID": model_id})


def _purpose(template: Template) -> tuple[EnvVar, ...]:
    return _variables({"AIM_METRIC": template.spec.metric, "AIM_PRECISION": template.spec.precision})


def _variables(values: Mapping[str, str | None]) -> tuple[EnvVar, ...]:
    return tuple(EnvVar(name=name, value=str(value)) for name, value in values.items() if value)


def canonical_text(amount: int | str) -> str:
    """The canonical text; what is no quantity goes out as it came, for the API server to refuse."""
    return str(amount) if quantity.parse_or_none(amount) is None else quantity.canonical(amount)


def written_resources(resources: ResourceRequirements) -> JsonObject:
    """Requests and limits."""
    sides = {"requests": resources.requests, "limits": resources.limits}
    reported = {
        side: {name: canonical_text(amount) for name, amount in held.items()} for side, held in sides.items() if held
    }
    return {**to_json(resources), **reported}


def written_hardware(hardware: Hardware) -> JsonObject:
    """Hardware requirements; the number of GPUs is no quantity."""
    reported = to_json(hardware)
    gpu, cpu = hardware.gpu, hardware.cpu
    if gpu is not None and gpu.min_vram is not None:
        reported["gpu"] = {**reported["gpu"], "minVram": canonical_text(gpu.min_vram)}
    if cpu is not None:
        limits = {} if cpu.limits is None else {"limits": canonical_text(cpu.limits)}
        reported["cpu"] = {**reported["cpu"], "requests": canonical_text(cpu.requests), **limits}
    return reported


CPUS_PER_GPU: Final = 4
REQUESTED_GIB_PER_GPU: Final = 32
LIMITED_GIB_PER_GPU: Final = 48

Amount: TypeAlias = str | int
_DEFAULT_LAYER: Final = 0


@dataclass(frozen=True, slots=True)
class _Value:
    """An amount, and the layer it stems from."""

    amount: Amount
    layer: int


_Side: TypeAlias = dict[str, _Value]


def container_resources(
    hardware: Hardware | None, layers: Iterable[ResourceRequirements | None], *, usual_gpu: str = DEFAULT_GPU_RESOURCE
) -> JsonObject:
    """Resources as they are applied; empty without any layer.

    Args:
        hardware: the template's resolved hardware.
        layers: of model, template and service, lowest first.
        usual_gpu: the resource of GPUs where the hardware names no other (RC-157).
    """
    requests, limits = _sides(hardware, layers, usual_gpu)
    sides = (("requests", requests), ("limits", limits))
    return {side: {name: canonical_text(held[name].amount) for name in sorted(held)} for side, held in sides if held}


def contradiction(
    hardware: Hardware | None,
    layers: Iterable[ResourceRequirements | None],
    origins: Sequence[str],
    *,
    usual_gpu: str = DEFAULT_GPU_RESOURCE,
) -> str:
    """The first request that is above its limit, with where either is from; empty when there is none (SV-309).

    The API server refuses such a pod; KServe would try for ever to create it.

    Args:
        origins: what the layers are, for the message, in their order.
    """
    requests, limits = _sides(hardware, layers, usual_gpu)
    named = ("the defaults for GPUs", "the hardware of the template", *origins)
    for name in sorted({*requests} & {*limits}):
        request, limit = requests[name], limits[name]
        if _is_above(request, limit):
            return (
                f"{name} has a request of {request.amount} from {named[request.layer]} above the limit of "
                f"{limit.amount} from {named[limit.layer]}; lower the request or raise the limit in spec.resources"
            )
    return ""


def _sides(
    hardware: Hardware | None, layers: Iterable[ResourceRequirements | None], usual_gpu: str
) -> tuple[_Side, _Side]:
    """Requests and limits of all layers."""
    gpu = _gpu_resource(hardware, usual_gpu)
    every = (_gpu_defaults(hardware, gpu), _of_cpu(hardware), *(layer or ResourceRequirements() for layer in layers))
    requests = _merge(layer.requests for layer in every)
    limits = _merge(layer.limits for layer in every)
    for name in {*requests, *limits}:
        if name == gpu or name.startswith(labels.AMD_PREFIX):
            _equalise(name, requests, limits)
    for name in {*requests} & {*limits}:
        _yield_to_explicit(name, requests, limits)
    return requests, limits


def _gpu_resource(hardware: Hardware | None, usual: str) -> str:
    """The schema writes its default where the user wrote nothing, so that counts as not written (CC-332)."""
    named = hardware.gpu.resource_name if hardware and hardware.gpu else ""
    return usual if named in ("", DEFAULT_GPU_RESOURCE) else named


def _gpu_defaults(hardware: Hardware | None, resource: str) -> ResourceRequirements:
    count = (hardware.gpu.requests or 0) if hardware and hardware.gpu else 0
    if count <= 0:
        return ResourceRequirements()
    gpus = {resource: str(count)}
    return ResourceRequirements(
        requests={"cpu": str(CPUS_PER_GPU * count), "memory": f"{REQUESTED_GIB_PER_GPU * count}Gi", **gpus},
        limits={"memory": f"{LIMITED_GIB_PER_GPU * count}Gi", **gpus},
    )


def _of_cpu(hardware: Hardware | None) -> ResourceRequirements:
    cpu = hardware.cpu if hardware else None
    if cpu is None:
        return ResourceRequirements()
    return ResourceRequirements(
        requests={"cpu": cpu.requests}, limits={} if cpu.limits is None else {"cpu": cpu.limits}
    )


def _merge(sides: Iterable[Mapping[str, Amount]]) -> _Side:
    return {name: _Value(amount, layer) for layer, side in enumerate(sides) for name, amount in side.items()}


def _equalise(name: str, requests: _Side, limits: _Side) -> None:
    """Extended resources cannot be overcommitted: the side named by the higher layer decides (SV-165)."""
    request, limit = requests.get(name), limits.get(name)
    if limit is None or (request is not None and request.layer > limit.layer):
        assert request is not None
        limits[name] = request
    elif request is None or limit.layer > request.layer:
        requests[name] = limit


def _yield_to_explicit(name: str, requests: _Side, limits: _Side) -> None:
    """A default that contradicts a written value moves to it (SV-166)."""
    request, limit = requests[name], limits[name]
    if not _is_above(request, limit):
        return
    if request.layer == _DEFAULT_LAYER < limit.layer:
        requests[name] = limit
    elif limit.layer == _DEFAULT_LAYER < request.layer:
        limits[name] = request


def _is_above(request: _Value, limit: _Value) -> bool:
    asked, allowed = quantity.parse_or_none(request.amount), quantity.parse_or_none(limit.amount)
    return asked is not None and allowed is not None and asked > allowed


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
