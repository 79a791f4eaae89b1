"""The limit on concurrent discovery Jobs, and whose turn it is (DI-309…DI-320).

Templates that want a Job stand in one line of both kinds, first come, first served. No template in it looks at the
others or at the clock: a change that frees a slot enqueues as many of the first as there are free slots, and a pass
asks only whether it is among those. That is complete as long as each of these enqueues: a Job that stops counting, a
template that leaves the line or falls back in it, a namespace in which nothing can be created any more. A template
that joins enqueues itself.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aim_discovery.scopes import Template, work_namespace
from aim_discovery.templates.attempts import Attempts
from aim_discovery.templates.discovery import DISCOVERED, FAILED, JOB_NOT_CREATED
from aim_discovery.templates.job import MANAGED_BY
from aim_domain import is_job_finished, labels
from aim_domain.component_names import ComponentName
from aim_domain.kinds import (
    AIM_CLUSTER_MODEL,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    AIM_MODEL,
    AIM_SERVICE_TEMPLATE,
)
from aim_domain.parts import CLUSTER_TEMPLATES, DISCOVERY_JOBS, TEMPLATES
from controller_runtime import (
    Cache,
    ClassifiedError,
    ConditionStatus,
    Index,
    Key,
    Quota,
    Readings,
    StatusValue,
    View,
    WaitQueue,
    find_condition,
    is_paused,
)
from controller_runtime.core import Job

RECOUNT: Final = 5.0
"""Seconds after which a template looks again when the running Jobs could not be counted (DI-320)."""

_LABELS: Final = {
    labels.APP_NAME: labels.APP_NAME_DISCOVERY,
    labels.APP_COMPONENT: labels.APP_COMPONENT_DISCOVERY,
    labels.APP_MANAGED_BY: MANAGED_BY,
}
_OWNERS: Final = frozenset(
    kind.kind for kind in (AIM_SERVICE_TEMPLATE, AIM_CLUSTER_SERVICE_TEMPLATE, AIM_MODEL, AIM_CLUSTER_MODEL)
)
OCCUPIED: Final = "yes"
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_MODEL_CONDITIONS: Final = (ComponentName.MODEL.condition, ComponentName.CLUSTER_MODEL.condition)
_INPUT_CONDITIONS: Final = tuple(
    name.condition for name in (ComponentName.RUNTIME_CONFIG, ComponentName.CUSTOM_PROFILE, ComponentName.GPU)
)


def occupies_slot(job: Job) -> bool:
    """Whether the Job counts: one of ours that has not ended (DI-309, DI-319).

    Labels are not enough: anybody can write them, and the limit is for the whole cluster (FW-594).
    """
    if not _LABELS.items() <= job.metadata.labels.items() or is_job_finished(job):
        return False
    return any(one.controller and one.kind in _OWNERS for one in job.metadata.owner_references)


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


def joined(template: Template) -> datetime | None:
    """Since when a template stands in line, a retry from when it is due; ``None`` = it wants no Job (DI-318)."""
    if is_waiting(template):
        return template.metadata.creation_timestamp or _LONG_AGO
    return retry_due(template)


ACTIVE_JOBS: Final = Index(DISCOVERY_JOBS, "occupies-slot", lambda job: [OCCUPIED] if occupies_slot(job) else [])
WAIT_QUEUE: Final = WaitQueue(TEMPLATES, "discovery-line", joined)
CLUSTER_WAIT_QUEUE: Final = WaitQueue(CLUSTER_TEMPLATES, "discovery-line", joined)


def readings(cache: Cache) -> Readings:
    """How many discovery Jobs occupy a slot (FW-286)."""
    return {"aim_discovery_jobs_active": [({}, float(len(cache.select(ACTIVE_JOBS, OCCUPIED))))]}


def place(limit: int) -> Quota:
    """What the executor counts again right before it creates a Job (DI-311).

    Args:
        limit: on active discovery Jobs.
    """
    return Quota(ACTIVE_JOBS, OCCUPIED, limit)


@dataclass(frozen=True, slots=True)
class Slots:
    """How many Jobs may still be created, as far as a pass or a mapping can see.

    Attributes:
        served: UIDs of the templates that have a running Job; the status of one whose Job was created a moment ago
            still says that it waits.
        error: why the Jobs could not be counted; then no slot is free (DI-320).
    """

    view: View
    free: int
    served: frozenset[str]
    error: ClassifiedError | None = None

    @classmethod
    def of(cls, view: View, limit: int) -> "Slots":
        """Count the running Jobs."""
        view = view.untracked
        active = view.select(ACTIVE_JOBS, OCCUPIED)
        served = frozenset(owner.uid for job in active.items for owner in job.metadata.owner_references)
        free = 0 if active.error is not None else max(0, limit - len(active.items))
        return cls(view, free, served, active.error)

    def head(self, most: int) -> list[Template]:
        """The first of the line that could use a slot. What is read is bounded by the limit, not by the line."""
        admits = self._admits()
        # Everybody who is served may still stand before them.
        local = self.view.first(WAIT_QUEUE, most + len(self.served), admits)
        shared = self.view.first(CLUSTER_WAIT_QUEUE, most + len(self.served), admits)
        both: tuple[Template, ...] = (*local, *shared)
        return sorted((one for one in both if one.uid not in self.served), key=_place)[:most]

    def is_turn_of(self, template: Template, now: datetime) -> bool:
        """Whether a free slot is for this template: fewer stand before it than slots are free (DI-318).

        The limit itself does not depend on that: it is kept where Jobs are created (`place`).
        """
        # Most who ask do so while nothing is free.
        if not self.free:
            return False
        mine = _place(template)
        before = [one for one in self.head(self.free) if one.uid != template.uid and _place(one) < mine]
        return len([one for one in before if _place(one)[0] <= now]) < self.free

    def are_short(self, now: datetime) -> bool:
        """Whether the limit holds a template back."""
        return not self.free and any(_place(one)[0] <= now for one in self.head(1))

    def _admits(self) -> Callable[[Key], bool]:
        """Nothing is created in a namespace that goes away, however long that takes: it must not hold up the others."""
        usable = functools.cache(lambda namespace: work_namespace(self.view, namespace).usable)
        return lambda key: usable(key.namespace)


def next_waiting(view: View, limit: int) -> list[Template]:
    """Those worth a pass when a slot may be free: as many of the first as slots are free (DI-317)."""
    slots = Slots.of(view, limit)
    return slots.head(slots.free) if slots.free else []


def _place(template: Template) -> tuple[datetime, str, str]:
    since = joined(template) or template.metadata.creation_timestamp
    return (since or _LONG_AGO, template.namespace, template.name)
