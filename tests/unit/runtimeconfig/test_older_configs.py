"""AIMNamespaceConfig and KaiwoConfig as levels of the runtime configuration."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import config_cache, make
from support.old_objects import NAMESPACE_CONFIG

from aim_domain import KaiwoConfig, ResolvedConfig, oldest_config, resolve_config
from aim_domain.crd import definition
from aim_domain.kinds import (
    AIM_CLUSTER_RUNTIME_CONFIG,
    AIM_NAMESPACE_CONFIG,
    AIM_RUNTIME_CONFIG,
    KAIWO_CONFIG,
    OLDER_KINDS,
)
from controller_runtime import JsonObject, Kind, to_json
from controller_runtime.core import EnvVar
from controller_runtime.testing import NOW

TEAM = "ml-team"
OTHER_ENDPOINT = {
    "endpointUrl": "https://minio.example/",
    "accessKeyId": {"secretName": "minio", "secretKey": "id"},
    "secretAccessKey": {"secretName": "minio", "secretKey": "secret"},
}


def older(kind: Kind[Any], name: str = "one", age: int = 0, namespace: str = TEAM, **spec: Any) -> JsonObject:
    return make(kind, name, namespace=namespace, spec=spec, created=NOW - timedelta(days=age))


def namespace_config(name: str = "one", age: int = 0, **spec: Any) -> JsonObject:
    return older(AIM_NAMESPACE_CONFIG, name, age, **spec)


def kaiwo(name: str = "one", age: int = 0, **spec: Any) -> JsonObject:
    return older(KAIWO_CONFIG, name, age, namespace="", **spec)


def resolved(*configs: JsonObject, namespace: str | None = TEAM, name: str = "") -> ResolvedConfig:
    return resolve_config(config_cache(*configs).view(), namespace, name)


def routed(gateway: str) -> JsonObject:
    return {"routing": {"enabled": True, "gatewayRef": {"name": gateway}}}


def gateway_of(config: ResolvedConfig) -> str | None:
    routing = config.spec.routing
    return routing.gateway_ref.name if routing and routing.gateway_ref else None


def variables(config: ResolvedConfig, *sources: str, own: tuple[EnvVar, ...] = ()) -> dict[str, Any]:
    env = config.spec_for(sources, own).env
    return {one.name: one.value if one.value_from is None else to_json(one.value_from) for one in env}


@pytest.mark.spec("RC-125", "RC-151")
def test_the_namespace_s_config_lies_between_cluster_and_namespace() -> None:
    older_one = namespace_config(gateway={"name": "older", "namespace": "gateways"})
    cluster = make(
        AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={**routed("cluster"), "storage": {"pvcHeadroomPercent": 7}}
    )
    own = make(AIM_RUNTIME_CONFIG, "default", namespace=TEAM, spec=routed("own"))
    assert gateway_of(resolved(cluster)) == "cluster"
    both = resolved(cluster, older_one)
    assert gateway_of(both) == "older"
    assert both.spec.storage is not None
    assert both.spec.storage.pvc_headroom_percent == 7
    assert gateway_of(resolved(cluster, older_one, own)) == "own"
    alone = resolved(older_one)
    assert alone.spec.routing is not None
    assert (alone.spec.routing.enabled, alone.reference) == (True, None)
    assert alone.component().message == (
        "No runtime config named default exists; AIMNamespaceConfig one and built-in defaults apply"
    )


@pytest.mark.spec("RC-151")
def test_the_namespace_s_config_applies_whatever_config_is_named_and_nowhere_else() -> None:
    older_one = namespace_config(gateway={"name": "older"})
    named = make(AIM_RUNTIME_CONFIG, "special", namespace=TEAM, spec={})
    assert gateway_of(resolved(older_one, named, name="special")) == "older"
    assert gateway_of(resolved(older_one, namespace="other")) is None
    assert gateway_of(resolved(older_one, namespace=None)) is None
    assert resolved(older_one, name="missing").error is not None


@pytest.mark.spec("RC-125", "RC-151")
def test_kaiwo_s_config_is_the_lowest_level() -> None:
    fast = kaiwo(storage={"defaultStorageClass": "fast"})
    storage = resolved(fast).spec.storage
    assert storage is not None
    assert storage.default_storage_class_name == "fast"
    for higher in ("slow", ""):
        cluster = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"storage": {"defaultStorageClassName": higher}})
        overridden = resolved(fast, cluster).spec.storage
        assert overridden is not None
        assert overridden.default_storage_class_name == higher
    assert resolved(kaiwo()).spec.storage is None


@pytest.mark.spec("RC-151")
def test_of_one_second_the_name_decides() -> None:
    made = [KaiwoConfig.model_validate(kaiwo(name)) for name in ("b", "a")]
    for order in (made, made[::-1]):
        first = oldest_config(order)
        assert first is not None
        assert first.name == "a"


@pytest.mark.spec("RC-151")
def test_a_cluster_scoped_consumer_sees_no_older_config() -> None:
    fast = kaiwo(storage={"defaultStorageClass": "fast"})
    assert resolved(fast, namespace=None).spec.storage is None


@pytest.mark.spec("RC-151")
def test_the_oldest_of_several_counts() -> None:
    classes = [
        kaiwo("a", 1, storage={"defaultStorageClass": "new"}),
        kaiwo("z", 2, storage={"defaultStorageClass": "old"}),
    ]
    storage = resolved(*classes).spec.storage
    assert storage is not None
    assert storage.default_storage_class_name == "old"
    gateways = [namespace_config("a", 1, gateway={"name": "new"}), namespace_config("z", 2, gateway={"name": "old"})]
    assert gateway_of(resolved(*gateways)) == "old"


@pytest.mark.spec("RC-152", "RC-120")
def test_credentials_are_for_their_own_host() -> None:
    config = resolved(namespace_config(**NAMESPACE_CONFIG))
    token = {"secretKeyRef": {"name": "hf-creds", "key": "token"}}
    assert variables(config) == {}
    assert variables(config, "hf://org/model") == {"HF_TOKEN": token}
    assert variables(config, "s3://bucket/model") == {
        "AWS_ENDPOINT_URL": "https://s3.us-east-1.amazonaws.com",
        "AWS_ACCESS_KEY_ID": {"secretKeyRef": {"name": "s3-creds", "key": "accessKeyId"}},
        "AWS_SECRET_ACCESS_KEY": {"secretKeyRef": {"name": "s3-creds", "key": "secretAccessKey"}},
    }
    assert set(variables(config, "hf://a/b", "s3://c/d")) == {
        *("HF_TOKEN", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    }


@pytest.mark.spec("RC-152")
def test_explicit_variables_win_and_choose_the_endpoint() -> None:
    credentials = NAMESPACE_CONFIG["credentials"] | {"s3": [*NAMESPACE_CONFIG["credentials"]["s3"], OTHER_ENDPOINT]}
    older_one = namespace_config(credentials=credentials)
    config = resolved(older_one)
    minio = EnvVar(name="AWS_ENDPOINT_URL", value="https://minio.example")
    key = {"secretKeyRef": {"name": "minio", "key": "id"}}
    assert variables(config, "s3://bucket/m", own=(minio,))["AWS_ACCESS_KEY_ID"] == key
    unknown = EnvVar(name="AWS_ENDPOINT_URL", value="https://elsewhere")
    assert variables(config, "s3://bucket/m", own=(unknown,)) == {}
    assert variables(config, "hf://a/b", own=(EnvVar(name="HF_TOKEN", value="mine"),)) == {}
    in_config = {"env": [{"name": "HF_TOKEN", "value": "mine"}]}
    of_config = resolved(older_one, make(AIM_RUNTIME_CONFIG, "default", namespace=TEAM, spec=in_config))
    assert variables(of_config, "hf://a/b") == {"HF_TOKEN": "mine"}


@pytest.mark.spec("RC-152")
@pytest.mark.parametrize(
    "credentials",
    [
        {"huggingFaceToken": {"secretName": "s"}, "s3": [{"accessKeyId": {"secretKey": "k"}}]},
        {"gcs": [{"applicationCredentials": {"secretName": "s", "secretKey": "k"}}]},
        {"azureBlob": [{"connectionString": {"secretName": "s", "secretKey": "k"}}]},
        {},
    ],
)
def test_what_names_no_key_or_no_source_of_weights_gives_nothing(credentials: JsonObject) -> None:
    assert variables(resolved(namespace_config(credentials=credentials)), "hf://a/b", "s3://c/d") == {}


@pytest.mark.spec("RC-153")
def test_pull_secrets_of_the_namespace() -> None:
    assert resolved(namespace_config(**NAMESPACE_CONFIG)).pull_secrets == ("my-regcred", "another-secret")
    assert resolved(namespace_config()).pull_secrets == ()


def _fields(schema: JsonObject, path: str = "") -> dict[str, JsonObject]:
    found: dict[str, JsonObject] = {}
    for name, node in schema.get("properties", {}).items():
        inner = node.get("items", node)
        found[f"{path}{name}"] = {key: node[key] for key in ("default", "enum", "minimum", "pattern") if key in node}
        found |= _fields(inner, f"{path}{name}{'[]' if inner is not node else ''}.")
    return found


@pytest.mark.spec("RC-149", "RC-121", "RC-122", "RC-123")
def test_the_definitions_are_those_of_the_older_documents() -> None:
    for kind in OLDER_KINDS:
        spec = definition(kind)["spec"]
        assert spec["group"] == "config.kaiwo.silogen.ai"
        assert "subresources" not in spec["versions"][0]
        assert set(spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]) == {
            *("apiVersion", "kind", "metadata", "spec")
        }
    namespaced, cluster = (definition(kind)["spec"] for kind in OLDER_KINDS)
    assert (namespaced["scope"], cluster["scope"]) == ("Namespaced", "Cluster")
    fields = _fields(namespaced["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])
    assert not any(fields.values())
    secrets = [f"{name}.{key}" for name in _SECRETS for key in ("secretName", "secretKey")]
    assert set(fields) == {
        *_BLOCKS,
        *_SECRETS,
        *secrets,
        "gateway.name",
        "gateway.namespace",
        "images.imagePullSecrets",
    }
    kaiwo_fields = _fields(cluster["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])
    assert kaiwo_fields == _KAIWO


_BLOCKS = (
    "gateway",
    "credentials",
    "credentials.s3",
    "credentials.s3[].endpointUrl",
    "credentials.gcs",
    "credentials.azureBlob",
    "images",
)
_SECRETS = (
    "credentials.huggingFaceToken",
    "credentials.s3[].accessKeyId",
    "credentials.s3[].secretAccessKey",
    "credentials.gcs[].applicationCredentials",
    "credentials.azureBlob[].connectionString",
)
_KAIWO: dict[str, JsonObject] = {
    "ray": {"default": {}},
    "ray.defaultRayImage": {"default": "ghcr.io/silogen/rocm-ray:6.4"},
    "ray.headPodMemory": {"default": "16Gi"},
    "storage": {"default": {}},
    "storage.defaultStorageClass": {},
    "storage.defaultDataMountPath": {"default": "/workload"},
    "storage.defaultHfMountPath": {"default": "/hf_cache"},
    "nodes": {"default": {}},
    "nodes.defaultGpuResourceKey": {"default": "amd.com/gpu"},
    "nodes.defaultGpuTaintKey": {"default": "kaiwo.silogen.ai/gpu"},
    "nodes.excludeMasterNodesFromNodePools": {"default": False},
    "nodes.addTaintsToGpuNodes": {"default": False},
    "scheduling": {"default": {}},
    "scheduling.kubeSchedulerName": {"default": "kaiwo-scheduler"},
    "scheduling.pendingThresholdForPreemption": {"default": "5m"},
    "resourceMonitoring": {"default": {}},
    "resourceMonitoring.lowUtilizationThreshold": {"default": 1, "minimum": 0},
    "resourceMonitoring.targetNamespaces": {},
    "resourceMonitoring.profile": {"default": "gpu", "enum": ["gpu"]},
    "resourceMonitoring.terminateUnderutilized": {"default": False},
    "resourceMonitoring.terminateUnderutilizedAfter": {"default": "24h", "pattern": "^([0-9]+(s|m|h))+$"},
    "defaultClusterQueueName": {"default": "kaiwo"},
    "defaultClusterQueueCohortName": {"default": "kaiwo"},
    "dynamicallyUpdateDefaultClusterQueue": {"default": False},
}
