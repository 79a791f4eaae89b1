"""The limit on concurrent discovery Jobs, and whose turn it is (DI-309…DI-320)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import islice
from typing import Final

from aim_discovery.namespaces import work_namespace
from aim_discovery.scopes import Template
from aim_discovery.templates.attempts import Attempts
from aim_discovery.templates.discovery import DISCOVERED, FAILED, JOB_NOT_CREATED
from aim_discovery.templates.job import MANAGED_BY
from aim_shared.api import ConditionStatus, Job, StatusValue, find_condition, labels
from aim_shared.bus.part import Index
from aim_shared.bus.parts import CLUSTER_TEMPLATES, DISCOVERY_JOBS, TEMPLATES
from aim_shared.bus.view import View
from aim_shared.reconcile.component_names import ComponentName
from aim_shared.reconcile.decide import is_paused
from aim_shared.reconcile.inspect_jobs import is_job_finished
from aim_shared.reconcile.plan import Quota

POLL: Final = 5.0
"""Seconds after which a template that is held back looks again at the latest (DI-317)."""

_LABELS: Final = {
    labels.APP_NAME: labels.APP_NAME_DISCOVERY,
    labels.APP_COMPONENT: labels.APP_COMPONENT_DISCOVERY,
    labels.APP_MANAGED_BY: MANAGED_BY,
}
_YES: Final = "yes"
_WAITING: Final = "waiting"
_RETRYING: Final = "retrying"
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_MODEL_CONDITIONS: Final = (ComponentName.MODEL.condition, ComponentName.CLUSTER_MODEL.condition)
_INPUT_CONDITIONS: Final = tuple(
    name.condition for name in (ComponentName.RUNTIME_CONFIG, ComponentName.CUSTOM_PROFILE, ComponentName.GPU)
)


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
    held = job is not None and job.reason == JOB_NOT_CREATED and template.status.status == StatusValue.PENDING
    return held and _has_model(template)


def retry_due(template: Template) -> datetime | None:
    """When a template whose last attempt failed joins those that wait; ``None`` = it is not one of them (DI-318)."""
    status = template.status
    attempts, stored = Attempts.of(status.discovery), find_condition(status.conditions, DISCOVERED)
    failed = attempts.failure and stored is not None and stored.reason == FAILED
    if not failed or template.spec.model_sources or template.deleting or is_paused(template):
        return None
    inputs = (find_condition(status.conditions, type_) for type_ in _INPUT_CONDITIONS)
    if not _has_model(template) or any(one is not None and one.status == ConditionStatus.FALSE for one in inputs):
        return None
    return attempts.due(stored.last_transition_time if stored is not None else None)


def _has_model(template: Template) -> bool:
    models = (find_condition(template.status.conditions, type_) for type_ in _MODEL_CONDITIONS)
    return any(found is not None and found.status == ConditionStatus.TRUE for found in models)


def _standing(template: Template) -> list[str]:
    if is_waiting(template):
        return [_WAITING]
    return [] if retry_due(template) is None else [_RETRYING]


ACTIVE_JOBS: Final = Index(DISCOVERY_JOBS, "occupies-slot", lambda job: [_YES] if occupies_slot(job) else [])
QUEUED_TEMPLATES: Final = Index(TEMPLATES, "queued", _standing)
QUEUED_CLUSTER_TEMPLATES: Final = Index(CLUSTER_TEMPLATES, "queued", _standing)


def place(limit: int) -> Quota:
    """What the executor counts again right before it creates a Job (DI-311).

    Args:
        limit: on active discovery Jobs.
    """
    return Quota(ACTIVE_JOBS, _YES, limit)


def has_slot(template: Template, view: View, now: datetime, limit: int) -> bool:
    """Whether it is the template's turn: free slots go to the oldest (DI-318); an unknown count gives none (DI-320).

    Due retries stand in the same queue as the others. The limit itself does not depend on that: it is kept where Jobs
    are created (`place`).
    """
    active = view.select(ACTIVE_JOBS, _YES)
    free = limit - len(active.items)
    # Looking at everybody who waits is left out where it can change nothing, which is when most are waiting.
    if active.error is not None or free <= 0:
        return False
    mine, queue = _age(template), _Queue.of(view, active.items)
    due = (other for other in queue.retrying if (moment := retry_due(other)) is not None and moment <= now)
    older = (other for other in (*queue.waiting, *due) if _age(other) < mine and queue.can_go(other))
    return sum(1 for _ in islice(older, free)) < free


def others_wait(view: View, limit: int) -> bool:
    """Whether the limit holds templates back, as far as their statuses tell."""
    active = view.select(ACTIVE_JOBS, _YES)
    return len(active.items) >= limit and bool(_Queue.of(view, active.items).waiting)


def next_in_line(view: View, limit: int) -> tuple[Template, ...]:
    """Those worth a pass when a slot became free: as many of the oldest as there are slots (DI-317).

    Which retries are due depends on the clock, so as many of those that are due first are taken on top.
    """
    active = view.select(ACTIVE_JOBS, _YES)
    free = limit - len(active.items)
    if active.error is not None or free <= 0:
        return ()
    queue = _Queue.of(view, active.items)
    waiting = islice((one for one in sorted(queue.waiting, key=_age) if queue.can_go(one)), free)
    return (*waiting, *nsmallest(free, queue.retrying, key=lambda one: (retry_due(one) or _LONG_AGO, _age(one))))


@dataclass(frozen=True, slots=True)
class _Queue:
    """Templates of both scopes that want a Job, without those that have one."""

    view: View
    waiting: list[Template]
    retrying: list[Template]

    @classmethod
    def of(cls, view: View, active: Iterable[Job]) -> "_Queue":
        # The status of one whose Job was created a moment ago still says that it waits.
        served = {owner.uid for job in active for owner in job.metadata.owner_references}

        def queued(value: str) -> list[Template]:
            local, shared = view.select(QUEUED_TEMPLATES, value), view.select(QUEUED_CLUSTER_TEMPLATES, value)
            every: tuple[Template, ...] = (*local.items, *shared.items)
            return [one for one in every if one.uid not in served]

        return cls(view, queued(_WAITING), queued(_RETRYING))

    def can_go(self, template: Template) -> bool:
        """Whether it can use a slot: nothing is created in a namespace that goes away, however long that takes."""
        return work_namespace(self.view, template.namespace).usable


def _age(template: Template) -> tuple[datetime, str, str]:
    created = template.metadata.creation_timestamp
    return (created or _LONG_AGO, template.namespace, template.name)
