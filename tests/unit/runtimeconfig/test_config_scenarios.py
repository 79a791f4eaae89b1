"""Which config applies and what it then says: the acceptance scenarios of runtime-config.md."""

from typing import Any

import pytest
from support.builders import config_cache, make

from aim_domain import DEFAULT_HEADROOM_PERCENT, ResolvedConfig, resolve_config
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG
from aim_domain.propagation import propagated_labels
from aim_domain.runtimeconfig.merge import merge_engine_args, merge_env
from controller_runtime import Category, JsonObject, to_json
from controller_runtime.core import EnvVar

TEAM = "test-ns"


def cluster(name: str = "default", **spec: Any) -> JsonObject:
    return make(AIM_CLUSTER_RUNTIME_CONFIG, name, spec=spec)


def local(name: str = "default", namespace: str = TEAM, **spec: Any) -> JsonObject:
    return make(AIM_RUNTIME_CONFIG, name, namespace=namespace, spec=spec)


def resolved(*configs: JsonObject, name: str | None = "", namespace: str | None = TEAM) -> ResolvedConfig:
    return resolve_config(config_cache(*configs).view(), namespace, name)


def spec_of(*configs: JsonObject) -> JsonObject:
    return to_json(resolved(*configs).spec)


def scope_of(config: ResolvedConfig) -> str:
    assert config.reference is not None
    return str(config.reference.scope)


# Which applies


@pytest.mark.spec("RC-S01", "RC-063", "RC-005")
def test_none_exists_and_none_was_named() -> None:
    config = resolved()
    assert (config.error, config.reference, to_json(config.spec)) == (None, None, {})
    said = config.component(found="RuntimeConfigResolved")
    assert (said.effective_state.value, said.effective_reason, said.errors) == ("Ready", "DefaultConfigNotFound", ())


@pytest.mark.spec("RC-S02", "RC-004")
def test_none_of_the_name_exists() -> None:
    config = resolved(cluster(), local(), local("custom-config", namespace="other"), name="custom-config")
    assert config.error is not None
    assert (config.error.category, config.error.reason) == (Category.MISSING_UPSTREAM, "ReferenceNotFound")
    assert to_json(config.spec) == {}, "a name inherits nothing from another one"


@pytest.mark.spec("RC-S03", "RC-S04", "RC-S05", "RC-003")
def test_scopes() -> None:
    base = cluster(storage={"pvcHeadroomPercent": 10, "defaultStorageClassName": "cluster-sc"})
    own = local(storage={"pvcHeadroomPercent": 20})
    assert scope_of(resolved(base)) == "Cluster"
    assert scope_of(resolved(own)) == "Namespace"
    both = resolved(base, own)
    assert scope_of(both) == "Merged"
    assert both.reference is not None
    assert both.reference.kind == "aim.eai.amd.com/v1alpha1/AIMRuntimeConfig"
    assert to_json(both.spec)["storage"] == {"pvcHeadroomPercent": 20, "defaultStorageClassName": "cluster-sc"}


@pytest.mark.spec("RC-S09", "RC-020", "RC-082")
@pytest.mark.parametrize("name", [None, "", "default"])
def test_no_name_means_default(name: str | None) -> None:
    config = resolved(cluster(pvcHeadroomPercent=7), cluster("other", pvcHeadroomPercent=8), name=name)
    assert config.name == "default"
    assert to_json(config.spec)["storage"] == {"pvcHeadroomPercent": 7}


@pytest.mark.spec("RC-022", "RC-025", "RC-021")
def test_who_has_no_namespace_sees_the_cluster_alone() -> None:
    configs = (cluster(pvcHeadroomPercent=7), local(pvcHeadroomPercent=9), local(namespace="elsewhere"))
    assert to_json(resolved(*configs, namespace=None).spec)["storage"] == {"pvcHeadroomPercent": 7}
    assert to_json(resolved(*configs).spec)["storage"] == {"pvcHeadroomPercent": 9}


# What it says


@pytest.mark.spec("RC-S06", "RC-S07", "RC-S08", "RC-S10", "RC-P01", "RC-030", "SV-P37", "FW-361")
@pytest.mark.parametrize(
    ("base", "own", "merged"),
    [
        (
            {"routing": {"enabled": True, "pathTemplate": "/cluster/{.metadata.name}"}},
            {"routing": {"pathTemplate": "/namespace/{.metadata.name}"}},
            {"routing": {"enabled": True, "pathTemplate": "/namespace/{.metadata.name}"}},
        ),
        ({"model": {"autoDiscovery": False}}, {}, {"model": {"autoDiscovery": False}}),
        ({"storage": {"pvcHeadroomPercent": 20}}, {}, {"storage": {"pvcHeadroomPercent": 20}}),
        ({"routing": {"enabled": True}}, {"routing": {"enabled": False}}, {"routing": {"enabled": False}}),
        (
            {"storage": {"pvcHeadroomPercent": 20}},
            {"storage": {"pvcHeadroomPercent": 0}},
            {"storage": {"pvcHeadroomPercent": 0}},
        ),
        (
            {"labelPropagation": {"match": ["a"]}},
            {"labelPropagation": {"match": []}},
            {"labelPropagation": {"match": []}},
        ),
        (
            {"artifact": {"defaultRetentionPriority": 5}},
            {"artifact": {"defaultRetentionPriority": 0}},
            {"artifact": {"defaultRetentionPriority": 0}},
        ),
    ],
)
def test_what_the_namespace_writes_wins_also_when_it_is_nothing(
    base: JsonObject, own: JsonObject, merged: JsonObject
) -> None:
    assert spec_of(cluster(**base), local(**own)) == merged


@pytest.mark.spec("RC-S23", "RC-014", "RC-032")
def test_an_empty_filter_is_a_filter() -> None:
    base = cluster(storage={"downloadFilter": {"exclude": ["*.bin"]}})
    assert spec_of(base, local(storage={"downloadFilter": {}}))["storage"]["downloadFilter"] == {}
    assert spec_of(base, local(storage={}))["storage"]["downloadFilter"] == {"exclude": ["*.bin"]}
    assert "downloadFilter" not in spec_of(local(storage={"pvcHeadroomPercent": 1}))["storage"]


@pytest.mark.spec("RC-P09", "RC-S27", "RC-037", "RC-P10", "CC-330", "CC-P15")
def test_defaults_are_nobody_s_value() -> None:
    base = cluster(storage={"pvcHeadroomPercent": 15}, labelPropagation={"enabled": True, "match": ["a"]})
    own = local(storage={"defaultStorageClassName": "x"}, labelPropagation={"match": ["b"]})
    assert spec_of(base, own) == {
        "storage": {"pvcHeadroomPercent": 15, "defaultStorageClassName": "x"},
        "labelPropagation": {"enabled": True, "match": ["b"]},
    }
    assert "pvcHeadroomPercent" not in spec_of(own)["storage"]
    assert DEFAULT_HEADROOM_PERCENT == 10


@pytest.mark.spec("RC-002", "RC-032")
def test_quotas_are_nobody_s_to_override() -> None:
    assert "artifactStorageQuota" not in spec_of(cluster(artifactStorageQuota={"clusterLimit": "1Ti"}))


# Variables


def variables(**values: str) -> list[EnvVar]:
    return [EnvVar(name=name, value=value) for name, value in values.items()]


@pytest.mark.spec("RC-S13", "RC-033", "RC-045", "RC-P06")
def test_variables_of_two_levels() -> None:
    base = cluster(env=to_json_list(CLUSTER="cluster-val", SHARED="cluster-shared"))
    own = local(env=to_json_list(NAMESPACE="ns-val", SHARED="ns-shared"))
    assert spec_of(base, own)["env"] == to_json_list(CLUSTER="cluster-val", SHARED="ns-shared", NAMESPACE="ns-val")
    assert "env" not in spec_of(cluster(env=[]), local(env=[]))


def to_json_list(**values: str) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in values.items()]


@pytest.mark.spec("RC-S14", "RC-038", "RC-043", "RC-044")
def test_variables_of_three_levels() -> None:
    levels = variables(TOKEN="cluster-token"), variables(API_KEY="ns-key"), variables(TOKEN="resource-token")
    found = {one.name: one.value for one in merge_env(*levels)}
    assert found == {"TOKEN": "resource-token", "API_KEY": "ns-key"}
    assert merge_env(merge_env(*levels[:2]), levels[2]) == merge_env(levels[0], merge_env(*levels[1:])) != ()


@pytest.mark.spec("RC-S15", "RC-035")
@pytest.mark.parametrize(
    ("base", "override", "merged"),
    [
        (
            '{"max-model-len":4096}',
            '{"kv-transfer-config":"value"}',
            '{"kv-transfer-config":"value","max-model-len":4096}',
        ),
        ('{"max-model-len":4096}', '{"max-model-len":8192}', '{"max-model-len":8192}'),
        ('{"outer":{"inner1":"a"}}', '{"outer":{"inner2":"b"}}', '{"outer":{"inner1":"a","inner2":"b"}}'),
        ("not-valid-json", '{"a":1}', '{"a":1}'),
        ('{"a":1}', "not-valid-json", "not-valid-json"),
        ("", '{"a":1}', '{"a":1}'),
        ('{"a":1}', "", '{"a":1}'),
    ],
)
def test_arguments_of_the_engine(base: str, override: str, merged: str) -> None:
    assert merge_engine_args(base, override) == merged


# Labels


@pytest.mark.spec("RC-S19", "RC-092", "RC-094")
@pytest.mark.parametrize("settings", [None, {"enabled": False, "match": ["team"]}, {"enabled": True, "match": []}])
def test_without_propagation_only_our_own_labels_are_handed_on(settings: JsonObject | None) -> None:
    config = resolved(*([] if settings is None else [cluster(labelPropagation=settings)]))
    parent = {"team": "alpha", "aim.eai.amd.com/service.name": "x"}
    assert propagated_labels(parent, config.spec.label_propagation) == {"aim.eai.amd.com/service.name": "x"}


@pytest.mark.spec("RC-073", "RC-074")
def test_the_valid_fields_of_an_invalid_config_count() -> None:
    broken = local(
        routing={"requestTimeout": "soon", "pathTemplate": "/{", "enabled": True},
        labelPropagation={"enabled": True, "match": ["[bad", "team"]},
        storage={"defaultStorageClassName": "fast"},
    )
    found = resolved(broken)
    assert found.error is None
    spec = found.spec
    assert spec.storage is not None
    assert spec.routing is not None
    assert (spec.storage.default_storage_class_name, spec.routing.enabled) == ("fast", True)
    assert propagated_labels({"team": "a"}, spec.label_propagation) == {"team": "a"}
