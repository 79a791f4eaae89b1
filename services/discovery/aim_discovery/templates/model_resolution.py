"""Which model a template is for, and whether it is usable (DI-162…DI-173)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from aim_discovery.scopes import Model, Template, TemplateScope
from aim_domain import API_VERSION, ResolutionScope, ResolvedReference
from aim_domain.component_names import ComponentName
from aim_domain.parts import CLUSTER_MODELS, MODELS
from controller_runtime import Component, ConditionStatus, Lookup, ParentCondition, State, StatusValue, View, upstream

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
