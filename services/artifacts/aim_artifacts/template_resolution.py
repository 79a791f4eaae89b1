"""The template of a cache: where it is looked for, and what its state means (AR-530…AR-535)."""

from dataclasses import dataclass
from typing import TypeAlias

from aim_domain import AIMClusterServiceTemplate, AIMServiceTemplate, AIMTemplateCache, ModelSource, TemplateScope
from aim_domain.component_names import ComponentName
from aim_domain.parts import CLUSTER_TEMPLATES, TEMPLATES
from controller_runtime import (
    Component,
    ConditionStatus,
    Lookup,
    ParentCondition,
    State,
    StatusValue,
    View,
    find_condition,
    upstream,
)

Template: TypeAlias = AIMServiceTemplate | AIMClusterServiceTemplate

_FOUND = "ResourceFound"


@dataclass(frozen=True, slots=True)
class ResolvedTemplate:
    """The template that a cache belongs to, if there is one, and its component."""

    template: Template | None
    component: Component

    @property
    def is_ready(self) -> bool:
        """Whether artifacts may be created for it (AR-535)."""
        return self.template is not None and self.template.status.status is StatusValue.READY

    @property
    def sources(self) -> tuple[ModelSource, ...]:
        """Model sources that the template came with or discovered."""
        return () if self.template is None else self.template.status.model_sources


def resolve_template(cache: AIMTemplateCache, view: View) -> ResolvedTemplate:
    """Look only where the cache's scope allows (AR-530)."""
    name, scope = cache.spec.template_name, cache.spec.template_scope
    if scope != TemplateScope.CLUSTER:
        local = view.get(TEMPLATES, cache.namespace, name)
        if local.value is not None or local.error is not None or scope == TemplateScope.NAMESPACE:
            return _resolved(local.value, local, f"AIMServiceTemplate {cache.namespace}/{name}")
    shared = view.get(CLUSTER_TEMPLATES, None, name)
    both = "AIMServiceTemplate or " if scope != TemplateScope.CLUSTER else ""
    return _resolved(shared.value, shared, f"{both}AIMClusterServiceTemplate {name}")


def _resolved(
    template: Template | None, lookup: Lookup[AIMServiceTemplate] | Lookup[AIMClusterServiceTemplate], what: str
) -> ResolvedTemplate:
    found: Lookup[AIMServiceTemplate | AIMClusterServiceTemplate] = Lookup(template, lookup.error)
    return ResolvedTemplate(template, upstream(ComponentName.SERVICE_TEMPLATE, found, inspect_template, what=what))


def inspect_template(template: Template) -> Component:
    """Health of the template as the cache sees it (AR-534)."""
    status = template.status
    ready = find_condition(status.conditions, ParentCondition.READY)
    if ready is None:
        # A template that nobody has looked at yet counts as Ready only by accident (AR-P05).
        given = status.status if status.has("status") and status.status.known else State.PENDING
        return Component("", given, _FOUND, f"{template.kind} {template.key} is {given.value}")
    # The condition repeats the template's reason: its message says whose it is, lest it be taken for the cache's own.
    message = f"{template.kind} {template.key}: {ready.message or ready.reason}"
    if ready.status is ConditionStatus.TRUE:
        return Component("", State.READY, ready.reason, message)
    state = status.status if ready.status is ConditionStatus.FALSE and status.status.known else State.PENDING
    if state in {State.READY, State.RUNNING}:
        # The condition is newer than the value; what it denies cannot be Ready.
        state = State.PENDING
    return Component("", state, ready.reason, message)
