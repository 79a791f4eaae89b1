"""What follows from discovery, spec and nodes for those who use a template (section 15)."""

from dataclasses import dataclass

from aim_discovery.scopes import Template
from aim_discovery.templates.discovery import Finding
from aim_discovery.templates.gpu import effective_requirement, gpu_component, gpus_for, node_affinity
from aim_discovery.templates.hardware import hardware_summary, resolved_hardware
from aim_discovery.templates.reach import Reach
from aim_domain import Hardware, ProfileMetadata, TemplateSpec
from controller_runtime import Component, JsonObject, State, View, to_json


@dataclass(frozen=True, slots=True)
class Result:
    """The result in force.

    Attributes:
        profile: JSON of ``status.profile``; ``None`` until the first discovery (DI-329).
        hardware: JSON of ``status.resolvedHardware``.
        affinity: JSON of ``status.resolvedNodeAffinity``.
        gpu: the component; ``None`` when no GPU is required.
    """

    profile: JsonObject | None
    hardware: JsonObject | None
    summary: str
    affinity: JsonObject | None
    gpu: Component | None

    @property
    def gpu_ready(self) -> bool:
        return self.gpu is None or self.gpu.effective_state is State.READY

    @classmethod
    def of(cls, template: Template, finding: Finding, view: View, reach: Reach) -> "Result":
        spec = template.spec
        is_inline = bool(spec.model_sources)
        profile = inline_profile(spec) if is_inline else finding.memory.profile
        known = is_inline or profile is not None
        metadata = None if is_inline or profile is None else _metadata(profile)
        hardware = resolved_hardware(spec, metadata) if known else None
        typed = None if hardware is None else Hardware.model_validate(hardware)
        requirement = effective_requirement(spec, typed)
        inventory, error = gpus_for(requirement, view)
        before = template.status.resolved_node_affinity
        stored = None if before is None else to_json(before)
        affinity = node_affinity(requirement, inventory, reach, stored) if known else None
        gpu = gpu_component(requirement, inventory, error, reach)
        return cls(profile, hardware, hardware_summary(typed), affinity, gpu)


def _metadata(profile: JsonObject) -> ProfileMetadata:
    return ProfileMetadata.model_validate(profile.get("metadata") or {})


def inline_profile(spec: TemplateSpec) -> JsonObject:
    """Profile of an inline template, from its spec alone (DI-339, DI-257)."""
    gpu = spec.hardware.gpu if spec.hardware is not None else None
    custom = spec.custom_profile
    values = {
        "engine": "vllm" if custom is not None else None,
        "gpu": (gpu.model or None) if gpu is not None else None,
        "gpuCount": gpu.requests if gpu is not None else None,
        "metric": spec.metric.value if spec.metric else None,
        "precision": spec.precision.value if spec.precision else None,
        "type": spec.type.value if spec.type else None,
    }
    metadata = {name: value for name, value in values.items() if value is not None}
    if custom is None:
        return {"metadata": metadata}
    args = {} if custom.engine_args is None else {"engine_args": custom.engine_args}
    return {"metadata": metadata, **args, "env_vars": dict(custom.env_vars)}
