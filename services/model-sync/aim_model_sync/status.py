"""The status of a source: fields, conditions and the Events about them (MS-285…MS-301)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_domain import AIMClusterModelSource
from aim_model_sync.conditions import SourceCondition
from controller_runtime import Desired, JsonObject, Plan, StatusValue, condition_json, events_of, settle, timestamp

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
