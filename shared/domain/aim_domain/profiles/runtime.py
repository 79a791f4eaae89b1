"""How the engine of a profile runs: its file, environment and resources (PR-030 to PR-034, PR-071 to PR-073)."""

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

import yaml

from aim_domain.api.aim_shapes import DEFAULT_GPU_RESOURCE
from aim_domain.api.enums import AcceleratorType, AcceleratorVendor, ProfileType
from aim_domain.api.model import AIMModel
from aim_domain.api.profile import AIMProfileSpec, ClusterProfileSpec
from aim_domain.api.profile_shapes import UNPARTITIONED
from aim_domain.api.service_template import AIMServiceTemplate
from aim_domain.bounds import MAX_ENTRIES
from aim_domain.custom_profile import InvalidProfileError, RenderedProfile, check_aim_id
from aim_domain.profiles.selection import AnyProfile, accelerator_of
from controller_runtime import JsonObject, quantity, to_json

NVIDIA_RESOURCE: Final = "nvidia.com/gpu"
_SLICES: Final[Mapping[str, int]] = MappingProxyType({"spx": 1, "dpx": 2, "qpx": 4, "cpx": 8})
_CPUS: Final = 4
_REQUESTED_MIB: Final = 32 << 10
_LIMITED_MIB: Final = 48 << 10
_KV_CACHE: Final = "VLLM_CPU_KVCACHE_SPACE"
_CPU_MEMORY_GIB: Final = 120
_WEIGHTS: Final = "/workspace/cache"
_ENGINE: Final = "vllm"


def gpu_resource(spec: ClusterProfileSpec) -> str:
    """The extended resource of its GPUs."""
    return NVIDIA_RESOURCE if spec.accelerator_vendor is AcceleratorVendor.NVIDIA else DEFAULT_GPU_RESOURCE


def partition_resources(modes: Iterable[str]) -> tuple[str, ...]:
    """The resources of parts of GPUs where the device plugin names each mode (strategy ``mixed``, PR-033).

    >>> partition_resources(["CPX-NPS4"])
    ('amd.com/cpx_nps4',)
    """
    vendor = DEFAULT_GPU_RESOURCE.partition("/")[0]
    return tuple(f"{vendor}/{mode.lower().replace('-', '_')}" for mode in modes)


def runtime_resources(profile: AnyProfile, resource: str = "") -> JsonObject:
    """Requests and limits: what the accelerator needs, and above it what the profile says (PR-030 to PR-033).

    Args:
        resource: extended resource of its GPUs on the nodes that fit; empty for the usual one.
    """
    computed = _of_accelerator(profile, resource or gpu_resource(profile.spec))
    own = to_json(profile.spec.resources) if profile.spec.resources is not None else {}
    sides = ("requests", "limits")
    merged = {side: {**computed.get(side, {}), **(own.get(side) or {})} for side in sides}
    # The status takes no more; no container asks for as many resources.
    return {side: dict(islice(held.items(), MAX_ENTRIES)) for side, held in merged.items() if held}


def _of_accelerator(profile: AnyProfile, resource: str) -> JsonObject:
    spec, count = profile.spec, profile.spec.accelerator_count or 0
    kind = accelerator_of(profile)
    if kind is AcceleratorType.CPU:
        memory = f"{_cpu_memory(spec)}Gi"
        cores = {"cpu": str(count)} if count else {}
        return {"requests": {**cores, "memory": memory}, "limits": {**cores, "memory": memory}}
    if kind is None or not count:
        return {}
    gpus = {resource: str(count)}
    slices = _slices(spec.accelerator_partitioning_mode)
    if not slices:
        return {"requests": gpus, "limits": gpus}
    cpus = f"{_CPUS * 1000 * count // slices}m"
    return {
        "requests": {"cpu": quantity.canonical(cpus), "memory": _mib(_REQUESTED_MIB * count // slices), **gpus},
        "limits": {"memory": _mib(_LIMITED_MIB * count // slices), **gpus},
    }


def _slices(mode: str) -> int:
    """Parts of a GPU by its compute mode; 0 where the mode does not tell."""
    compute = mode.lower().partition("-")[0]
    return 1 if compute in ("", UNPARTITIONED) else _SLICES.get(compute, 0)


def _mib(amount: int) -> str:
    return quantity.canonical(f"{amount}Mi")


def _cpu_memory(spec: ClusterProfileSpec) -> int:
    """Twice the space of the key-value cache in GiB."""
    text = spec.engine_env.get(_KV_CACHE, "")
    return 2 * int(text) if re.fullmatch(r"[1-9][0-9]{0,5}", text) else _CPU_MEMORY_GIB


def accelerator_summary(profile: AnyProfile) -> str:
    """The accelerator in a few words: ``2 x MI300X``, ``MI300X`` or ``CPU`` (PR-006)."""
    spec = profile.spec
    kind = accelerator_of(profile)
    if kind is None:
        return ""
    if kind is AcceleratorType.CPU:
        return spec.accelerator_model or "CPU"
    name = spec.accelerator_model or "GPU"
    return f"{spec.accelerator_count} x {name}" if spec.accelerator_count else name


def profile_file(profile: AnyProfile) -> RenderedProfile:
    """The file that the runtime reads, with the older and the newer names of the accelerator (PR-071).

    Raises:
        InvalidProfileError: the AIM id cannot be a folder, or the engine arguments name the model.
    """
    spec = profile.spec
    check_aim_id(spec.aim_id or "", "aimId")
    if "model" in (spec.engine_args or {}):
        raise InvalidProfileError("engineArgs must not contain model; the runtime sets it")
    precision, metric, count = str(spec.precision or ""), str(spec.metric or ""), spec.accelerator_count or 0
    kind = accelerator_of(profile) or AcceleratorType.GPU
    metadata: JsonObject = {
        "engine": spec.engine or _ENGINE,
        "gpu": spec.accelerator_model,
        "gpu_count": count or None,
        "accelerator_model": spec.accelerator_model,
        "accelerator_count": count or None,
        "accelerator_type": kind.value,
        "manual_selection_only": False,
        "metric": metric or None,
        "precision": precision or None,
        "type": (spec.type or ProfileType.UNOPTIMIZED).value,
    }
    content: JsonObject = {
        "aim_id": spec.aim_id,
        "model_id": spec.model_id,
        "metadata": {name: value for name, value in metadata.items() if value is not None},
        "engine_args": spec.engine_args or {},
        "env_vars": dict(spec.engine_env),
    }
    # The runtime takes precision and metric from the name where it selects by them.
    stem = f"vllm-{(spec.accelerator_model or 'none').lower()}-{precision or 'auto'}-tp{count}-{metric or 'latency'}"
    text = yaml.safe_dump(content, sort_keys=True, allow_unicode=True, default_flow_style=False)
    return RenderedProfile(f"{stem}.yaml", text, str(spec.aim_id), f"custom/{spec.aim_id}/{stem}", _identity(spec))


def _identity(spec: ClusterProfileSpec) -> Mapping[str, str]:
    """The runtime refuses an AIM id and a model id together (PR-072)."""
    model = next((source.model_id for source in spec.model_sources), "")
    return {"AIM_ID": "", "AIM_CACHE_PATH": _WEIGHTS, "AIM_MODEL_ID": model or spec.model_id or ""}


# A profile where the pipeline of templates expects a template and its model


def as_template(profile: AnyProfile) -> AIMServiceTemplate:
    """What serving does with a template, it does with this (PR-070): the same object under its own name."""
    spec, status = profile.spec, profile.status
    resources = status.resources if status.resources is not None else None
    hardware = _hardware(profile)
    sources = [to_json(source) for source in spec.model_sources]
    caching = spec.caching.env if isinstance(spec, AIMProfileSpec) and spec.caching is not None else ()
    said = {"engine": spec.engine, "metric": spec.metric, "precision": spec.precision, "type": spec.type}
    gpu = {"gpu": spec.accelerator_model, "gpuCount": spec.accelerator_count} if _has_gpu(profile) else {}
    metadata: JsonObject = {name: value for name, value in {**said, **gpu}.items() if value is not None}
    body: JsonObject = {
        "apiVersion": profile.api_version,
        "kind": profile.kind,
        "metadata": to_json(profile.metadata),
        "spec": _without_absent(
            {
                "modelName": status.source_model.name if status.source_model and status.source_model.name else "",
                "aimId": spec.aim_id,
                "modelId": spec.model_id,
                "profileId": spec.profile_id,
                "env": [to_json(variable) for variable in spec.container_env],
                "imagePullSecrets": [to_json(secret) for secret in spec.image_pull_secrets],
                "serviceAccountName": spec.service_account_name,
                "resources": to_json(resources) if resources is not None else runtime_resources(profile),
                "modelSources": sources,
                # Of the digest by which a rollout knows a new version; the file is made of the profile itself (PR-071).
                "caching": {"env": [to_json(variable) for variable in caching]},
                "customProfile": {"engineArgs": spec.engine_args or {}, "envVars": dict(spec.engine_env)},
            }
        ),
        "status": _without_absent(
            {
                "status": status.status.value,
                "conditions": [to_json(one) for one in status.conditions],
                "modelSources": sources,
                "resolvedHardware": hardware,
                "resolvedNodeAffinity": to_json(status.resolved_node_affinity)
                if status.resolved_node_affinity
                else None,
                "profile": {
                    "engine_args": spec.engine_args or {},
                    "metadata": metadata,
                },
            }
        ),
    }
    return AIMServiceTemplate.model_validate(body)


def _has_gpu(profile: AnyProfile) -> bool:
    return accelerator_of(profile) is not AcceleratorType.CPU


def _hardware(profile: AnyProfile) -> JsonObject | None:
    spec, kind = profile.spec, accelerator_of(profile)
    if kind is AcceleratorType.CPU:
        return {"cpu": {"requests": spec.accelerator_count}} if spec.accelerator_count else None
    if kind is None and not spec.accelerator_count:
        return None
    return {
        "gpu": {
            "requests": spec.accelerator_count or 0,
            **({"model": spec.accelerator_model} if spec.accelerator_model else {}),
            "resourceName": _resource_in_use(profile),
        }
    }


def _resource_in_use(profile: AnyProfile) -> str:
    """The one that discovery found on the nodes: a container asks for one alone."""
    found, usual = profile.status.resources, gpu_resource(profile.spec)
    asked = found.limits if found is not None else {}
    own = (name for name in sorted(asked) if name.startswith(f"{usual.partition('/')[0]}/"))
    return usual if usual in asked else next(own, usual)


def _without_absent(block: JsonObject) -> JsonObject:
    """The members that say something; engine arguments keep theirs, as one without a value is a flag (DI-268)."""
    return {name: value for name, value in block.items() if value is not None}


def as_model(profile: AnyProfile) -> AIMModel:
    """The image of a profile where serving expects a model; it is Ready with the profile."""
    body: JsonObject = {
        "apiVersion": profile.api_version,
        "kind": profile.kind,
        "metadata": to_json(profile.metadata),
        "spec": {"image": profile.spec.image},
        "status": {"status": profile.status.status.value},
    }
    return AIMModel.model_validate(body)
