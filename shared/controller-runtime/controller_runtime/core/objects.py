"""Built-in kinds of which a few fields are read: configuration, leases, nodes, autoscalers, Events, volumes."""

from __future__ import annotations

from base64 import b64decode
from datetime import datetime

from pydantic import Field

from controller_runtime.api.base import ApiModel, Items, MapOf, MicroTime, StrMap, Time
from controller_runtime.api.enums import ClaimPhase, EventType
from controller_runtime.api.meta import Condition, Resource
from controller_runtime.core.shapes import ResourceRequirements
from controller_runtime.quantity import QuantityText


class ConfigMap(Resource):
    """core/v1 ConfigMap."""

    api_version: str = "v1"
    kind: str = "ConfigMap"
    data: StrMap = Field(default_factory=dict)
    binary_data: StrMap = Field(default_factory=dict)
    immutable: bool = False


class Secret(Resource):
    """core/v1 Secret; `data` is base64 text and not shown by `repr`."""

    api_version: str = "v1"
    kind: str = "Secret"
    type: str = ""
    data: StrMap = Field(default_factory=dict, repr=False)

    def value(self, key: str) -> bytes | None:
        """The decoded value of a key, None when there is no such key.

        Raises:
            ValueError: the stored text is not base64.
        """
        encoded = self.data.get(key)
        return None if encoded is None else b64decode(encoded, validate=True)


class NamespaceStatus(ApiModel):
    """Whether the namespace is in use."""

    phase: str = ""


class Namespace(Resource):
    """core/v1 Namespace."""

    api_version: str = "v1"
    kind: str = "Namespace"
    status: NamespaceStatus = NamespaceStatus()


class RoleRef(ApiModel):
    """The role that is granted."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class Subject(ApiModel):
    """Who gets the role."""

    kind: str = ""
    api_group: str = ""
    name: str = ""
    namespace: str = ""


class RoleBinding(Resource):
    """rbac.authorization.k8s.io/v1 RoleBinding."""

    api_version: str = "rbac.authorization.k8s.io/v1"
    kind: str = "RoleBinding"
    role_ref: RoleRef = RoleRef()
    subjects: Items[Subject] = ()


class LeaseSpec(ApiModel):
    """Who holds the lease and since when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: int | None = None


class Lease(Resource):
    """coordination.k8s.io/v1 Lease."""

    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    spec: LeaseSpec = LeaseSpec()


class Taint(ApiModel):
    """What keeps pods away that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(ApiModel):
    """Settings of the node."""

    unschedulable: bool = False
    taints: Items[Taint] = ()


class NodeStatus(ApiModel):
    """What the node offers."""

    capacity: MapOf[QuantityText] = Field(default_factory=dict)
    allocatable: MapOf[QuantityText] = Field(default_factory=dict)


class Node(Resource):
    """core/v1 Node."""

    api_version: str = "v1"
    kind: str = "Node"
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ScaleTargetRef(ApiModel):
    """What is scaled."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class AutoscalerSpec(ApiModel):
    """Bounds of the scaling; `min_replicas` absent means 1."""

    scale_target_ref: ScaleTargetRef = ScaleTargetRef()
    min_replicas: int | None = None
    max_replicas: int = 0


class AutoscalerStatus(ApiModel):
    """What the autoscaler does."""

    current_replicas: int = 0
    desired_replicas: int = 0
    conditions: Items[Condition] = ()


class HorizontalPodAutoscaler(Resource):
    """autoscaling/v2 HorizontalPodAutoscaler."""

    api_version: str = "autoscaling/v2"
    kind: str = "HorizontalPodAutoscaler"
    spec: AutoscalerSpec = AutoscalerSpec()
    status: AutoscalerStatus = AutoscalerStatus()


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


class ClaimSpec(ApiModel):
    """What is asked of the storage."""

    access_modes: Items[str] = ()
    resources: ResourceRequirements = ResourceRequirements()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None


class ClaimStatus(ApiModel):
    """Observed state of the claim."""

    phase: ClaimPhase = ClaimPhase.PENDING
    access_modes: Items[str] = ()
    capacity: MapOf[QuantityText] = Field(default_factory=dict)
    conditions: Items[Condition] = ()


class PersistentVolumeClaim(Resource):
    """core/v1 PersistentVolumeClaim."""

    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()
