"""A service whose plan is reported instead of carried out (SV-271)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from aim_domain import AIMService, child_labels, labels
from aim_domain.parts import SERVICE_PLANS
from aim_serving.adapter_loading import ADAPTER_LOAD
from aim_serving.autoscaling import AWAKENING, SCALER_REMOVAL
from controller_runtime import (
    Child,
    Delete,
    Desired,
    Plan,
    View,
    condition,
    is_subset,
    kind_of,
    needs_apply,
    to_json,
)
from controller_runtime.kinds import CONFIG_MAP

DRY_RUN: Final = "DryRun"
_PLAN: Final = "plan"
_LONGEST: Final = 200_000
"""Characters of a reported plan; a ConfigMap holds a megabyte."""

_CHANGING: Final = frozenset({SCALER_REMOVAL.name, AWAKENING.name, ADAPTER_LOAD.name})
"""Effects that do not only read."""


def is_dry_run(service: AIMService) -> bool:
    """Whether the user wants to see what would be done; exactly ``plan`` counts."""
    return service.metadata.annotations.get(labels.ANNOTATION_DRY_RUN) == _PLAN


def plan_name(service: AIMService) -> str:
    """Name of the ConfigMap that holds the plan."""
    return f"{service.name}-plan"


def dry_run_condition(service: AIMService) -> tuple[Desired, ...]:
    """Says where the plan stands; otherwise nothing tells why nothing happens."""
    if not is_dry_run(service):
        return ()
    message = f"nothing is written; ConfigMap {plan_name(service)} tells what would be"
    return (condition(DRY_RUN, True, "PlanOnly", message),)


def waiting_for_user(service: AIMService, *, running: bool) -> tuple[str, str] | None:
    """Reason and message of ``Ready`` of a service that is not made for a dry run, instead of what it waits for."""
    if running or not is_dry_run(service):
        return None
    return (
        DRY_RUN,
        f"{labels.ANNOTATION_DRY_RUN} is set, so nothing is created; the plan is in ConfigMap {plan_name(service)}",
    )


def report_instead(view: View, service: AIMService, plan: Plan) -> Plan:
    """The plan in words; of its effects only those remain that read."""
    text = "\n".join(_lines(view, plan)) or "nothing"
    own = {labels.COMPONENT: labels.COMPONENT_SERVICE_PLAN}
    metadata = {
        "name": plan_name(service),
        "namespace": service.namespace,
        "labels": child_labels(own, parent=service, controller="service", propagation=None),
    }
    body = kind_of({"metadata": metadata, "data": {_PLAN: text[:_LONGEST]}}, CONFIG_MAP)
    reading = tuple(effect for effect in plan.effects if effect.kind not in _CHANGING)
    return replace(plan, patches=(), deletes=(), children=(Child(SERVICE_PLANS, body),), effects=reading)


def former_plan(view: View, service: AIMService) -> tuple[Delete, ...]:
    """The ConfigMap of a dry run that is over; the status need not have named it, as it is written after that."""
    if is_dry_run(service):
        return ()
    there = view.get(SERVICE_PLANS, service.namespace, plan_name(service)).value
    if there is None or not any(owner.uid == service.uid for owner in there.metadata.owner_references):
        return ()
    return (Delete(SERVICE_PLANS, there.namespace, there.name, there.uid, "the dry run is over"),)


def _lines(view: View, plan: Plan) -> Iterator[str]:
    for child in plan.children:
        yield from _of_child(view, child)
    for patch in plan.patches:
        yield f"patch {patch.part.kind.kind} {patch.namespace}/{patch.name}: {patch.why}"
    for delete in plan.deletes:
        yield f"delete {delete.part.kind.kind} {delete.namespace}/{delete.name}: {delete.why}"
    for effect in plan.effects:
        if effect.kind == SCALER_REMOVAL.name:
            yield f"delete what the former autoscaler of {effect.params['name']} needed"
        if effect.kind == AWAKENING.name:
            yield f"scale Deployment {effect.params['name']} from 0 to {effect.params['replicas']}"


def _of_child(view: View, child: Child) -> Iterator[str]:
    what = f"{child.body['kind']} {child.namespace}/{child.name}"
    there = view.get(child.part, child.namespace or None, child.name).value
    if there is None:
        yield f"create {what}"
        return
    live = to_json(there)
    differing = list(_differences(child.body, live, ()))
    if differing:
        yield f"change {what}"
        yield from (f"  {line}" for line in differing)
    elif needs_apply(child.body, live):
        yield f"change {what}: members that are no longer wanted go"


def _differences(desired: object, live: object, path: tuple[str, ...]) -> Iterator[str]:
    """Members that are to be another, each with its path."""
    if is_subset(desired, live, path):
        return
    if isinstance(desired, dict) and isinstance(live, dict):
        for name, value in desired.items():
            yield from _differences(value, live.get(name), (*path, name))
        return
    if isinstance(desired, list) and isinstance(live, list) and len(desired) == len(live):
        for place, (value, other) in enumerate(zip(desired, live, strict=True)):
            yield from _differences(value, other, (*path, str(place)))
        return
    yield f"{'.'.join(path)}: {live} -> {desired}"
