"""One pass over a model: inspect its image, make its templates, sum them up (sections 4 to 6)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from aim_discovery.models.desired_templates import DesiredTemplate, DesiredTemplates, desired_templates
from aim_discovery.models.expectation import (
    UNUSABLE,
    Expectation,
    discovery_flags,
    expectation,
    templates_component,
    why_none,
)
from aim_discovery.models.inspection import Inspection, RetrySchedule, inspect_image
from aim_discovery.own_schedule import on_own_schedule
from aim_discovery.profiles.of_model import ImageSubject, ProfilesOfModel, derived_profiles_of, is_derived, profiles_of
from aim_discovery.scopes import Model, ModelScope, Template, work_namespace
from aim_discovery.settings import DiscoverySettings
from aim_domain import (
    Hardware,
    ModelSourceType,
    ResolvedConfig,
    TemplateSpec,
    child_labels,
    model_errors,
    resolve_config,
)
from aim_domain.component_names import ComponentName
from controller_runtime import (
    BRIEFLY,
    Child,
    Component,
    Condition,
    Evaluation,
    Event,
    EventType,
    JsonObject,
    Plan,
    Selection,
    StatusValue,
    View,
    assemble,
    evaluate,
    kind_of,
    ready_words,
    scoped,
    status_json,
    to_json,
)


@dataclass(frozen=True, slots=True)
class ModelReconcile:
    """The decision about models of one scope.

    Attributes:
        settings: with the namespace in which cluster models find their Secrets (DI-070).
    """

    scope: ModelScope
    settings: DiscoverySettings
    schedule: RetrySchedule

    def __call__(self, model: Model, view: View, now: datetime) -> Plan:
        scope, spec = self.scope, model.spec
        config = resolve_config(view, model.namespace or None, spec.runtime_config_name)
        if is_derived(model):
            return self._derived(model, view, now, config)
        profiles = profiles_of(ImageSubject(model, scope, config, self.settings, view), now)
        flags = discovery_flags(spec, config.spec)
        image = inspect_image(
            model,
            flags,
            model.namespace or self.settings.system_namespace,
            view,
            self.schedule,
            secrets=config.pull_secrets,
        )
        existing = view.select(scope.templates_by_model, scoped(model.namespace, model.name))
        desired = desired_templates(model.name, spec, flags, image.effective)
        expected = expectation(spec, flags, image.effective)
        if expected is Expectation.YES and desired.unusable:
            expected = Expectation.NO
        why = why_none(spec, flags, image.effective, desired.unusable) if expected is Expectation.NO else ""
        namespace = work_namespace(view, model.namespace)
        wanted = tuple(desired.templates.values()) if namespace.usable and not image.pending else ()
        components = (
            config.component(missing=scope.missing_config),
            _image(replace(image.component, dependency=scope.dependency), model, pending=image.pending),
            self._templates(existing, wanted, desired, expected, why),
        )
        evaluation = evaluate(
            scope.part.kind.model.components,
            components,
            generation=model.metadata.generation,
            stored=_believed(model, image),
            stored_status=model.status.status,
            now=now,
            errors=(*namespace.errors, *model_errors(spec)),
            extra=profiles.conditions,
            failure=view.failure,
        )
        children, conflicts = self._children(model, view, config, wanted)
        plan = assemble(
            evaluation,
            status=_status(model, evaluation, image, config, profiles),
            children=(*children, *profiles.children),
            deletes=profiles.deletes,
            events=(*desired.warnings, *conflicts),
            effects=(*(image.effects if config.error is None else ()), *profiles.effects),
            requeue_after=profiles.requeue_after,
        )
        # Without an effect under way nothing but the general retry would look again.
        scheduled = frozenset({ComponentName.IMAGE_METADATA}) if image.effects else frozenset()
        return on_own_schedule(plan, components, scheduled, view.failure or next(iter(namespace.errors), None))

    def _derived(self, model: Model, view: View, now: datetime, config: ResolvedConfig) -> Plan:
        """A model that is nothing but profiles derived from others: no image is read, no template made (PR-115)."""
        profiles = derived_profiles_of(model, self.scope, config, view)
        namespace = work_namespace(view, model.namespace)
        components = (config.component(missing=self.scope.missing_config), profiles.component)
        evaluation = evaluate(
            self.scope.part.kind.model.components,
            tuple(one for one in components if one is not None),
            generation=model.metadata.generation,
            stored=model.status.conditions,
            stored_status=model.status.status,
            now=now,
            errors=(*namespace.errors, *model_errors(model.spec)),
            failure=view.failure,
        )
        fields = {
            "resolvedRuntimeConfig": config.reference_json(model.status.resolved_runtime_config),
            **profiles.fields,
        }
        return assemble(
            evaluation,
            status=status_json(evaluation, fields),
            children=profiles.children if namespace.usable else (),
        )

    def _templates(
        self,
        existing: Selection[Template],
        wanted: tuple[DesiredTemplate, ...],
        desired: DesiredTemplates,
        expected: Expectation,
        why: str,
    ) -> Component:
        scope = self.scope
        fault = desired.error or existing.error
        if fault is not None:
            component = Component(scope.component, reason=fault.reason, errors=(fault,), is_input=True)
        else:
            # The status is written after the children: those that this pass creates are there by then (DI-157).
            missing = {template.name for template in wanted} - {template.name for template in existing.items}
            statuses = [
                *(template.status.status for template in existing.items),
                *(StatusValue.PENDING for _ in missing),
            ]
            component = templates_component(scope.component, statuses, expected, why, _first_words(existing.items))
        return replace(component, dependency=scope.dependency)

    def _children(
        self, model: Model, view: View, config: ResolvedConfig, wanted: tuple[DesiredTemplate, ...]
    ) -> tuple[list[Child], list[Event]]:
        children: list[Child] = []
        conflicts: list[Event] = []
        for template in wanted:
            found = view.get(self.scope.templates, model.namespace or None, template.name).value
            conflict = None if found is None else conflict_with(found, model, template)
            if conflict is None:
                children.append(self._child(model, config, template))
            else:
                conflicts.append(conflict)
        return children, conflicts

    def _child(self, model: Model, config: ResolvedConfig, template: DesiredTemplate) -> Child:
        labels = child_labels(
            template.labels,
            parent=model,
            controller=self.scope.controller,
            propagation=config.spec.label_propagation,
        )
        metadata = {
            "name": template.name,
            **({"namespace": model.namespace} if model.namespace else {}),
            "labels": labels,
        }
        return Child(
            self.scope.templates, kind_of({"metadata": metadata, "spec": template.spec}, self.scope.template_kind)
        )


def _status(
    model: Model, evaluation: Evaluation, image: Inspection, config: ResolvedConfig, profiles: ProfilesOfModel
) -> JsonObject:
    kind = ModelSourceType.CUSTOM if model.spec.model_sources else ModelSourceType.IMAGE
    fields = {
        "sourceType": kind.value,
        "imageMetadata": None if image.status is None else to_json(image.status),
        "resolvedRuntimeConfig": config.reference_json(model.status.resolved_runtime_config),
        **profiles.fields,
    }
    return status_json(evaluation, fields)


def _first_words(templates: Iterable[Template]) -> str:
    """What the first template by name says that cannot be used."""
    unusable = (one for one in templates if one.status.status in UNUSABLE)
    first = min(unusable, key=lambda one: one.name, default=None)
    return "" if first is None else f"{first.kind} {first.name}{ready_words(first.status.conditions)}"


def _image(component: Component, model: Model, *, pending: bool) -> Component:
    """While a new model's image is asked there is no status at all: most answer at once (DI-377)."""
    created = model.metadata.creation_timestamp
    if not pending or created is None or model.status.conditions:
        return component
    return component.hold_for(BRIEFLY, since=created, whole=True)


def _believed(model: Model, image: Inspection) -> tuple[Condition, ...]:
    """Stored conditions; without the success of another generation when the present image cannot be read.

    The grace period would carry it over, and the metadata of another image would pass for that of this one (DI-067).
    """
    stored = model.status.conditions
    if not image.component.errors:
        return stored
    type_, present = ComponentName.IMAGE_METADATA.condition, (None, 0, model.metadata.generation)
    return tuple(one for one in stored if one.type != type_ or one.observed_generation in present)


def conflict_with(found: Template, model: Model, wanted: DesiredTemplate) -> Event | None:
    """Why an existing template of the name is left alone, if it is (DI-153, DI-154)."""
    controller = next((owner for owner in found.metadata.owner_references if owner.controller), None)
    if controller is not None and controller.uid != model.uid:
        message = f"template {found.key} is controlled by {controller.kind} {controller.name} and is not changed"
        return Event(EventType.WARNING, "TemplateNameConflict", message, standing=True)
    spec = TemplateSpec.model_validate(wanted.spec)
    changed = [
        name
        for name, before, after in (
            ("modelName", found.spec.model_name, spec.model_name),
            ("metric", found.spec.metric, spec.metric),
            ("precision", found.spec.precision, spec.precision),
            ("hardware", _effective(found.spec.hardware), _effective(spec.hardware)),
        )
        if before != after
    ]
    if not changed:
        return None
    message = f"template {found.key} would have to change {', '.join(changed)}, which is immutable; delete it"
    return Event(EventType.WARNING, "TemplateImmutable", message, standing=True)


def _effective(hardware: Hardware | None) -> tuple[object, ...]:
    """Hardware as values, with defaults filled in the way admission does."""
    if hardware is None:
        return ()
    gpu, cpu = hardware.gpu, hardware.cpu
    return (
        None if gpu is None else (gpu.requests, gpu.model, str(gpu.min_vram), gpu.resource_name),
        None if cpu is None else (str(cpu.requests), str(cpu.limits)),
    )
