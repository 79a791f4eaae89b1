"""From the search to the template in use: the stored one, the one found, or a derived one (7.1, 7.5, 7.6)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from aim_domain import AIMService, AIMServiceTemplate, LabelPropagation, Overrides
from aim_domain.component_names import ComponentName
from aim_domain.naming import optional_label_value
from aim_domain.parts import TEMPLATES
from aim_serving.derived_template import (
    derived_name,
    derived_spec,
    is_derived,
    is_the_same,
    new_derived_template,
    other_derived_name,
    owner_reference,
)
from aim_serving.indexes import TEMPLATES_BY_OWNER
from aim_serving.references import Model, Template, described, is_ready
from aim_serving.template_search import (
    SETTLED,
    TemplateResult,
    Unresolved,
    base_name,
    declares_overrides,
    find_template,
    still_fits,
    stored_template,
    wanted_overrides,
)
from controller_runtime import Child, Delete, JsonObject, OwnerReference, Patch, View, find_condition, scoped, to_json


@dataclass(frozen=True, slots=True)
class TemplateUse:
    """The template of this pass, and what using it asks for.

    Attributes:
        children: a derived template to be made.
        patches: owner references to be added to or removed from derived templates (FW-213).
        deletes: a derived template that nobody uses any more (SV-266).
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
    message = f"no name is free for the derived template of {described(base)}; delete {name}"
    return TemplateUse(TemplateResult(unresolved=Unresolved.DERIVING, message=message))


def _to_be_made(
    service: AIMService, base: Template, name: str, spec: JsonObject, propagation: LabelPropagation | None
) -> TemplateUse:
    """It need not wait for the base to be Ready (SV-108)."""
    message = f"derived template {name} of {described(base)} is being created for spec.overrides"
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
        patches=(*use.patches, *(_left(one, service) for one in unused if one not in alone)),
        deletes=tuple(_removed(one) for one in alone),
    )


def _left(template: AIMServiceTemplate, service: AIMService) -> Patch:
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
