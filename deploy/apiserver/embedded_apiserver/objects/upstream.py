"""The schemas of built-in kinds from Kubernetes' own OpenAPI, as structural schemas like those of definitions."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from controller_runtime import JsonObject, loads
from embedded_apiserver.objects.values import JsonValue

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


_FILE: Final = Path(__file__).parents[1] / "crds" / "kubernetes.json"
"""Made by `make external-crds`."""

_TIME: Final = {"type": "string", "format": "date-time", "nullable": True}
_ANY_NUMBER_OR_TEXT: Final = {"x-kubernetes-int-or-string": True}
_META: Final = "io.k8s.apimachinery.pkg."
_SPECIAL: Final[Mapping[str, JsonObject]] = {
    f"{_META}apis.meta.v1.Time": _TIME,
    f"{_META}apis.meta.v1.MicroTime": _TIME,
    f"{_META}api.resource.Quantity": _ANY_NUMBER_OR_TEXT,
    f"{_META}util.intstr.IntOrString": _ANY_NUMBER_OR_TEXT,
}
"""What OpenAPI can't say of these: times may be null, and quantities are decoded from two types."""


def builtin_kinds() -> tuple[tuple[str, str, str], ...]:
    """Group, version and kind of all kinds that have a schema."""
    return tuple(_kinds())


def kind_schema(group: str, version: str, kind: str) -> JsonObject:
    """The schema of a built-in kind.

    Raises:
        KeyError: it is not among those that were taken from upstream.
    """
    schema = _schema(_kinds()[group, version, kind], decoded=False)
    properties = schema["properties"]
    if "status" in properties:
        status = _schema(_referred(_source()[_kinds()[group, version, kind]]["properties"]["status"]), decoded=True)
        properties = {**properties, "status": {**status, "default": {}}}
    return {**schema, "properties": properties}


def object_meta() -> JsonObject:
    """The schema of `metadata`, which all kinds share; its rules are those of `metadatarules`."""
    return _schema(f"{_META}apis.meta.v1.ObjectMeta", decoded=True)


@cache
def _source() -> dict[str, JsonObject]:
    schemas: dict[str, JsonObject] = loads(_FILE.read_bytes())["schemas"]
    return schemas


@cache
def _kinds() -> dict[tuple[str, str, str], str]:
    return {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, schema in _source().items()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
    }


@cache
def _schema(name: str, *, decoded: bool) -> JsonObject:
    """One definition with all that it refers to.

    In Go a member that is required has no state of being absent: it is decoded to the zero value that OpenAPI tells as
    its default. What people write is then refused for that value; what programs report is `decoded` and taken.
    """
    if name in _SPECIAL:
        return _SPECIAL[name]
    schema = _inlined(_source()[name], decoded=decoded)
    properties = schema.get("properties", {})
    required = schema.pop("required", ())
    for member in required:
        if not decoded and properties[member].get("default") in ("", 0) and properties[member]["type"] != "boolean":
            del properties[member]["default"]
    required = [member for member in required if "default" not in properties[member]]
    if required and not decoded:
        schema["required"] = required
    short = name.rpartition(".pkg.apis.")[2].removeprefix("io.k8s.api.")
    for member, value in DEFAULTS.get(short, {}).items():
        properties[member]["default"] = value
    for member, choices in CHOICES.get(short, {}).items():
        properties[member]["enum"] = choices
    return schema


def _inlined(schema: JsonObject, *, decoded: bool) -> JsonObject:
    """A copy without references; an object of which upstream tells no members is open."""
    rest: dict[str, Any] = {key: value for key, value in schema.items() if key not in ("allOf", "$ref")}
    if len(rest) < len(schema):
        rest = {**_schema(_referred(schema), decoded=decoded), **rest}
    if "properties" in schema:
        members = schema["properties"].items()
        rest["properties"] = {name: _inlined(member, decoded=decoded) for name, member in members}
    for below in ("items", "additionalProperties"):
        if below in schema:
            rest[below] = _inlined(schema[below], decoded=decoded)
    if rest.get("type") == "object" and not rest.keys() & {"properties", "additionalProperties"}:
        rest["x-kubernetes-preserve-unknown-fields"] = True
    return rest


def _referred(schema: JsonObject) -> str:
    """The name in `$ref`, which stands in an `allOf` where a default stands beside it."""
    [reference] = schema.get("allOf", [schema])
    return str(reference["$ref"]).rpartition("/")[2]
