"""One pass over a template: resolve its model, check its GPU, discover its profile, report (sections 7 to 16)."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from aim_discovery.namespaces import WorkNamespace, work_namespace
from aim_discovery.own_schedule import on_own_schedule
from aim_discovery.scopes import Template, TemplateScope
from aim_discovery.settings import DiscoverySettings
from aim_discovery.templates.caching import CachingState, caching_of
from aim_discovery.templates.custom_profile import (
    CustomProfileState,
    custom_profile_of,
    ignored_profile_id,
    obsolete_config_map,
    profile_config_map,
)
from aim_discovery.templates.discovery import Finding, discovery_of
from aim_discovery.templates.identity import DiscoveryInputs, inputs_of
from aim_discovery.templates.job import build_job
from aim_discovery.templates.model_resolution import ModelResolution, resolve_model
from aim_discovery.templates.reach import Reach
from aim_discovery.templates.result import Result
from aim_discovery.templates.slots import RECOUNT, Slots, place
from aim_domain import (
    ResolvedConfig,
    ResolvedReference,
    oldest_config,
    pod_defaults,
    resolve_config,
    template_errors,
)
from aim_domain.component_names import COMPONENT_ORDER, ComponentName
from aim_domain.parts import KAIWO_CONFIGS
from controller_runtime import (
    Child,
    Component,
    Evaluation,
    JsonObject,
    Plan,
    StatusValue,
    View,
    assemble,
    evaluate,
    soonest,
    status_json,
    to_json,
)

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
        taint = _gpu_taint(view, config)
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
            COMPONENT_ORDER[self.by.scope.kind],
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


def _gpu_taint(view: View, config: ResolvedConfig) -> str:
    """Of the KaiwoConfig, also for cluster templates: their Jobs run on the same nodes (DI-390)."""
    return config.pods.gpu_taint or pod_defaults(oldest_config(view.all(KAIWO_CONFIGS).items)).gpu_taint


def _json(reference: ResolvedReference | None) -> JsonObject | None:
    return None if reference is None else to_json(reference)
