"""Kinds that only the simulated cluster handles; those of the platform are in `aim_domain.kinds`."""

from typing import Final

from aim_local.plain_kind import PlainKind

SERVICE: Final = PlainKind("", "v1", "Service", "services", True)
PERSISTENT_VOLUME: Final = PlainKind("", "v1", "PersistentVolume", "persistentvolumes", False)
STORAGE_CLASS: Final = PlainKind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False)
DEPLOYMENT: Final = PlainKind("apps", "v1", "Deployment", "deployments", True)
REPLICA_SET: Final = PlainKind("apps", "v1", "ReplicaSet", "replicasets", True)
SCALED_OBJECT: Final = PlainKind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects", True)
COLLECTOR: Final = PlainKind("opentelemetry.io", "v1beta1", "OpenTelemetryCollector", "opentelemetrycollectors", True)
