"""The built-in kinds: their schemas, compiled on first use, and the defaults that depend on other fields."""

from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from aim_local.apiserver.objects import builtin_cluster as cluster
from aim_local.apiserver.objects import builtin_storage as storage
from aim_local.apiserver.objects import builtin_workloads as workloads
from aim_local.apiserver.objects.builtin_pod import POD
from aim_local.apiserver.objects.schema import Schema
from aim_shared.json import JsonObject

_SCHEMAS: Final[dict[tuple[str, str, str], JsonObject]] = {
    ("", "v1", "ConfigMap"): cluster.CONFIG_MAP,
    ("", "v1", "Endpoints"): cluster.ENDPOINTS,
    ("", "v1", "Event"): cluster.EVENT,
    ("", "v1", "Namespace"): cluster.NAMESPACE,
    ("", "v1", "Node"): cluster.NODE,
    ("", "v1", "PersistentVolume"): storage.VOLUME,
    ("", "v1", "PersistentVolumeClaim"): storage.CLAIM,
    ("", "v1", "Pod"): POD,
    ("", "v1", "ResourceQuota"): cluster.RESOURCE_QUOTA,
    ("", "v1", "Secret"): cluster.SECRET,
    ("", "v1", "Service"): cluster.SERVICE,
    ("", "v1", "ServiceAccount"): cluster.SERVICE_ACCOUNT,
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"): cluster.CUSTOM_RESOURCE_DEFINITION,
    ("apps", "v1", "Deployment"): workloads.DEPLOYMENT,
    ("apps", "v1", "ReplicaSet"): workloads.REPLICA_SET,
    ("apps", "v1", "StatefulSet"): workloads.STATEFUL_SET,
    ("autoscaling", "v1", "Scale"): workloads.SCALE,
    ("autoscaling", "v2", "HorizontalPodAutoscaler"): workloads.AUTOSCALER,
    ("batch", "v1", "Job"): workloads.JOB,
    ("coordination.k8s.io", "v1", "Lease"): cluster.LEASE,
    ("discovery.k8s.io", "v1", "EndpointSlice"): cluster.ENDPOINT_SLICE,
    ("events.k8s.io", "v1", "Event"): cluster.EVENTS_V1,
    ("networking.k8s.io", "v1", "NetworkPolicy"): cluster.NETWORK_POLICY,
    ("policy", "v1", "PodDisruptionBudget"): workloads.DISRUPTION_BUDGET,
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"): cluster.CLUSTER_ROLE,
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"): cluster.ROLE_BINDING,
    ("rbac.authorization.k8s.io", "v1", "Role"): cluster.ROLE,
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"): cluster.ROLE_BINDING,
    ("scheduling.k8s.io", "v1", "PriorityClass"): workloads.PRIORITY_CLASS,
    ("storage.k8s.io", "v1", "StorageClass"): storage.STORAGE_CLASS,
}


def builtin_kinds() -> tuple[tuple[str, str, str], ...]:
    """Group, version and kind of all kinds that have a schema here."""
    return tuple(_SCHEMAS)


@cache
def schema_for(group: str, version: str, kind: str) -> Schema:
    """The schema of a built-in kind; of any other kind one that knows only the metadata.

    Members that the schema does not name are kept.
    """
    return Schema.compile(
        _SCHEMAS.get((group, version, kind), {"type": "object"}),
        preserve_all=True,
        conditional=_CONDITIONAL.get((group, kind)),
    )


_Conditional: TypeAlias = Callable[[JsonObject], None]


def _of_spec(conditional: Callable[[dict[str, Any]], None]) -> _Conditional:
    def fill_in(obj: JsonObject) -> None:
        if isinstance(obj.get("spec"), dict):
            conditional(obj["spec"])

    return fill_in


def _fold_string_data(secret: JsonObject) -> None:
    """`stringData` is a form of input only: it becomes part of the encoded data."""
    texts = secret.pop("stringData", None)
    if isinstance(texts, dict):
        encoded = {key: b64encode(str(text).encode()).decode() for key, text in texts.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _default_pod_spec(spec: dict[str, Any]) -> None:
    for container in [*spec.get("initContainers", ()), *spec.get("containers", ())]:
        image = str(container.get("image", ""))
        tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
        latest = "@" not in image and tag in {"", "latest"}
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])


def _default_template(spec: dict[str, Any]) -> None:
    template_spec = (spec.get("template") or {}).get("spec")
    if isinstance(template_spec, dict):
        _default_pod_spec(template_spec)


def _default_job(spec: dict[str, Any]) -> None:
    _default_template(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if spec.get("podFailurePolicy"):
        spec["podReplacementPolicy"] = "Failed"


def _default_service(spec: dict[str, Any]) -> None:
    for port in spec.get("ports", ()):
        port.setdefault("targetPort", port["port"])
    if spec.get("type") in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")


_CONDITIONAL: Final[dict[tuple[str, str], _Conditional]] = {
    ("", "Pod"): _of_spec(_default_pod_spec),
    ("", "Secret"): _fold_string_data,
    ("", "Service"): _of_spec(_default_service),
    ("apps", "Deployment"): _of_spec(_default_template),
    ("apps", "ReplicaSet"): _of_spec(_default_template),
    ("apps", "StatefulSet"): _of_spec(_default_template),
    ("batch", "Job"): _of_spec(_default_job),
}
