"""One pass over a template: resolve its model, check its GPU, discover its profile, report (sections 7 to 15)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_discovery.namespaces import work_namespace
from aim_discovery.own_schedule import on_own_schedule
from aim_discovery.scopes import Template, TemplateScope
from aim_discovery.settings import DiscoverySettings
from aim_discovery.templates.discovery import Finding, discovery_of
from aim_discovery.templates.gpu import effective_requirement, gpu_component, node_affinity
from aim_discovery.templates.hardware import hardware_summary, resolved_hardware
from aim_discovery.templates.identity import DiscoveryInputs, inputs_of
from aim_discovery.templates.job import build_job
from aim_discovery.templates.model_resolution import ModelResolution, resolve_model
from aim_discovery.templates.slots import POLL, has_slot
from aim_shared.api import Hardware, Node, ProfileMetadata, TemplateSpec, to_json
from aim_shared.bus.part import Index
from aim_shared.bus.parts import NODES
from aim_shared.bus.view import View
from aim_shared.errors import AimError
from aim_shared.gpu.inventory import GpuInventory, gpu_model_of, inventory_of
from aim_shared.json import JsonObject
from aim_shared.reconcile.component_names import ComponentName
from aim_shared.reconcile.components import Component, State
from aim_shared.reconcile.plan import Child, Plan
from aim_shared.reconcile.state_engine import assemble, evaluate, status_json
from aim_shared.runtimeconfig.resolve import ResolvedConfig, resolve_config

_GPU_NODES: Final = "gpu"


def _gpu_values(node: Node) -> list[str]:
    return [_GPU_NODES] if gpu_model_of(node) else []


GPU_NODES: Final = Index(NODES, "gpu-nodes", _gpu_values)

_SCHEDULED: Final = frozenset({ComponentName.DISCOVERY_JOB.value, ComponentName.DISCOVERY_PODS.value})


@dataclass(frozen=True, slots=True)
class TemplateReconcile:
    """The decision about templates of one scope."""

    scope: TemplateScope
    settings: DiscoverySettings

    def __call__(self, template: Template, view: View, now: datetime) -> Plan:
        namespace = template.namespace or self.settings.system_namespace
        config = resolve_config(view, template.namespace or None, template.spec.runtime_config_name)
        resolution = resolve_model(template, self.scope, view)
        inputs = _inputs(template, resolution)
        finding = discovery_of(template, inputs, view, now)
        result = _Result.of(template, finding, view)
        work = work_namespace(view, namespace)
        components = _present(
            config.component(missing="ConfigNotFound"), resolution.component, finding.job, finding.pods, result.gpu
        )
        evaluation = evaluate(
            self.scope.kind,
            components,
            generation=template.metadata.generation,
            stored=template.status.conditions,
            stored_status=template.status.status,
            now=now,
            errors=work.errors,
            extra=(finding.condition,),
            failure=view.failure,
        )
        gates = finding.wants_job and resolution.usable and result.gpu_ready and work.usable and evaluation.may_apply
        start = gates and has_slot(template, view, self.settings.max_discovery_jobs)
        children = [self._job(template, inputs, namespace, config)] if start and inputs is not None else []
        plan = assemble(
            evaluation,
            status=_status(status_json(evaluation, _fields(template, config, resolution, finding, result)), result),
            deletes=finding.deletes,
            children=children,
            effects=finding.effects,
            requeue_after=_look_again(finding, now, held_back=gates and not start),
        )
        scheduled = frozenset(part.name for part in components if part.name in _SCHEDULED and not part.blocks)
        return on_own_schedule(plan, components, scheduled, view.failure or next(iter(work.errors), None))

    def _job(self, template: Template, inputs: DiscoveryInputs, namespace: str, config: ResolvedConfig) -> Child:
        return build_job(
            template,
            self.scope,
            inputs,
            namespace,
            deadline=self.settings.discovery_job_deadline,
            propagation=config.spec.label_propagation,
        )


def _inputs(template: Template, resolution: ModelResolution) -> DiscoveryInputs | None:
    model = resolution.model
    return inputs_of(template, model) if model is not None and model.spec.image else None


def _present(*components: Component | None) -> tuple[Component, ...]:
    return tuple(component for component in components if component is not None)


def _look_again(finding: Finding, now: datetime, *, held_back: bool) -> float | None:
    times = [POLL] if held_back else []
    if finding.look_again is not None:
        times.append(max(0.0, (finding.look_again - now).total_seconds()))
    return min(times, default=None)


@dataclass(frozen=True, slots=True)
class _Result:
    """What follows from discovery, spec and nodes for those who use the template (section 15)."""

    profile: JsonObject | None
    hardware: JsonObject | None
    summary: str
    affinity: JsonObject | None
    gpu: Component | None

    @property
    def gpu_ready(self) -> bool:
        return self.gpu is None or self.gpu.effective_state is State.READY

    @classmethod
    def of(cls, template: Template, finding: Finding, view: View) -> "_Result":
        spec = template.spec
        is_inline = bool(spec.model_sources)
        profile = inline_profile(spec) if is_inline else finding.profile
        known = is_inline or profile is not None
        metadata = None if is_inline or profile is None else _metadata(profile)
        hardware = resolved_hardware(spec, metadata) if known else None
        typed = None if hardware is None else Hardware.model_validate(hardware)
        requirement = effective_requirement(spec, typed)
        inventory, error = _inventory(view)
        affinity = node_affinity(requirement, inventory) if known else None
        gpu = gpu_component(requirement, inventory, error)
        return cls(profile, hardware, hardware_summary(typed), affinity, gpu)


def _metadata(profile: JsonObject) -> ProfileMetadata:
    return ProfileMetadata.model_validate(profile.get("metadata") or {})


def _inventory(view: View) -> tuple[GpuInventory, AimError | None]:
    nodes = view.select(GPU_NODES, _GPU_NODES)
    return inventory_of(nodes.items), nodes.error


def inline_profile(spec: TemplateSpec) -> JsonObject:
    """Profile of an inline template, from its spec alone (DI-339)."""
    gpu = spec.hardware.gpu if spec.hardware is not None else None
    values = {
        "gpu": (gpu.model or None) if gpu is not None else None,
        "gpuCount": gpu.requests if gpu is not None else None,
        "metric": spec.metric.value if spec.metric else None,
        "precision": spec.precision.value if spec.precision else None,
        "type": spec.type.value if spec.type else None,
    }
    return {"metadata": {name: value for name, value in values.items() if value is not None}}


def _fields(
    template: Template, config: ResolvedConfig, resolution: ModelResolution, finding: Finding, result: _Result
) -> JsonObject:
    model = resolution.reference or template.status.resolved_model
    return {
        "resolvedRuntimeConfig": None if config.reference is None else to_json(config.reference),
        "resolvedModel": None if model is None else to_json(model),
        "discoveryJob": None if finding.reference is None else to_json(finding.reference),
        "resolvedHardware": result.hardware,
        "resolvedNodeAffinity": result.affinity,
        "hardwareSummary": result.summary or None,
        "modelSources": finding.sources,
        "discovery": finding.attempts.as_json(),
    }


def _status(status: JsonObject, result: _Result) -> JsonObject:
    """The status with the profile, whose nulls are values: an engine argument without one is a flag (DI-268)."""
    return status if result.profile is None else {**status, "profile": result.profile}
