"""core/v1 Event: what the cluster reports about pods and InferenceServices (FW-155, SV-192 to SV-195)."""

from __future__ import annotations

from datetime import datetime

from controller_runtime.api.base import ApiModel, MicroTime, Time
from controller_runtime.api.enums import EventType
from controller_runtime.api.meta import Resource


class ObjectReference(ApiModel):
    """The object that an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSeries(ApiModel):
    """Repetitions of an event."""

    count: int = 0
    last_observed_time: MicroTime | None = None


class Event(Resource):
    """core/v1 Event."""

    api_version: str = "v1"
    kind: str = "Event"
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: EventType = EventType.NORMAL
    count: int | None = None
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: MicroTime | None = None
    series: EventSeries | None = None

    @property
    def last_seen(self) -> datetime | None:
        """When the event last happened, whichever of the API's fields says so."""
        repeated = self.series.last_observed_time if self.series else None
        return repeated or self.last_timestamp or self.event_time or self.metadata.creation_timestamp
