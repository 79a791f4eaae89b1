"""What Kubernetes adds in code to its OpenAPI: defaults (`pkg/apis/*/defaults.go`) and closed sets of strings.

By definition, as `group.version.Kind` without the packages before it, and member. Defaults that depend on other members
are in `builtin.py`.
"""

from collections.abc import Mapping
from typing import Final

from aim_local.apiserver.objects.values import JsonValue

_PROBE: Final = {"failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}
_FILES: Final = {"defaultMode": 0o644}

DEFAULTS: Final[Mapping[str, Mapping[str, JsonValue]]] = {
    "apiextensions.v1.CustomResourceDefinitionSpec": {"conversion": {"strategy": "None"}},
    "apps.v1.DeploymentSpec": {"progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10},
    "apps.v1.DeploymentStrategy": {"type": "RollingUpdate"},
    "apps.v1.ReplicaSetSpec": {"replicas": 1},
    "apps.v1.StatefulSetSpec": {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10},
    "apps.v1.StatefulSetUpdateStrategy": {"type": "RollingUpdate"},
    "autoscaling.v2.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "batch.v1.JobSpec": {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "podReplacementPolicy": "TerminatingOrFailed",
        "suspend": False,
    },
    "core.v1.ConfigMapVolumeSource": _FILES,
    "core.v1.Container": {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
    "core.v1.DownwardAPIVolumeSource": _FILES,
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.HostPathVolumeSource": {"type": ""},
    "core.v1.NamespaceStatus": {"phase": "Active"},
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.v1.PersistentVolumeClaimStatus": {"phase": "Pending"},
    "core.v1.PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    "core.v1.PersistentVolumeStatus": {"phase": "Pending"},
    "core.v1.PodSpec": {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    },
    "core.v1.PodStatus": {"phase": "Pending"},
    "core.v1.Probe": _PROBE,
    "core.v1.ProjectedVolumeSource": _FILES,
    "core.v1.Secret": {"type": "Opaque"},
    "core.v1.SecretVolumeSource": _FILES,
    "core.v1.ServiceSpec": {"internalTrafficPolicy": "Cluster", "sessionAffinity": "None", "type": "ClusterIP"},
    "scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
}

_RECLAIM_POLICIES: Final = ("Retain", "Delete", "Recycle")
_VOLUME_MODES: Final = ("Filesystem", "Block")

CHOICES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "apiextensions.v1.CustomResourceDefinitionSpec": {"scope": ("Cluster", "Namespaced")},
    "apps.v1.DeploymentStrategy": {"type": ("RollingUpdate", "Recreate")},
    "apps.v1.StatefulSetSpec": {"podManagementPolicy": ("OrderedReady", "Parallel")},
    "batch.v1.JobSpec": {
        "completionMode": ("NonIndexed", "Indexed"),
        "podReplacementPolicy": ("TerminatingOrFailed", "Failed"),
    },
    "core.v1.Container": {
        "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
        "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    },
    "core.v1.ContainerPort": {"protocol": ("TCP", "UDP", "SCTP")},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": _VOLUME_MODES},
    "core.v1.PersistentVolumeClaimStatus": {"phase": ("Pending", "Bound", "Lost")},
    "core.v1.PersistentVolumeSpec": {
        "persistentVolumeReclaimPolicy": _RECLAIM_POLICIES,
        "volumeMode": _VOLUME_MODES,
    },
    "core.v1.PodSpec": {"restartPolicy": ("Always", "OnFailure", "Never")},
    "core.v1.ServiceSpec": {
        "sessionAffinity": ("None", "ClientIP"),
        "type": ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
    },
    "scheduling.v1.PriorityClass": {"preemptionPolicy": ("PreemptLowerPriority", "Never")},
    "storage.v1.StorageClass": {
        "reclaimPolicy": _RECLAIM_POLICIES,
        "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
    },
}
