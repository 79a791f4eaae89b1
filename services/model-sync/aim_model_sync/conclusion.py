"""What a finished sync comes to, in conditions and status."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_domain import AIMClusterModelSource
from aim_model_sync import conditions
from aim_model_sync.conditions import Fault, Reason, SourceCondition, count_of, selector_detail, shortened, some
from aim_model_sync.outcome import SyncOutcome
from controller_runtime import (
    ClassifiedError,
    Desired,
    Event,
    EventType,
    JsonObject,
    Observability,
    Plan,
    StatusValue,
    condition,
    condition_json,
    events_of,
    find_condition,
    settle,
    timestamp,
)

_ORDER: Final = {type_.value: place for place, type_ in enumerate(SourceCondition)}


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields to change; ``None`` leaves what is stored."""

    status: StatusValue | None = None
    last_sync_time: datetime | None = None
    discovered_models: int | None = None
    available_models: int | None = None
    models_limit_reached: bool | None = None
    observed_generation: int | None = None


def status_plan(source: AIMClusterModelSource, fields: Fields, desired: Iterable[Desired], now: datetime) -> Plan:
    """Write the stored status with some fields and conditions replaced; conditions that are not mentioned stay."""
    wanted, stored = tuple(desired), source.status.conditions
    settled = settle(wanted, stored, generation=source.metadata.generation, now=now)
    mentioned = {one.type for one in settled}
    kept = (one for one in stored if one.type not in mentioned)
    conditions = sorted((*settled, *kept), key=lambda one: _ORDER.get(one.type, len(_ORDER)))
    body = {**_fields_json(source, fields), "conditions": [condition_json(one) for one in conditions]}
    return Plan(status=body, events=events_of(wanted, settled, stored))


def _fields_json(source: AIMClusterModelSource, fields: Fields) -> JsonObject:
    """Zero and false are written, because a blank column says nothing (MS-300)."""
    stored = source.status
    value = fields.status or stored.status
    synced = fields.last_sync_time or stored.last_sync_time
    members: JsonObject = {
        "status": value.value if value else None,
        "lastSyncTime": timestamp(synced) if synced else None,
        "discoveredModels": _chosen(fields.discovered_models, stored.discovered_models),
        "availableModels": _chosen(fields.available_models, stored.available_models),
        "modelsLimitReached": _chosen(fields.models_limit_reached, stored.models_limit_reached),
        "observedGeneration": _chosen(fields.observed_generation, stored.observed_generation),
    }
    return {name: member for name, member in members.items() if member is not None}


def _chosen(new: int | None, stored: int | None) -> int | None:
    return stored if new is None else new


IMAGE_NOT_RESOLVED: Final = "ImageNotResolved"


@dataclass(frozen=True, slots=True)
class Result:
    """A sync with what became of its candidates.

    Attributes:
        outcome: of the sync, with the verdicts on pinned images (MS-385).
        asked: of the sync alone.
        finished: when the registries had answered.
        models: the source's models, those this plan creates included.
        withheld: candidates that ``maxModels`` kept out.
        missing: models that could not be created.
        collisions: images whose model name another image has.
        failure: why models could not be created.
    """

    outcome: SyncOutcome
    asked: SyncOutcome
    finished: datetime
    models: int = 0
    withheld: int = 0
    missing: int = 0
    collisions: tuple[str, ...] = ()
    failure: ClassifiedError | None = None

    @property
    def creation_fault(self) -> Fault | None:
        """The creation's part of what is wrong (MS-233, MS-235)."""
        parts = []
        if self.failure is not None:
            parts.append(f"{count_of(self.missing, 'model')} could not be created: {self.failure.message}")
        if self.collisions:
            names = some(self.collisions)
            parts.append(f"NameCollision: the model name of {names} belongs to another image; rename that model")
        return Fault(Reason.MODEL_CREATION_FAILED, "; ".join(parts)) if parts else None

    @property
    def fault(self) -> Fault | None:
        """What stands in the way of Ready: the first of the rows that applies, with the details of all."""
        faults = [one for one in (conditions.filter_fault(self.outcome), self.creation_fault) if one is not None]
        if not faults:
            return None
        return Fault(faults[0].reason, shortened("; ".join(one.message for one in faults)))

    @property
    def status(self) -> StatusValue:
        """Overall status: the first row of MS-302 that applies (MS-307…MS-310)."""
        return self._status_by(self.outcome)

    @property
    def sync_failed(self) -> bool:
        """Whether the sync itself failed, whatever the models report of their images (MS-393)."""
        return self._status_by(self.asked) is StatusValue.FAILED

    def _status_by(self, outcome: SyncOutcome) -> StatusValue:
        if outcome.all_failed:
            return StatusValue.FAILED
        if conditions.filter_fault(outcome) is not None:
            return StatusValue.DEGRADED
        if self.creation_fault is None:
            return StatusValue.READY
        return StatusValue.DEGRADED if self.models else StatusValue.FAILED


def concluded(source: AIMClusterModelSource, result: Result, namespace: str, now: datetime) -> Plan:
    """The status after a sync; of a failed one the counts of the last successful one stay (MS-293…MS-299)."""
    failed = result.status is StatusValue.FAILED
    fields = Fields(
        status=result.status,
        last_sync_time=None if failed else result.finished,
        discovered_models=result.models,
        available_models=None if result.sync_failed else result.outcome.available,
        models_limit_reached=None if result.sync_failed else result.withheld > 0,
        observed_generation=source.metadata.generation,
    )
    return status_plan(source, fields, _desired(source, result, namespace), now)


def _desired(source: AIMClusterModelSource, result: Result, namespace: str) -> tuple[Desired, ...]:
    outcome, stored = result.outcome, source.status.conditions
    failed = result.sync_failed
    unfinished = failed or result.failure is not None
    return (
        *_of_selectors(source, result, namespace),
        conditions.syncing(False, Reason.SYNC_FAILED if unfinished else Reason.SYNC_COMPLETED),
        conditions.registry_reachable(outcome),
        *([conditions.limit_reached(result.models, result.withheld)] if not failed else []),
        *conditions.lasting(
            SourceCondition.DEPENDENCIES_REACHABLE, conditions.dependencies_fault(result.failure), stored
        ),
    )


def _of_selectors(source: AIMClusterModelSource, result: Result, namespace: str) -> tuple[Desired, ...]:
    """What follows from the selectors, verdicts on their images included."""
    outcome, stored = result.outcome, source.status.conditions
    return (
        *conditions.ready(result.fault, len(outcome.selectors)),
        conditions.filters_ready(outcome),
        conditions.existing_models(result.models),
        *conditions.lasting(SourceCondition.CONFIG_VALID, conditions.config_fault(outcome, namespace), stored),
        *conditions.lasting(SourceCondition.AUTH_VALID, conditions.auth_fault(outcome), stored),
    )


def rejudged(source: AIMClusterModelSource, result: Result, namespace: str, now: datetime) -> Plan:
    """The status after a model reported something else of a pinned image, without a sync (MS-391, MS-393)."""
    available = None if result.sync_failed else result.outcome.available
    fields = Fields(result.status, discovered_models=result.models, available_models=available)
    return status_plan(source, fields, _of_selectors(source, result, namespace), now)


def unresolved_images(source: AIMClusterModelSource, result: Result) -> tuple[Event, ...]:
    """One Event for each image that the stored status does not name yet (MS-392)."""
    stored = find_condition(source.status.conditions, SourceCondition.FILTERS_READY)
    named = "" if stored is None else stored.message
    return tuple(
        Event(EventType.WARNING, IMAGE_NOT_RESOLVED, selector_detail(index, one))
        for index, (one, asked) in enumerate(zip(result.outcome.selectors, result.asked.selectors, strict=True))
        if one.code is not None and asked.code is None and f"[{index}] {one.text.strip()}" not in named
    )


def broken_off(source: AIMClusterModelSource, error: ClassifiedError, now: datetime, *, listing: bool = False) -> Plan:
    """The status when Kubernetes, not a registry, kept a sync from ending (MS-283, MS-306, MS-338).

    Args:
        listing: whether it is the source's models that are not known.
    """
    fault = Fault(Reason.INFRASTRUCTURE_ERROR, error.message)
    desired = (
        *conditions.ready(fault, 0),
        conditions.syncing(False, Reason.SYNC_FAILED),
        *([conditions.existing_models(0, error)] if listing else []),
        *conditions.lasting(SourceCondition.DEPENDENCIES_REACHABLE, fault, source.status.conditions),
    )
    fields = Fields(StatusValue.DEGRADED, observed_generation=source.metadata.generation)
    return status_plan(source, fields, desired, now)


def rejected(source: AIMClusterModelSource, problem: str, models: int | None, now: datetime) -> Plan:
    """The status of a spec that is unusable as a whole (MS-031, MS-034, MS-304)."""
    fault = Fault(Reason.INVALID_SPEC, problem)
    syncing = find_condition(source.status.conditions, SourceCondition.SYNCING)
    never = syncing is None or syncing.reason == Reason.AWAITING_FIRST_SYNC
    desired = (
        *conditions.ready(fault, 0),
        conditions.syncing(False, Reason.AWAITING_FIRST_SYNC if never else Reason.SYNC_FAILED),
        *conditions.lasting(SourceCondition.CONFIG_VALID, fault, source.status.conditions),
    )
    generation = source.metadata.generation
    fields = Fields(StatusValue.FAILED, discovered_models=models, observed_generation=generation)
    return status_plan(source, fields, desired, now)


def awaited(source: AIMClusterModelSource, now: datetime) -> Plan:
    """The status of a source that was seen and not synced yet (MS-303)."""
    text = "the first sync is about to start"
    desired = (
        condition(SourceCondition.READY, False, Reason.AWAITING_FIRST_SYNC, text, Observability.SILENT),
        conditions.syncing(False, Reason.AWAITING_FIRST_SYNC),
    )
    return status_plan(source, Fields(StatusValue.PENDING), desired, now)


def started(source: AIMClusterModelSource, now: datetime) -> Plan:
    """The status while a sync runs; ``Ready`` changes only for a generation that never completed one (MS-311)."""
    running = conditions.syncing(True, Reason.SYNC_IN_PROGRESS)
    if source.status.observed_generation == source.metadata.generation:
        return status_plan(source, Fields(), (running,), now)
    text = f"syncing generation {source.metadata.generation} for the first time"
    return status_plan(source, Fields(StatusValue.PROGRESSING), (*_progressing(source, text), running), now)


def postponed(source: AIMClusterModelSource, why: str, now: datetime) -> Plan:
    """The status while the result of a sync waits for something that takes its course (MS-177)."""
    return status_plan(source, Fields(StatusValue.PROGRESSING), _progressing(source, why), now)


def _progressing(source: AIMClusterModelSource, text: str) -> tuple[Desired, ...]:
    known = find_condition(source.status.conditions, SourceCondition.DEGRADED) is not None
    # It is true exactly while the status is Degraded or Failed (MS-323).
    relieved = [condition(SourceCondition.DEGRADED, False, Reason.AS_EXPECTED, text)] if known else []
    return (condition(SourceCondition.READY, False, Reason.PROGRESSING, text), *relieved)


def recounted(source: AIMClusterModelSource, models: int, now: datetime) -> Plan | None:
    """The status after models came or went without a sync (MS-246); ``None`` when the number is as stored."""
    if source.status.discovered_models in (None, models):
        return None
    desired = [conditions.existing_models(models)]
    if source.status.models_limit_reached is False:
        desired.append(conditions.limit_reached(models, 0))
    return status_plan(source, Fields(discovered_models=models), desired, now)
