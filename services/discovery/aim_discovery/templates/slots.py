"""The limit on concurrent discovery Jobs, and whose turn it is (DI-309…DI-320)."""

from datetime import UTC, datetime
from typing import Final

from aim_discovery.scopes import Template
from aim_discovery.templates.job import MANAGED_BY
from aim_shared.api import ConditionStatus, Job, StatusValue, find_condition, labels
from aim_shared.bus.part import Index
from aim_shared.bus.parts import CLUSTER_TEMPLATES, DISCOVERY_JOBS, TEMPLATES
from aim_shared.bus.view import View
from aim_shared.reconcile.component_names import ComponentName
from aim_shared.reconcile.decide import is_paused
from aim_shared.reconcile.inspect_jobs import is_job_finished

JOB_NOT_CREATED: Final = "JobNotCreated"
POLL: Final = 5.0
"""Seconds after which a template that is held back looks again at the latest (DI-317)."""

_LABELS: Final = {
    labels.APP_NAME: labels.APP_NAME_DISCOVERY,
    labels.APP_COMPONENT: labels.APP_COMPONENT_DISCOVERY,
    labels.APP_MANAGED_BY: MANAGED_BY,
}
_YES: Final = "yes"
_MODEL_CONDITIONS: Final = (ComponentName.MODEL.condition, ComponentName.CLUSTER_MODEL.condition)


def occupies_slot(job: Job) -> bool:
    """Whether the Job counts: one of ours that has not ended (DI-309, DI-319)."""
    return _LABELS.items() <= job.metadata.labels.items() and not is_job_finished(job)


def is_waiting(template: Template) -> bool:
    """Whether the template waits for nothing but a slot, as far as its status tells.

    One that was never evaluated counts too: otherwise a younger one could take its place in the same moment.
    """
    if template.spec.model_sources or template.deleting or is_paused(template):
        return False
    conditions = template.status.conditions
    if not conditions:
        return True
    job = find_condition(conditions, ComponentName.DISCOVERY_JOB.condition)
    models = (find_condition(conditions, type_) for type_ in _MODEL_CONDITIONS)
    has_model = any(found is not None and found.status == ConditionStatus.TRUE for found in models)
    held = job is not None and job.reason == JOB_NOT_CREATED and template.status.status == StatusValue.PENDING
    return held and has_model


ACTIVE_JOBS: Final = Index(DISCOVERY_JOBS, "occupies-slot", lambda job: [_YES] if occupies_slot(job) else [])
WAITING_TEMPLATES: Final = Index(TEMPLATES, "waiting", lambda template: [_YES] if is_waiting(template) else [])
WAITING_CLUSTER_TEMPLATES: Final = Index(
    CLUSTER_TEMPLATES, "waiting", lambda template: [_YES] if is_waiting(template) else []
)


def waiting(view: View) -> tuple[Template, ...]:
    """All templates that wait for a slot, of both scopes."""
    return (*view.select(WAITING_TEMPLATES, _YES).items, *view.select(WAITING_CLUSTER_TEMPLATES, _YES).items)


def has_slot(template: Template, view: View, limit: int) -> bool:
    """Whether a Job may be started now: free slots go to the oldest (DI-318); an unknown count gives none (DI-320)."""
    active = view.select(ACTIVE_JOBS, _YES)
    free = limit - len(active.items)
    # Looking at everybody who waits is left out where it can change nothing, which is when most are waiting.
    if active.error is not None or free <= 0:
        return False
    mine = _age(template)
    # The status of one whose Job was created a moment ago still says that it waits.
    served = {template.uid, *(owner.uid for job in active.items for owner in job.metadata.owner_references)}
    return sum(1 for other in waiting(view) if other.uid not in served and _age(other) < mine) < free


def _age(template: Template) -> tuple[datetime, str, str]:
    created = template.metadata.creation_timestamp
    return (created or datetime.min.replace(tzinfo=UTC), template.namespace, template.name)
