"""Objects of the groups that no API server serves any more, as users have them."""

from typing import Any

from aim_cli.migration.draft import CONFIG_GROUP, OLD_GROUP, OLD_KINDS, OldKind, Weight, old_kind
from aim_cli.migration.mapping import Migration, Old, migrate
from controller_runtime import JsonObject

CONFIG_KINDS = frozenset({"AIMNamespaceConfig", "KaiwoConfig"})


def old_body(kind: str, name: str, spec: JsonObject, namespace: str = "ml-team", **metadata: Any) -> JsonObject:
    """A document; cluster-scoped kinds have no namespace."""
    group = CONFIG_GROUP if kind in CONFIG_KINDS else OLD_GROUP
    known = old_kind(group, kind)
    placed = {"namespace": namespace} if known is not None and known.namespaced else {}
    return {
        "apiVersion": f"{group}/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, **placed, **metadata},
        "spec": spec,
    }


def old(kind: str, name: str, spec: JsonObject, namespace: str = "ml-team", **metadata: Any) -> Old:
    """The same as it is read."""
    body = old_body(kind, name, spec, namespace, **metadata)
    known = old_kind(body["apiVersion"].partition("/")[0], kind)
    assert known is not None
    return Old(known, body)


def migrated(kind: str, spec: JsonObject) -> tuple[JsonObject, set[tuple[Weight, str]]]:
    """Spec of today and the remarks, as weight and field."""
    result = migrate([old(kind, "one", spec)])
    return (result.objects[0].body["spec"] if result.objects else {}), remarks(result)


def remarks(result: Migration) -> set[tuple[Weight, str]]:
    """All findings as weight and field."""
    return {(finding.weight, finding.field) for finding in result.findings}


NAMESPACE_CONFIG: JsonObject = {
    "gateway": {"name": "kgw-default", "namespace": "gateway-system"},
    "credentials": {
        "huggingFaceToken": {"secretName": "hf-creds", "secretKey": "token"},
        "s3": [
            {
                "endpointUrl": "https://s3.us-east-1.amazonaws.com",
                "accessKeyId": {"secretName": "s3-creds", "secretKey": "accessKeyId"},
                "secretAccessKey": {"secretName": "s3-creds", "secretKey": "secretAccessKey"},
            }
        ],
    },
    "images": {"imagePullSecrets": ["my-regcred", "another-secret"]},
}
"""Everything that the reference of the configuration shows in its examples."""

KAIWO_DEFAULTS: JsonObject = {
    "ray": {"defaultRayImage": "ghcr.io/silogen/rocm-ray:6.4", "headPodMemory": "16Gi"},
    "storage": {"defaultDataMountPath": "/workload", "defaultHfMountPath": "/hf_cache"},
    "nodes": {
        "defaultGpuResourceKey": "amd.com/gpu",
        "defaultGpuTaintKey": "kaiwo.silogen.ai/gpu",
        "excludeMasterNodesFromNodePools": False,
        "addTaintsToGpuNodes": False,
    },
    "scheduling": {"kubeSchedulerName": "kaiwo-scheduler", "pendingThresholdForPreemption": "5m"},
    "resourceMonitoring": {
        "lowUtilizationThreshold": 1,
        "profile": "gpu",
        "terminateUnderutilized": False,
        "terminateUnderutilizedAfter": "24h",
    },
    "defaultClusterQueueName": "kaiwo",
    "defaultClusterQueueCohortName": "kaiwo",
    "dynamicallyUpdateDefaultClusterQueue": False,
}
"""A KaiwoConfig as its own definition completes an empty one."""

GUIDE: tuple[JsonObject, ...] = (
    old_body(
        "AIMClusterModel",
        "meta-llama-3-8b-instruct",
        {
            "image": "ghcr.io/silogen/aim-meta-llama-llama-3-1-8b-instruct:0.7.0",
            "discovery": {"enabled": True, "autoCreateTemplates": True},
            "resources": {"limits": {"cpu": "8", "memory": "64Gi"}, "requests": {"cpu": "4", "memory": "32Gi"}},
        },
    ),
    old_body(
        "AIMClusterModel",
        "with-discovery",
        {
            "image": "ghcr.io/example/llama-3.1-8b-instruct:v1.2.0",
            "runtimeConfigName": "platform-default",
            "discovery": {"enabled": True, "autoCreateTemplates": True},
            "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
        },
    ),
    old_body(
        "AIMModel",
        "meta-llama-3-8b-dev",
        {
            "image": "ghcr.io/ml-team/llama-dev:latest",
            "runtimeConfigName": "ml-team",
            "defaultServiceTemplate": "custom-template-name",
            "discovery": {"enabled": False},
            "resources": {"limits": {"cpu": "6", "memory": "48Gi"}},
        },
    ),
    old_body(
        "AIMRuntimeConfig",
        "default",
        {"serviceAccountName": "aim-runtime", "imagePullSecrets": [{"name": "private-registry"}]},
    ),
    old_body(
        "AIMModel",
        "proprietary-model",
        {
            "image": "private.registry/models/proprietary:v1",
            "runtimeConfigName": "default",
            "discovery": {"enabled": True},
        },
    ),
    old_body("AIMClusterRuntimeConfig", "default", {"model": {"creationScope": "Cluster", "autoDiscovery": True}}),
    old_body("AIMService", "my-service", {"model": {"image": "ghcr.io/example/my-model:v1.0.0"}}),
    old_body("AIMNamespaceConfig", "anything", NAMESPACE_CONFIG),
    old_body("KaiwoConfig", "kaiwo", KAIWO_DEFAULTS | {"storage": {"defaultStorageClass": "fast"}}),
)
"""The resources of the older user documents, with their fields."""


def old_definitions() -> list[JsonObject]:
    """Definitions of the old kinds as far as a reader needs them: everything may stand in them."""
    return [_definition(kind) for kind in OLD_KINDS]


def _definition(kind: OldKind) -> JsonObject:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower()},
            "versions": [version],
        },
    }
