"""Which template a service uses: the stored one, a named one, the model's default, or the best (SV-082…SV-103)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Final

from aim_domain import GPUS, AIMService, Overrides, ResolutionScope, canonical_model, labels, of_model
from aim_domain.parts import CLUSTER_TEMPLATES, TEMPLATES
from aim_serving.hardware import canonical_hardware
from aim_serving.indexes import CLUSTER_TEMPLATES_BY_MODEL, TEMPLATES_BY_MODEL
from aim_serving.overrides import Declared, declares, effective_overrides
from aim_serving.references import Model, Template, described, expects_no_template, is_ready, named
from aim_serving.selection_report import report
from aim_serving.template_selection import Choice, Criteria, Stage, select_template
from aim_serving.template_traits import Traits, traits_of
from aim_serving.template_wait import Wait, wait_for
from controller_runtime import Category, ClassifiedError, View, scoped, timestamp

TEMPLATE_NOT_FOUND: Final = "TemplateNotFound"


class Unresolved(Enum):
    """Why no template is there, when that is not an error."""

    NO_MODEL = "no model"
    NOTHING = "nothing"
    NONE_EXPECTED = "none expected"
    NONE_READY = "none ready"
    DERIVING = "deriving"
    AMBIGUOUS = "ambiguous"
    UNDECIDED = "undecided"


SETTLED: Final = frozenset({Unresolved.NOTHING, Unresolved.NONE_EXPECTED, Unresolved.AMBIGUOUS})
"""Outcomes that stay until an object changes; a service goes on with what it had (SV-103, SV-303)."""


@dataclass(frozen=True, slots=True)
class TemplateResult:
    """What the search came to.

    Attributes:
        template: the template, Ready or not (SV-084).
        base: the overrides are to be laid on this one: a derived template is used instead (SV-105, SV-106).
        unresolved: why there is neither, with ``message``.
        again: when the clock alone leads to another result (SV-278).
        late: those with which another template might have been selected, had they been ready in time (SV-279).
        kept: the template is the stored one, used on without selecting anew.
        unmet: why the spec leads to no template, when the stored one is used on all the same (SV-303).
    """

    template: Template | None = None
    base: Template | None = None
    unresolved: Unresolved = Unresolved.NOTHING
    message: str = ""
    error: ClassifiedError | None = None
    choice: Choice = field(default_factory=Choice)
    again: datetime | None = None
    late: tuple[Template, ...] = ()
    kept: bool = False
    unmet: str = ""


def find_template(view: View, service: AIMService, model: Model | None, now: datetime) -> TemplateResult:
    """The template of this pass; the order of the steps is SV-082's."""
    overrides = wanted_overrides(service, model)
    if explicit := base_name(service, None):
        return _named(view, service, explicit, overrides, model=model)
    if default := base_name(service, model):
        return _named(view, service, default, overrides, model=model, is_default=True)
    if model is None:
        message = "no template can be selected before the model is resolved"
        return TemplateResult(unresolved=Unresolved.NO_MODEL, message=message)
    return _selected(view, service, model, overrides, now)


def stored_template(view: View, service: AIMService) -> TemplateResult:
    """The template that an earlier pass resolved to (SV-083)."""
    reference = service.status.resolved_template
    if reference is None or not reference.name:
        return TemplateResult()
    if reference.scope is ResolutionScope.CLUSTER:
        in_cluster = view.get(CLUSTER_TEMPLATES, None, reference.name)
        return TemplateResult(in_cluster.value, error=in_cluster.error)
    local = view.get(TEMPLATES, service.namespace, reference.name)
    return TemplateResult(local.value, error=local.error)


def still_fits(template: Template, service: AIMService, model: Model | None) -> bool:
    """Whether a stored, not derived template is what the spec would lead to, without selecting anew (SV-057)."""
    overrides = wanted_overrides(service, model)
    named = base_name(service, model)
    if named:
        return overrides is None and (template.name == named or _is_called(template, named, model))
    if model is None or template.spec.model_name != model.name:
        return False
    return overrides is None or declares_overrides(template, overrides)


def base_name(service: AIMService, model: Model | None) -> str:
    """Name of the template that the service, or else its model, asks for; empty when it is to be selected."""
    named = service.spec.template.name if service.spec.template else None
    default = model.spec.default_service_template if model is not None else None
    return (named or "").strip() or (default or "").strip()


def wanted_overrides(service: AIMService, model: Model | None) -> Overrides | None:
    """What the service wants differently from the template that is named, or of the one to be selected."""
    return effective_overrides(service.spec.overrides, selecting=not base_name(service, model))


def declares_overrides(template: Template, overrides: Overrides) -> bool:
    """Whether the template can be used as it is (SV-106)."""
    declared = Declared(traits_of(template), canonical_hardware(template.spec.hardware))
    return declares(declared, overrides, canonical_model)


# Named


def _named(
    view: View,
    service: AIMService,
    name: str,
    overrides: Overrides | None,
    *,
    model: Model | None,
    is_default: bool = False,
) -> TemplateResult:
    """The namespace's template wins (SV-085), an object's name over an alias (SV-311). No filter applies (SV-088)."""
    local = view.get(TEMPLATES, service.namespace, name)
    if local.error is not None:
        return TemplateResult(error=local.error)
    found: Template | None = local.value
    if found is None:
        in_cluster = view.get(CLUSTER_TEMPLATES, None, name)
        if in_cluster.error is not None:
            return TemplateResult(error=in_cluster.error)
        found = in_cluster.value
    if found is None and model is not None:
        by_alias = _by_alias(view, service, name, model)
        if isinstance(by_alias, ClassifiedError):
            return TemplateResult(error=by_alias)
        found = by_alias
    if found is None:
        return _missing(service, name, model, is_default=is_default)
    return TemplateResult(found) if overrides is None else TemplateResult(base=found)


def _by_alias(view: View, service: AIMService, name: str, model: Model) -> Template | ClassifiedError | None:
    """The template that the model made for its entry of this name in ``customTemplates`` (SV-311, DI-144)."""
    local = view.select(TEMPLATES_BY_MODEL, scoped(service.namespace, model.name))
    in_cluster = view.select(CLUSTER_TEMPLATES_BY_MODEL, model.name)
    error = local.error or in_cluster.error
    if error is not None:
        return error
    candidates: tuple[tuple[Template, ...], ...] = (local.items, in_cluster.items)
    for listed in candidates:
        called = [one for one in listed if _is_called(one, name, model)]
        if called:
            # An entry that was moved in its list leaves its former template behind (DI-P30).
            return max(called, key=lambda one: (is_ready(one), _age_key(one), one.name))
    return None


def _is_called(template: Template, name: str, model: Model | None) -> bool:
    of_model = model is not None and template.spec.model_name == model.name
    return of_model and template.metadata.labels.get(labels.TEMPLATE_ALIAS) == name


def _age_key(template: Template) -> float:
    created = template.metadata.creation_timestamp
    return 0.0 if created is None else created.timestamp()


def _missing(service: AIMService, name: str, model: Model | None, *, is_default: bool) -> TemplateResult:
    where = f"neither AIMServiceTemplate {service.namespace}/{name} nor AIMClusterServiceTemplate {name} exists"
    if model is not None:
        where = f"{where}, and no template of {described(model)} has this name in customTemplates"
    if is_default and model is not None:
        message = f"{where}; it is the default template of {described(model)}"
        return TemplateResult(message=message)
    message = f"{where}; create it or correct spec.template.name"
    return TemplateResult(error=ClassifiedError(Category.MISSING_UPSTREAM, TEMPLATE_NOT_FOUND, message))


# Selected


def _selected(
    view: View, service: AIMService, model: Model, overrides: Overrides | None, now: datetime
) -> TemplateResult:
    local = view.select(TEMPLATES_BY_MODEL, scoped(service.namespace, model.name))
    in_cluster = view.select(CLUSTER_TEMPLATES_BY_MODEL, model.name)
    error = local.error or in_cluster.error
    if error is not None:
        return TemplateResult(error=error)
    every: tuple[Template, ...] = (*local.items, *in_cluster.items)
    candidates = {
        traits_of(one): one for one in every if one.metadata.labels.get(labels.ORIGIN) != labels.ORIGIN_DERIVED
    }
    presence = _GpuPresence(view)
    wants = service.spec.template
    criteria = Criteria(
        allow_unoptimized=bool(wants and wants.allow_unoptimized),
        overrides=overrides,
        gpu_present=presence.has,
        normalise=canonical_model,
    )
    choice = select_template(tuple(candidates), criteria)
    # A service that has chosen among them takes another one only while its own cannot serve: at once (SV-279).
    wait = Wait() if _has_chosen(service, every) else wait_for(tuple(candidates), criteria, choice, now)
    if presence.error is not None:
        # Another choice would be for good: what is chosen is not evaluated again while it is Ready (SV-083).
        return TemplateResult(error=presence.error, choice=choice)
    if wait.awaited:
        return _waiting(candidates, choice, wait, model)
    if choice.chosen is None:
        why, message = _explain(choice, model)
        listed = report(choice, candidates, criteria)
        return TemplateResult(unresolved=why, message=f"{message}: {listed}" if listed else message, choice=choice)
    return replace(
        _chosen(candidates, choice.chosen, choice, overrides), late=tuple(candidates[one] for one in wait.late)
    )


def _has_chosen(service: AIMService, of_model: Iterable[Template]) -> bool:
    """Whether the stored template is one of this model's; a reference outlives models and templates (SV-230)."""
    stored = service.status.resolved_template
    return stored is not None and any(one.uid == stored.uid for one in of_model)


def _waiting(candidates: Mapping[Traits, Template], choice: Choice, wait: Wait, model: Model) -> TemplateResult:
    now_usable = (
        f"{choice.tied} equally good templates of {described(model)} are"
        if choice.chosen is None
        else f"{described(candidates[choice.chosen])} is"
    )
    names = named(candidates[one] for one in wait.awaited)
    until = timestamp(wait.until) if wait.until else ""
    return TemplateResult(
        unresolved=Unresolved.UNDECIDED,
        message=f"{now_usable} ready, but {names} may come to be preferred; waiting for discovery until {until}",
        choice=choice,
        again=wait.until,
    )


def _chosen(
    candidates: Mapping[Traits, Template], chosen: Traits, choice: Choice, overrides: Overrides | None
) -> TemplateResult:
    winner = candidates[chosen]
    if overrides is not None and not declares_overrides(winner, overrides):
        return TemplateResult(base=winner, choice=choice)
    return TemplateResult(winner, choice=choice)


def _explain(choice: Choice, model: Model) -> tuple[Unresolved, str]:
    what = described(model)
    if choice.tied:
        advice = "set spec.template.name, or narrow the selection with spec.overrides"
        return Unresolved.AMBIGUOUS, f"{choice.tied} templates of {what} are equally good; {advice}"
    if not choice.before:
        why = expects_no_template(model)
        if why:
            return Unresolved.NONE_EXPECTED, f"{what} has no template and makes none: {why}"
        return Unresolved.NOTHING, f"{what} has no template"
    if choice.emptied_by is Stage.AVAILABILITY:
        return Unresolved.NONE_READY, f"{what} has templates, but none is ready"
    messages = {
        Stage.OPTIMISATION: (
            f"all {choice.before} ready templates of {what} are unoptimized; "
            "set spec.template.allowUnoptimized to use one of them"
        ),
        Stage.OVERRIDES: f"no ready template of {what} matches spec.overrides",
        Stage.GPU: f"no node has a GPU that a ready template of {what} requires",
    }
    return Unresolved.NOTHING, messages[choice.emptied_by or Stage.OPTIMISATION]


class _GpuPresence:
    """Whether nodes with a GPU exist; remembers the look-up that could not tell."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.error: ClassifiedError | None = None

    def has(self, model: str) -> bool:
        """Whether a node carries the model, under its normalised or its literal name (DI-190)."""
        names = dict.fromkeys((canonical_model(model), model.strip().upper()))
        found = [self._view.summary(GPUS, of_model(name)) for name in names]
        if any(one.items for one in found):
            return True
        self.error = self.error or next((one.error for one in found if one.error is not None), None)
        return False


def ready_template(result: TemplateResult) -> Template | None:
    """The template, if it is Ready: what cache and InferenceService depend on (SV-140)."""
    template = result.template
    return template if template is not None and is_ready(template) else None
