"""The built-in kinds that there are models for."""

from typing import Final

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

POD: Final = Kind("", "v1", "Pod", "pods", True, Pod, ("po",))
JOB: Final = Kind("batch", "v1", "Job", "jobs", True, Job)
NODE: Final = Kind("", "v1", "Node", "nodes", False, Node, ("no",))
PERSISTENT_VOLUME_CLAIM: Final = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, PersistentVolumeClaim, ("pvc",)
)
CONFIG_MAP: Final = Kind("", "v1", "ConfigMap", "configmaps", True, ConfigMap, ("cm",))
NAMESPACE: Final = Kind("", "v1", "Namespace", "namespaces", False, Namespace, ("ns",))
EVENT: Final = Kind("", "v1", "Event", "events", True, Event, ("ev",))
SECRET: Final = Kind("", "v1", "Secret", "secrets", True, Secret)
ROLE_BINDING: Final = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", True, RoleBinding)
HORIZONTAL_POD_AUTOSCALER: Final = Kind(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    True,
    HorizontalPodAutoscaler,
    ("hpa",),
)
SERVICE_ACCOUNT: Final = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, Resource)
CLUSTER_ROLE: Final = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False, Resource)
LEASE: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, Lease)
