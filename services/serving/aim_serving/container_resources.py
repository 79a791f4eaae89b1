"""Requests and limits of the serving container: five layers, merged key by key (SV-161…SV-167, SV-309)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from aim_domain import DEFAULT_GPU_RESOURCE, Hardware, labels
from aim_serving.written_quantities import written
from controller_runtime import JsonObject, quantity
from controller_runtime.core import ResourceRequirements

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
    return {side: {name: written(held[name].amount) for name in sorted(held)} for side, held in sides if held}


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
    """The schema writes its default where nobody wrote anything, so that counts as not written (CC-332)."""
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
    """A default that contradicts what somebody wrote moves to it (SV-166)."""
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
