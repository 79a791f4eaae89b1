"""The built-in kinds that there are models for."""

from typing import Final

from controller_runtime.api import kind_name
from controller_runtime.api.meta import Kind, Resource
from controller_runtime.core import (
    ConfigMap,
    Event,
    HorizontalPodAutoscaler,
    Job,
    Lease,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Pod,
    RoleBinding,
    Secret,
)

POD: Final = Kind.of(kind_name.POD, Pod)
JOB: Final = Kind.of(kind_name.JOB, Job)
NODE: Final = Kind.of(kind_name.NODE, Node)
PERSISTENT_VOLUME_CLAIM: Final = Kind.of(kind_name.PERSISTENT_VOLUME_CLAIM, PersistentVolumeClaim)
CONFIG_MAP: Final = Kind.of(kind_name.CONFIG_MAP, ConfigMap)
NAMESPACE: Final = Kind.of(kind_name.NAMESPACE, Namespace)
EVENT: Final = Kind.of(kind_name.EVENT, Event)
SECRET: Final = Kind.of(kind_name.SECRET, Secret)
ROLE_BINDING: Final = Kind.of(kind_name.ROLE_BINDING, RoleBinding)
HORIZONTAL_POD_AUTOSCALER: Final = Kind.of(kind_name.HORIZONTAL_POD_AUTOSCALER, HorizontalPodAutoscaler)
SERVICE_ACCOUNT: Final = Kind.of(kind_name.SERVICE_ACCOUNT, Resource)
CLUSTER_ROLE: Final = Kind.of(kind_name.CLUSTER_ROLE, Resource)
LEASE: Final = Kind.of(kind_name.LEASE, Lease)
DEPLOYMENT: Final = Kind.of(kind_name.DEPLOYMENT, Resource)
