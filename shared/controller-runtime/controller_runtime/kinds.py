"""The built-in kinds that there are models for."""

from typing import Final

from controller_runtime import kind_names
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

POD: Final = Kind.of(kind_names.POD, Pod)
JOB: Final = Kind.of(kind_names.JOB, Job)
NODE: Final = Kind.of(kind_names.NODE, Node)
PERSISTENT_VOLUME_CLAIM: Final = Kind.of(kind_names.PERSISTENT_VOLUME_CLAIM, PersistentVolumeClaim)
CONFIG_MAP: Final = Kind.of(kind_names.CONFIG_MAP, ConfigMap)
NAMESPACE: Final = Kind.of(kind_names.NAMESPACE, Namespace)
EVENT: Final = Kind.of(kind_names.EVENT, Event)
SECRET: Final = Kind.of(kind_names.SECRET, Secret)
ROLE_BINDING: Final = Kind.of(kind_names.ROLE_BINDING, RoleBinding)
HORIZONTAL_POD_AUTOSCALER: Final = Kind.of(kind_names.HORIZONTAL_POD_AUTOSCALER, HorizontalPodAutoscaler)
SERVICE_ACCOUNT: Final = Kind.of(kind_names.SERVICE_ACCOUNT, Resource)
CLUSTER_ROLE: Final = Kind.of(kind_names.CLUSTER_ROLE, Resource)
LEASE: Final = Kind.of(kind_names.LEASE, Lease)
DEPLOYMENT: Final = Kind.of(kind_names.DEPLOYMENT, Resource)
