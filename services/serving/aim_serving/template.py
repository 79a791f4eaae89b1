"""The template of a service: found or kept, waited for, and whether it can be used."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from types import MappingProxyType
from typing import Final

from aim_domain import (
    GPUS,
    GPUS_BY_PREFERENCE,
    AIMService,
    AIMServiceStatus,
    AIMServiceTemplate,
    LabelPropagation,
    Overrides,
    ResolutionScope,
    ResolvedReference,
    canonical_model,
    labels,
    of_model,
)
from aim_domain.component_names import ComponentName
from aim_domain.naming import optional_label_value
from aim_domain.parts import CLUSTER_TEMPLATES, TEMPLATES
from aim_serving.containers import canonical_hardware
from aim_serving.derived_template import (
    derived_name,
    derived_spec,
    is_derived,
    is_the_same,
    new_derived_template,
    other_derived_name,
    owner_reference,
)
from aim_serving.indexes import CLUSTER_TEMPLATES_BY_MODEL, TEMPLATES_BY_MODEL, TEMPLATES_BY_OWNER
from aim_serving.references import Model, Template, expects_no_template, is_ready, name_of, names_of
from aim_serving.template_selection import (
    BEST_METRIC,
    BEST_PRECISION,
    BEST_TYPE,
    Choice,
    Criteria,
    Declared,
    Stage,
    Traits,
    declares,
    effective_overrides,
    report,
    select_template,
    traits_of,
)
from aim_serving.template_selection import select_template as selected
from controller_runtime import (
    Category,
    Child,
    ClassifiedError,
    Component,
    Delete,
    Dependency,
    JsonObject,
    OwnerReference,
    Patch,
    State,
    StatusValue,
    View,
    find_condition,
    ready_words,
    scoped,
    timestamp,
    to_json,
)

PATIENCE: Final = timedelta(seconds=600)
"""How long a candidate is waited for while another one could be used (SV-278)."""

_UNDER_WAY: Final = frozenset({StatusValue.PENDING, StatusValue.PROGRESSING})
_TO_BE_FOUND: Final = frozenset({"", "auto"})


@dataclass(frozen=True, slots=True)
class Wait:
    """Candidates with which the selection could still end otherwise.

    Attributes:
        awaited: those that are waited for; nothing is selected while there are any.
        late: those that were waited for long enough.
        until: when the first of ``awaited`` is late; ``None`` when there are none.
    """

    awaited: tuple[Traits, ...] = ()
    late: tuple[Traits, ...] = ()
    until: datetime | None = None


def wait_for(candidates: Sequence[Traits], criteria: Criteria, choice: Choice, now: datetime) -> Wait:
    """Whom ``choice``, made among the candidates that are Ready, should wait for."""
    if not choice.usable:
        return Wait()
    ready = [one for one in candidates if one.status is StatusValue.READY]
    known = [one.since for one in choice.usable if one.since is not None]
    first_usable = min(known, default=None)
    deadlines: dict[Traits, datetime] = {}
    late: list[Traits] = []
    for one in candidates:
        if one.status not in _UNDER_WAY or not _matters(one, ready, criteria, choice):
            continue
        since = max((moment for moment in (first_usable, one.since) if moment is not None), default=None)
        # A clock that is far behind must not make the wait longer.
        if since is not None and abs(now - since) < PATIENCE:
            deadlines[one] = since + PATIENCE
        else:
            late.append(one)
    return Wait(tuple(deadlines), tuple(late), min(deadlines.values(), default=None))


def _matters(one: Traits, ready: Sequence[Traits], criteria: Criteria, choice: Choice) -> bool:
    """Whether the selection would end otherwise with the candidate: the selection itself says so."""
    return selected([*ready, _at_best(one, criteria)], criteria).chosen != choice.chosen


def _at_best(one: Traits, criteria: Criteria) -> Traits:
    """The candidate once it is Ready, with the best that discovery could find where nothing is known yet."""
    wanted = criteria.overrides
    gpu = wanted.hardware.gpu if wanted is not None and wanted.hardware is not None else None
    return replace(
        one,
        status=StatusValue.READY,
        type=one.type or BEST_TYPE,
        metric=one.metric or (wanted.metric if wanted else None) or BEST_METRIC,
        precision=one.precision
        if one.precision not in _TO_BE_FOUND
        else ((wanted.precision if wanted else None) or BEST_PRECISION),
        gpu_model=one.gpu_model or (gpu.model if gpu else None) or _best_gpu(criteria),
    )


def _best_gpu(criteria: Criteria) -> str:
    return next((model for model in GPUS_BY_PREFERENCE if criteria.gpu_present(model)), "")


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
        kept: the template is the stored one, kept without another selection.
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
        return _named_template(view, service, explicit, overrides, model=model)
    if default := base_name(service, model):
        return _named_template(view, service, default, overrides, model=model, is_default=True)
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
    """Whether a stored, not derived template is what the spec would lead to, without another selection (SV-057)."""
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


def _named_template(
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
        where = f"{where}, and no template of {name_of(model)} has this name in customTemplates"
    if is_default and model is not None:
        message = f"{where}; it is the default template of {name_of(model)}"
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
        f"{choice.tied} equally good templates of {name_of(model)} are"
        if choice.chosen is None
        else f"{name_of(candidates[choice.chosen])} is"
    )
    names = names_of(candidates[one] for one in wait.awaited)
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
    what = name_of(model)
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


@dataclass(frozen=True, slots=True)
class TemplateUse:
    """The template of this pass, and what using it asks for.

    Attributes:
        children: a derived template to be made.
        patches: owner references to be added to or removed from derived templates (FW-213).
        deletes: an unused derived template (SV-266).
    """

    result: TemplateResult
    children: tuple[Child, ...] = ()
    patches: tuple[Patch, ...] = ()
    deletes: tuple[Delete, ...] = ()


def use_template(
    view: View,
    service: AIMService,
    model: Model | None,
    propagation: LabelPropagation | None,
    *,
    in_use: str,
    now: datetime,
) -> TemplateUse:
    """The stored template while it is Ready and fits, else what the spec leads to (SV-083).

    A stored template that is Ready but does not fit any more is used on while the spec leads to none (SV-303).

    Args:
        in_use: the template that the InferenceService was made of, as its label says; it is not let go yet (SV-266).
    """
    stored = stored_template(view, service)
    if stored.error is not None:
        return TemplateUse(stored)
    kept = stored.template
    if kept is not None and _serves(kept, in_use) and still_fits(kept, service, model):
        selected = replace(stored, kept=not base_name(service, model))
        use = TemplateUse(selected, patches=_joined(kept, service))
        return _leaving(view, use, service, in_use)
    found = find_template(view, service, model, now)
    overrides = wanted_overrides(service, model)
    if overrides is not None:
        found_use = _overridden(view, service, model, found=found, overrides=overrides, propagation=propagation)
    else:
        found_use = TemplateUse(found)
    if kept is not None and is_ready(kept) and _is_without(found_use.result) and _is_of(kept, model):
        # Without it nothing of the spec would reach the InferenceService, and a deleted one would not come back.
        remedy = "; change spec.overrides to what a template offers, or remove it" if overrides is not None else ""
        selected = replace(found_use.result, template=kept, kept=True, unmet=f"{found_use.result.message}{remedy}")
        found_use = TemplateUse(selected, patches=_joined(kept, service))
    return _leaving(view, found_use, service, in_use)


def _serves(template: Template, in_use: str) -> bool:
    """Ready, or in use while its nodes take no new pods: a cordon or a taint moves no service that runs (DI-394)."""
    gpu = find_condition(template.status.conditions, ComponentName.GPU.condition)
    repelled = gpu is not None and gpu.reason == "GPUNotSchedulable"
    return is_ready(template) or (repelled and optional_label_value(template.name) == in_use)


def _is_without(result: TemplateResult) -> bool:
    """Whether the search has ended without a template, so that waiting changes nothing."""
    return result.template is None and result.base is None and result.error is None and result.unresolved in SETTLED


def _is_of(template: Template, model: Model | None) -> bool:
    return model is not None and template.spec.model_name == model.name


# Derived templates


def _overridden(
    view: View,
    service: AIMService,
    model: Model | None,
    *,
    found: TemplateResult,
    overrides: Overrides,
    propagation: LabelPropagation | None,
) -> TemplateUse:
    """The derived template of the base; one that outlived its base still serves (SV-086)."""
    if found.base is None:
        survivor = None if found.template else _survivor(view, service, model, overrides)
        if survivor is None:
            return TemplateUse(found)
        return TemplateUse(TemplateResult(survivor), patches=_joined(survivor, service))
    base = found.base
    spec = derived_spec(base, service, overrides, model.name if model else "")
    for name in (derived_name(base.name, overrides), other_derived_name(base, overrides)):
        there = view.get(TEMPLATES, service.namespace, name)
        if there.error is not None:
            return TemplateUse(TemplateResult(error=there.error))
        if there.value is not None and is_the_same(there.value, spec):
            return TemplateUse(replace(found, template=there.value, base=None), patches=_joined(there.value, service))
        if there.value is None:
            return _to_be_made(service, base, name, spec, propagation)
    message = f"no name is free for the derived template of {name_of(base)}; delete {name}"
    return TemplateUse(TemplateResult(unresolved=Unresolved.DERIVING, message=message))


def _to_be_made(
    service: AIMService, base: Template, name: str, spec: JsonObject, propagation: LabelPropagation | None
) -> TemplateUse:
    """It need not wait for the base to be Ready (SV-108)."""
    message = f"derived template {name} of {name_of(base)} is being created for spec.overrides"
    child = new_derived_template(service, name, spec, propagation)
    return TemplateUse(TemplateResult(unresolved=Unresolved.DERIVING, message=message), children=(child,))


def _survivor(view: View, service: AIMService, model: Model | None, overrides: Overrides) -> AIMServiceTemplate | None:
    named = base_name(service, model)
    if not named:
        return None
    there = view.get(TEMPLATES, service.namespace, derived_name(named, overrides)).value
    fits = there is not None and is_derived(there) and declares_overrides(there, overrides)
    return there if fits else None


# Who uses a derived template


def _joined(template: Template, service: AIMService) -> tuple[Patch, ...]:
    """The service adds itself as an owner that is no controller (SV-110, SV-266)."""
    if not isinstance(template, AIMServiceTemplate) or not is_derived(template):
        return ()
    owners = template.metadata.owner_references
    own = next((owner for owner in owners if owner.uid == service.uid), None)
    if own is not None and not own.controller:
        return ()
    others = [to_json(owner) for owner in _others(owners, service)]
    return (_owners_patch(template, [*others, owner_reference(service)], "use this derived template"),)


def _leaving(view: View, use: TemplateUse, service: AIMService, in_use: str) -> TemplateUse:
    """A service that has moved on lets go of its former derived templates; the last one removes them (SV-266)."""
    current = use.result.template
    if current is None or not is_ready(current):
        return use
    owned = view.select(TEMPLATES_BY_OWNER, scoped(service.namespace, service.uid)).items
    former = [one for one in owned if is_derived(one) and one.uid != current.uid and not one.deleting]
    unused = [one for one in former if optional_label_value(one.name) != in_use]
    alone = [one for one in unused if not _others(one.metadata.owner_references, service)]
    return replace(
        use,
        patches=(*use.patches, *(_leave(one, service) for one in unused if one not in alone)),
        deletes=tuple(_removed(one) for one in alone),
    )


def _leave(template: AIMServiceTemplate, service: AIMService) -> Patch:
    others = [to_json(owner) for owner in _others(template.metadata.owner_references, service)]
    return _owners_patch(template, others, "stop using this derived template")


def _removed(template: AIMServiceTemplate) -> Delete:
    why = "no service uses this derived template"
    return Delete(TEMPLATES, template.namespace, template.name, template.uid, why)


def _others(owners: Iterable[OwnerReference], service: AIMService) -> list[OwnerReference]:
    return [owner for owner in owners if owner.uid != service.uid]


def _owners_patch(template: AIMServiceTemplate, owners: list[JsonObject], why: str) -> Patch:
    metadata = template.metadata
    body = {"metadata": {"ownerReferences": owners}}
    return Patch(TEMPLATES, metadata.namespace, metadata.name, metadata.resource_version, body, why)


NOT_READY: Final = "TemplateNotReady"
AFTER_WAIT: Final = "ResolvedAfterWait"

_WAITING: Final = (State.PROGRESSING, "is not ready yet")
_NOT_READY: Final[Mapping[StatusValue, tuple[State, str]]] = MappingProxyType(
    {
        StatusValue.PENDING: _WAITING,
        StatusValue.PROGRESSING: _WAITING,
        StatusValue.NOT_AVAILABLE: (State.NOT_AVAILABLE, "is not available: no node has a matching GPU"),
        StatusValue.FAILED: (State.FAILED, "has failed"),
        StatusValue.DEGRADED: (State.FAILED, "is degraded"),
    }
)
_UNRESOLVED: Final[Mapping[Unresolved, tuple[State, str]]] = MappingProxyType(
    {
        Unresolved.NO_MODEL: (State.PENDING, TEMPLATE_NOT_FOUND),
        Unresolved.NOTHING: (State.PENDING, TEMPLATE_NOT_FOUND),
        # Nothing that the service could wait for is going to happen (DI-422).
        Unresolved.NONE_EXPECTED: (State.FAILED, TEMPLATE_NOT_FOUND),
        Unresolved.NONE_READY: (State.PROGRESSING, NOT_READY),
        Unresolved.DERIVING: (State.PROGRESSING, NOT_READY),
        Unresolved.AMBIGUOUS: (State.FAILED, "TemplateSelectionAmbiguous"),
        Unresolved.UNDECIDED: (State.PROGRESSING, "TemplateSelectionPending"),
    }
)


def template_component(result: TemplateResult, before: AIMServiceStatus, *, running: bool) -> Component:
    """How the template is doing.

    Args:
        before: the stored status, with what an earlier pass resolved to.
        running: whether the InferenceService exists; it is left as it is then (SV-103).
    """
    if result.error is not None:
        error = result.error
        return _template(State.FAILED, error.reason, error.message, result)
    if result.template is not None and result.unmet:
        return _unmet(result.template, result)
    if result.template is not None:
        reported = find_condition(before.conditions, ComponentName.TEMPLATE.condition)
        if result.kept and reported is not None and reported.reason == AFTER_WAIT:
            return _template(State.READY, reported.reason, reported.message)
        return _found_component(result.template, result.late)
    stored = before.resolved_template
    if running and stored is not None and result.unresolved is Unresolved.NO_MODEL:
        message = f"using template {stored.name} (scope {stored.scope}) as resolved before"
        return _template(State.READY, "Resolved", message)
    if running and stored is not None and result.unresolved in SETTLED:
        return _left_behind(stored, result)
    state, reason = _UNRESOLVED[result.unresolved]
    return _template(state, reason, result.message or "no template is resolved yet")


def _unmet(template: Template, result: TemplateResult) -> Component:
    """The stored template goes on, and what the spec asks for instead is reported as not done (SV-303)."""
    _, reason = _UNRESOLVED[result.unresolved]
    message = f"{name_of(template)} stays in use with all else that spec asks for: {result.unmet}"
    return _template(State.DEGRADED, reason, message)


def _left_behind(stored: ResolvedReference, result: TemplateResult) -> Component:
    """Without a template no InferenceService can be built, so the one that runs follows no change (SV-304)."""
    _, reason = _UNRESOLVED[result.unresolved]
    message = (
        f"template {stored.name} (scope {stored.scope}), of which the InferenceService is made, can no longer be used, "
        f"and {result.message or 'no other is resolved'}; the InferenceService stays as it is, and no change of spec "
        "reaches it until a template is found"
    )
    return _template(State.DEGRADED, reason, message)


def _found_component(template: Template, late: Sequence[Template]) -> Component:
    status = template.status.status
    if status is StatusValue.READY and late:
        message = (
            f"using {name_of(template)}; {names_of(late)} might have been preferred, but discovery did not end in time"
        )
        return _template(State.READY, AFTER_WAIT, f"{message}; name one in spec.template.name to use it")
    if status is StatusValue.READY:
        return _template(State.READY, "Resolved", f"using {name_of(template)}")
    state, words = _NOT_READY.get(status, (State.PROGRESSING, f"is {status.value}"))
    unusable = state is State.FAILED or status is StatusValue.NOT_AVAILABLE
    quoted = ready_words(template.status.conditions) if unusable else ""
    return _template(state, NOT_READY, f"{name_of(template)} {words}{quoted}")


def _template(state: State, reason: str, message: str, result: TemplateResult | None = None) -> Component:
    errors = () if result is None or result.error is None else (result.error,)
    return Component(ComponentName.TEMPLATE, state, reason, message, errors, Dependency.UPSTREAM)
