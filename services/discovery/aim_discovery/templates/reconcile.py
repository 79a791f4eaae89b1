"""The reconcile of a template: its model, its profile, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from aim_discovery.own_schedule import on_own_schedule
from aim_discovery.scopes import Model, Template, TemplateScope, WorkNamespace, work_namespace
from aim_discovery.settings import DiscoverySettings
from aim_discovery.templates.caching import CachingState, caching_of
from aim_discovery.templates.discovery import Finding, discovery_of
from aim_discovery.templates.gpu import (
    Reach,
    effective_requirement,
    gpu_component,
    gpus_for,
    hardware_summary,
    node_affinity,
    resolved_hardware,
)
from aim_discovery.templates.job import DiscoveryInputs, build_job, inputs_of
from aim_discovery.templates.slots import RECOUNT, Slots, place
from aim_domain import (
    API_VERSION,
    Hardware,
    InvalidProfileError,
    LabelPropagation,
    ProfileMetadata,
    RenderedProfile,
    ResolutionScope,
    ResolvedConfig,
    ResolvedReference,
    TemplateSpec,
    child_labels,
    labels,
    oldest_config,
    pod_defaults,
    render_profile,
    resolve_config,
    template_errors,
)
from aim_domain.component_names import ComponentName
from aim_domain.naming import label_value, template_profile_name
from aim_domain.parts import CLUSTER_MODELS, CUSTOM_PROFILES, KAIWO_CONFIGS, MODELS
from controller_runtime import (
    Category,
    Child,
    ClassifiedError,
    Component,
    ConditionStatus,
    Delete,
    Evaluation,
    Event,
    EventType,
    JsonObject,
    Lookup,
    ParentCondition,
    Plan,
    State,
    StatusValue,
    View,
    assemble,
    evaluate,
    kind_of,
    soonest,
    status_json,
    to_json,
    upstream,
)
from controller_runtime.kinds import CONFIG_MAP

_IGNORED: Final = frozenset(
    {
        ParentCondition.READY.value,
        ComponentName.SERVICE_TEMPLATES.condition,
        ComponentName.CLUSTER_SERVICE_TEMPLATES.condition,
    }
)
"""Conditions that a model's templates bring about; counting them would hold model and template down (DI-170)."""
_UNHEALTHY: Final[Mapping[StatusValue, State]] = MappingProxyType(
    {StatusValue.FAILED: State.FAILED, StatusValue.DEGRADED: State.DEGRADED}
)


@dataclass(frozen=True, slots=True)
class ModelResolution:
    """The model of a template.

    Attributes:
        model: what was found, whether usable or not.
        reference: for ``status.resolvedModel``; ``None`` when nothing was found.
    """

    component: Component
    model: Model | None
    reference: ResolvedReference | None

    @property
    def usable(self) -> bool:
        """Whether discovery may run with it (DI-210)."""
        return self.model is not None and self.component.effective_state is State.READY


def resolve_model(template: Template, scope: TemplateScope, view: View) -> ModelResolution:
    """Look in the template's namespace first, then among the cluster's models."""
    name, namespace = template.spec.model_name, template.namespace
    lookup: Lookup[Model] = Lookup()
    if namespace:
        local = view.get(MODELS, namespace, name)
        lookup = Lookup(local.value, local.error)
    if lookup.value is None and lookup.error is None:
        shared = view.get(CLUSTER_MODELS, None, name)
        lookup = Lookup(shared.value, shared.error)
    what = f"AIMModel {namespace}/{name} or AIMClusterModel {name}" if namespace else f"AIMClusterModel {name}"
    component = upstream(scope.model_component, lookup, _inspect, what=what)
    return ModelResolution(component, lookup.value, None if lookup.value is None else _reference(lookup.value))


def _inspect(model: Model) -> Component:
    is_local = bool(model.namespace)
    prefix = "" if is_local else "Cluster"
    if not model.spec.image:
        message = f"{model.kind} {model.key} has no image; set spec.image"
        return Component("", State.FAILED, "ImageNotSpecified", message)
    state = _UNHEALTHY.get(model.status.status)
    broken = _broken_condition(model)
    if state is not None and broken:
        message = f"{model.kind} {model.key} is {model.status.status}: {broken}"
        return Component("", state, f"{prefix}ModelFailed", message)
    return Component("", State.READY, f"{prefix}ModelFound", f"Using {model.kind} {model.key}")


def _broken_condition(model: Model) -> str:
    """The first condition that speaks against the model for a reason of its own; empty if none does (DI-169)."""
    for condition in model.status.conditions:
        own = condition.type.endswith("Ready") and condition.type not in _IGNORED
        if own and condition.status == ConditionStatus.FALSE:
            return f"{condition.type} is False ({condition.reason})"
    return ""


def _reference(model: Model) -> ResolvedReference:
    scope = ResolutionScope.NAMESPACE if model.namespace else ResolutionScope.CLUSTER
    where = {"namespace": model.namespace} if model.namespace else {}
    kind = f"{API_VERSION}/{'AIMModel' if model.namespace else 'AIMClusterModel'}"
    return ResolvedReference.model_validate(
        {"name": model.name, **where, "kind": kind, "uid": model.uid, "scope": scope}
    )


@dataclass(frozen=True, slots=True)
class CustomProfileState:
    """The custom profile of a template, if it has one.

    Attributes:
        component: ``None`` without a custom profile (DI-240).
        rendered: ``None`` also when it is invalid.
    """

    component: Component | None = None
    rendered: RenderedProfile | None = None


def custom_profile_of(spec: TemplateSpec) -> CustomProfileState:
    """Render and judge it."""
    if spec.custom_profile is None:
        return CustomProfileState()
    name = ComponentName.CUSTOM_PROFILE
    try:
        rendered = render_profile(spec)
    except InvalidProfileError as fault:
        error = ClassifiedError(Category.INVALID_SPEC, "InvalidCustomProfile", str(fault))
        return CustomProfileState(Component(name, errors=(error,), is_input=True))
    message = f"Profile {rendered.profile_id}"
    return CustomProfileState(Component(name, State.READY, "CustomProfileRendered", message), rendered)


def profile_config_map(
    template: Template,
    scope: TemplateScope,
    rendered: RenderedProfile,
    namespace: str,
    propagation: LabelPropagation | None,
) -> Child:
    """The ConfigMap with the file (DI-247)."""
    own = {labels.TEMPLATE: label_value(template.name), labels.COMPONENT: labels.COMPONENT_CUSTOM_PROFILE}
    metadata: JsonObject = {
        "name": template_profile_name(template.name),
        "namespace": namespace,
        "labels": child_labels(own, parent=template, controller=scope.controller, propagation=propagation),
    }
    body = {"metadata": metadata, "data": {rendered.file_name: rendered.text}}
    return Child(CUSTOM_PROFILES, kind_of(body, CONFIG_MAP))


def obsolete_config_map(template: Template, namespace: str, view: View) -> tuple[Delete, ...]:
    """The ConfigMap of a profile that was removed (DI-249)."""
    if template.spec.custom_profile is not None:
        return ()
    found = view.get(CUSTOM_PROFILES, namespace, template_profile_name(template.name)).value
    if found is None or found.deleting or all(one.uid != template.uid for one in found.metadata.owner_references):
        return ()
    return (Delete(CUSTOM_PROFILES, found.namespace, found.name, found.uid, "the custom profile was removed"),)


def ignored_profile_id(template: Template) -> tuple[Event, ...]:
    """A profile id beside a custom profile has no effect (DI-252)."""
    if template.spec.custom_profile is None or not template.spec.profile_id:
        return ()
    message = f"profileId {template.spec.profile_id} is ignored, because customProfile is set; remove one of the two"
    return (Event(EventType.WARNING, "ProfileIdIgnored", message, standing=True),)


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


_SCHEDULED: Final = frozenset({ComponentName.DISCOVERY_JOB.value, ComponentName.DISCOVERY_PODS.value})


@dataclass(frozen=True, slots=True)
class TemplateReconcile:
    """The decision about templates of one scope."""

    scope: TemplateScope
    settings: DiscoverySettings

    def __call__(self, template: Template, view: View, now: datetime) -> Plan:
        namespace = template.namespace or self.settings.system_namespace
        return _Pass.look(self, template, namespace, view, now).plan(view, now)


@dataclass(frozen=True, slots=True)
class _Pass:
    """Everything one pass knows of a template."""

    by: TemplateReconcile
    template: Template
    namespace: str
    config: ResolvedConfig
    work: WorkNamespace
    resolution: ModelResolution
    inputs: DiscoveryInputs | None
    finding: Finding
    result: Result
    profile: CustomProfileState
    caching: CachingState

    @classmethod
    def look(cls, by: TemplateReconcile, template: Template, namespace: str, view: View, now: datetime) -> "_Pass":
        """Look everything up and judge it."""
        config = resolve_config(view, template.namespace or None, template.spec.runtime_config_name)
        resolution = resolve_model(template, by.scope, view)
        model = resolution.model
        taint = gpu_taint_of(view, config)
        inputs = inputs_of(template, model, config, taint) if model is not None and model.spec.image else None
        limit = by.settings.max_discovery_jobs
        finding = discovery_of(
            template, inputs, namespace, view, now, others_wait=lambda: Slots.of(view, limit).are_short(now)
        )
        return cls(
            by=by,
            template=template,
            namespace=namespace,
            config=config,
            work=work_namespace(view, namespace),
            resolution=resolution,
            inputs=inputs,
            finding=finding,
            result=Result.of(
                template, finding, view, Reach.of(config.spec, taint, is_of_cluster=not template.namespace)
            ),
            profile=custom_profile_of(template.spec),
            caching=caching_of(template, view, config.spec.label_propagation),
        )

    def plan(self, view: View, now: datetime) -> Plan:
        """What follows."""
        template, finding, caching = self.template, self.finding, self.caching
        evaluation = self._evaluate(view, now)
        ready = self.resolution.usable and self.result.gpu_ready and self.work.usable and evaluation.may_apply
        slots = Slots.of(view, self.by.settings.max_discovery_jobs) if ready and finding.wants_job else None
        start = slots is not None and slots.is_turn_of(template, now)
        cached = ready and self._may_cache(evaluation.status)
        plan = assemble(
            evaluation,
            status=self._status(evaluation),
            deletes=(*finding.deletes, *obsolete_config_map(template, self.namespace, view)),
            children=(
                *(self._config_map() if ready else ()),
                *(self._job() if start else ()),
                *(caching.children if cached else ()),
            ),
            events=(*ignored_profile_id(template), *(caching.events if cached else ())),
            effects=finding.effects,
            requeue_after=soonest((finding.requeue_after, RECOUNT if slots is not None and slots.error else None)),
        )
        scheduled = frozenset(part.name for part in self._components() if part.name in _SCHEDULED and not part.blocks)
        return on_own_schedule(plan, self._components(), scheduled, view.failure or next(iter(self.work.errors), None))

    def _components(self) -> tuple[Component, ...]:
        finding = self.finding
        parts = (
            self.config.component(missing="ConfigNotFound"),
            self.resolution.component,
            self.profile.component,
            finding.job,
            finding.pods,
            self.result.gpu,
        )
        return tuple(part for part in parts if part is not None)

    def _evaluate(self, view: View, now: datetime) -> Evaluation:
        status, cache = self.template.status, self.caching.condition
        return evaluate(
            self.by.scope.part.kind.model.components,
            self._components(),
            generation=self.template.metadata.generation,
            stored=status.conditions,
            stored_status=status.status,
            now=now,
            errors=(*self.work.errors, *template_errors(self.template.spec)),
            extra=(self.finding.condition, *(() if cache is None else (cache,))),
            failure=view.failure,
            created=self.template.metadata.creation_timestamp,
        )

    # Children

    def _config_map(self) -> tuple[Child, ...]:
        rendered, propagation = self.profile.rendered, self.config.spec.label_propagation
        if rendered is None:
            return ()
        return (profile_config_map(self.template, self.by.scope, rendered, self.namespace, propagation),)

    def _job(self) -> tuple[Child, ...]:
        if self.inputs is None:
            return ()
        job = build_job(
            self.template,
            self.by.scope,
            self.inputs,
            self.namespace,
            deadline=self.by.settings.discovery_job_deadline,
            propagation=self.config.spec.label_propagation,
            profile=self.profile.rendered,
        )
        return (replace(job, quotas=(place(self.by.settings.max_discovery_jobs),)),)

    def _may_cache(self, status: StatusValue) -> bool:
        """Whether there is something to cache (DI-344)."""
        is_inline = bool(self.template.spec.model_sources)
        return is_inline or (status is StatusValue.READY and bool(self.finding.memory.sources))

    # Status

    def _status(self, evaluation: Evaluation) -> JsonObject:
        memory, result = self.finding.memory, self.result
        fields: JsonObject = {
            "resolvedRuntimeConfig": self.config.reference_json(self.template.status.resolved_runtime_config),
            "resolvedModel": _json(self.resolution.reference or self.template.status.resolved_model),
            "resolvedCache": _json(self.caching.reference),
            "discoveryJob": _json(memory.reference),
            "resolvedHardware": result.hardware,
            "resolvedNodeAffinity": result.affinity,
            "hardwareSummary": result.summary or None,
            "modelSources": memory.sources,
            "discovery": memory.attempts.as_json(),
        }
        status = status_json(evaluation, fields)
        # Nulls inside the profile are values: an engine argument without one is a flag (DI-268).
        return status if result.profile is None else {**status, "profile": result.profile}


def gpu_taint_of(view: View, config: ResolvedConfig) -> str:
    """Of the KaiwoConfig, also for cluster templates: their Jobs run on the same nodes (DI-390)."""
    return config.pods.gpu_taint or pod_defaults(oldest_config(view.all(KAIWO_CONFIGS).items)).gpu_taint


def _json(reference: ResolvedReference | None) -> JsonObject | None:
    return None if reference is None else to_json(reference)
