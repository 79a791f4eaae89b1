"""Merging and resolving of runtime configs, label propagation, timeouts."""

from typing import Any

import pytest
from support.builders import config_cache, make

from aim_domain import (
    AIMService,
    LabelPropagation,
    ResolvedConfig,
    RuntimeConfigSpec,
    child_labels,
    compile_pattern,
    gateway_duration,
    merge_env,
    resolve_config,
)
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG, AIM_SERVICE
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, KAIWO_CONFIGS, NAMESPACE_CONFIGS, RUNTIME_CONFIGS
from aim_domain.propagation import matches, propagated_labels
from aim_domain.runtimeconfig.merge import merge_specs
from controller_runtime import Category, JsonObject, Part, to_json
from controller_runtime.core import EnvVar


def spec(**members: Any) -> RuntimeConfigSpec:
    return RuntimeConfigSpec.model_validate(members)


def merged(cluster: JsonObject, namespace: JsonObject) -> JsonObject:
    return to_json(merge_specs(spec(**cluster), spec(**namespace)))


@pytest.mark.spec("RC-030", "RC-031", "RC-032", "AR-044", "AR-045", "SC-042", "AR-P09")
@pytest.mark.parametrize(
    ("cluster", "namespace", "expected"),
    [
        (
            {"storage": {"pvcHeadroomPercent": 20}},
            {"storage": {"pvcHeadroomPercent": 0}},
            {"storage": {"pvcHeadroomPercent": 0}},
        ),
        (
            {"storage": {"pvcHeadroomPercent": 20}},
            {"storage": {"defaultStorageClassName": ""}},
            {"storage": {"pvcHeadroomPercent": 20, "defaultStorageClassName": ""}},
        ),
        ({"routing": {"enabled": True}}, {"routing": {"enabled": False}}, {"routing": {"enabled": False}}),
        (
            {"routing": {"gatewayRef": {"name": "c", "namespace": "infra", "port": 80}}},
            {"routing": {"gatewayRef": {"name": "n"}}},
            {"routing": {"gatewayRef": {"name": "n"}}},
        ),
        (
            {"routing": {"annotations": {"a": "1", "b": "1"}}},
            {"routing": {"annotations": {"b": "2"}}},
            {"routing": {"annotations": {"a": "1", "b": "2"}}},
        ),
        (
            {"labelPropagation": {"enabled": True, "match": ["a"]}},
            {"labelPropagation": {"match": ["b"]}},
            {"labelPropagation": {"enabled": True, "match": ["b"]}},
        ),
        (
            {"storage": {"downloadFilter": {"include": ["x"]}}},
            {"storage": {"downloadFilter": {}}},
            {"storage": {"downloadFilter": {}}},
        ),
        ({"model": {"autoDiscovery": True}}, {"model": {"autoDiscovery": False}}, {"model": {"autoDiscovery": False}}),
        ({"routing": {"enabled": True}}, {"routing": None, "storage": None}, {"routing": {"enabled": True}}),
        ({"routing": None}, {"routing": {"enabled": True}}, {"routing": {"enabled": True}}),
        ({}, {}, {}),
    ],
)
def test_what_is_present_in_the_namespace_wins(
    cluster: JsonObject, namespace: JsonObject, expected: JsonObject
) -> None:
    assert merged(cluster, namespace) == expected


@pytest.mark.spec("RC-050", "RC-051", "RC-052", "RC-054", "RC-055", "RC-S11", "RC-S12", "CC-310", "CC-P10", "AR-044")
@pytest.mark.parametrize(
    ("cluster", "namespace", "storage"),
    [
        ({"defaultStorageClassName": "old"}, {}, {"defaultStorageClassName": "old"}),
        (
            {"defaultStorageClassName": "old", "storage": {"defaultStorageClassName": "new"}},
            {},
            {"defaultStorageClassName": "new"},
        ),
        ({"defaultStorageClassName": ""}, {}, None),
        ({"pvcHeadroomPercent": 0}, {}, {"pvcHeadroomPercent": 0}),
        ({"pvcHeadroomPercent": 20}, {"pvcHeadroomPercent": -50}, {"pvcHeadroomPercent": 20}),
        (
            {"storage": {"defaultStorageClassName": "new"}},
            {"defaultStorageClassName": "ns"},
            {"defaultStorageClassName": "ns"},
        ),
        (
            {"pvcHeadroomPercent": 15, "storage": {"defaultStorageClassName": "x"}},
            {},
            {"defaultStorageClassName": "x", "pvcHeadroomPercent": 15},
        ),
    ],
)
def test_deprecated_fields_are_taken_over(
    cluster: JsonObject, namespace: JsonObject, storage: JsonObject | None
) -> None:
    assert merged(cluster, namespace).get("storage") == storage


@pytest.mark.spec("RC-P02", "RC-027")
def test_merging_leaves_its_arguments_alone() -> None:
    cluster = spec(routing={"annotations": {"a": "1"}}, pvcHeadroomPercent=5)
    before = to_json(cluster)
    merge_specs(cluster, spec(routing={"annotations": {"b": "2"}}))
    assert to_json(cluster) == before


def env(**values: str) -> list[EnvVar]:
    return [EnvVar(name=name, value=value) for name, value in values.items()]


@pytest.mark.spec("RC-033", "RC-034", "RC-045")
def test_variables_keep_their_place_and_are_replaced_whole() -> None:
    secret = EnvVar.model_validate({"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})
    result = merge_env(env(A="1", B="2"), [secret, *env(C="3", A="")])
    assert [(one.name, one.value, one.value_from is not None) for one in result] == [
        ("A", "", False),
        ("B", None, True),
        ("C", "3", False),
    ]


@pytest.mark.spec("RC-035", "RC-036", "AR-045")
@pytest.mark.parametrize(
    ("base", "override", "expected"),
    [
        ('{"b": {"x": 1, "l": [1]}, "a": 1}', '{"b": {"y": 2, "l": [2]}}', '{"a":1,"b":{"l":[2],"x":1,"y":2}}'),
        ("", '{"z": 1}', '{"z": 1}'),
        ('{"z": 1}', "", '{"z": 1}'),
        ("--flag", '{"z": 1}', '{"z": 1}'),
        ('{"z": 1}', "--flag", "--flag"),
    ],
)
def test_engine_arguments_are_merged_as_json(base: str, override: str, expected: str) -> None:
    (only,) = merge_env(env(AIM_ENGINE_ARGS=base), env(AIM_ENGINE_ARGS=override))
    assert only.value == expected


@pytest.mark.spec("RC-036")
def test_engine_arguments_by_reference_replace_those_in_words() -> None:
    field = {"name": "AIM_ENGINE_ARGS", "valueFrom": {"configMapKeyRef": {"name": "args", "key": "json"}}}
    by_reference = (EnvVar.model_validate(field),)
    words = env(AIM_ENGINE_ARGS='{"a": 1}')
    assert merge_env(words, by_reference) == by_reference
    assert merge_env(by_reference, words) == tuple(words)


@pytest.mark.spec("RC-097", "RC-095", "RC-096", "RC-098")
@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("team-alpha", "team-alpha", True),
        ("team?alpha", "team/alpha", False),
        ("team-*", "team-alpha", True),
        ("*-team", "alpha-team", True),
        ("my-*-label", "my-team-label", True),
        ("team-?", "team-1", True),
        ("team-*", "other-label", False),
        ("org.mycompany/*", "org.mycompany/cost-center", True),
        ("org.my/my-key-*", "org.my/my-key-1", True),
        ("compliance.*/severity", "compliance.sec/severity", True),
        ("*", "org.example/team", False),
        ("*/*", "org.example/team", True),
        ("[invalid", "anything", False),
        ("[a-c]x", "bx", True),
        ("[^a]x", "bx", True),
        ("[^a]x", "ax", False),
        ("[!a]x", "ax", True),
        ("[!a]x", "bx", False),
        (r"\*", "*", True),
        ("org.my", "orgxmy", False),
    ],
)
def test_patterns_of_label_keys(pattern: str, key: str, expected: bool) -> None:
    assert matches(pattern, key) is expected


@pytest.mark.spec("RC-093", "RC-S20")
def test_a_child_s_own_label_stays() -> None:
    parent = AIMService.model_validate(make(AIM_SERVICE, "chat", labels={"team": "alpha", "cost": "7"}))
    every = LabelPropagation(enabled=True, match=("*",))
    got = child_labels({"team": "beta"}, parent=parent, controller="service", propagation=every)
    assert (got["team"], got["cost"]) == ("beta", "7")


@pytest.mark.spec("RC-091", "RC-092", "RC-094", "RC-098")
def test_which_labels_children_get() -> None:
    parent = {"aim.eai.amd.com/x": "1", "team": "core", "org/cost": "7"}
    assert propagated_labels(parent, None) == {"aim.eai.amd.com/x": "1"}
    assert propagated_labels(parent, LabelPropagation(match=("team",))) == {"aim.eai.amd.com/x": "1"}
    enabled = LabelPropagation(enabled=True, match=("[bad", "team"))
    assert propagated_labels(parent, enabled) == {"aim.eai.amd.com/x": "1", "team": "core"}
    assert propagated_labels({}, enabled) == {}
    assert compile_pattern("[bad") is None


@pytest.mark.spec("RT-131", "RT-132", "RT-133")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("180s", "3m0s"),
        ("90s", "1m30s"),
        ("3600s", "1h0m0s"),
        ("30s", "30s"),
        ("1.5s", "1s500ms"),
        ("0s", "0s"),
        ("500ms", "500ms"),
    ],
)
def test_timeouts_in_the_form_of_the_gateway_api(text: str, expected: str) -> None:
    assert gateway_duration(text) == expected


def resolved(*objects: JsonObject, name: str | None = None, namespace: str | None = "ml") -> ResolvedConfig:
    view = config_cache(*objects).view()
    return resolve_config(view, namespace, name)


def config(kind: Any, name: str = "default", **members: Any) -> JsonObject:
    return make(kind, name, spec=members)


@pytest.mark.spec("RC-P07", "RC-020", "RC-021", "RC-022", "RC-023", "RC-066")
def test_both_levels_are_looked_up_and_named() -> None:
    cluster, local = config(AIM_CLUSTER_RUNTIME_CONFIG), config(AIM_RUNTIME_CONFIG)
    merged_reference = resolved(cluster, local, name="").reference
    assert merged_reference is not None
    assert to_json(merged_reference) == {
        "name": "default",
        "namespace": "ml",
        "kind": "aim.eai.amd.com/v1alpha1/AIMRuntimeConfig",
        "uid": "aimruntimeconfig-default-uid",
        "scope": "Merged",
    }
    only_local, only_cluster = resolved(local).reference, resolved(cluster).reference
    assert only_local is not None
    assert only_cluster is not None
    assert (only_local.scope, only_cluster.scope, only_cluster.namespace) == ("Namespace", "Cluster", None)
    assert (only_cluster.kind, only_cluster.uid) == (
        "aim.eai.amd.com/v1alpha1/AIMClusterRuntimeConfig",
        "aimclusterruntimeconfig-default-uid",
    )
    assert resolved(local, namespace=None).reference is None


@pytest.mark.spec("RC-023", "RC-060", "RC-061", "RC-062", "RC-068")
def test_a_missing_config_is_an_error_only_when_it_was_named() -> None:
    unnamed = resolved()
    assert unnamed.error is None
    assert unnamed.component().effective_reason == "DefaultConfigNotFound"
    named = resolved(name="team-x")
    assert named.error is not None
    assert named.error.category is Category.MISSING_UPSTREAM
    assert "team-x" in named.error.message
    assert "ml" in named.error.message
    assert named.component(missing="ConfigNotFound").effective_reason == "ConfigNotFound"


@pytest.mark.spec("RC-024", "RC-061", "RC-151", "FW-019")
@pytest.mark.parametrize("part", [RUNTIME_CONFIGS, CLUSTER_RUNTIME_CONFIGS, NAMESPACE_CONFIGS, KAIWO_CONFIGS])
def test_a_stale_level_fails_the_whole_resolution(part: Part[Any]) -> None:
    read = AIM_RUNTIME_CONFIG if part == CLUSTER_RUNTIME_CONFIGS else AIM_CLUSTER_RUNTIME_CONFIG
    built = config_cache(config(read))
    built.make_stale(part)
    outcome = resolve_config(built.view(), "ml", None)
    assert outcome.error is not None
    assert outcome.error.reason == "ViewStale"
    assert outcome.component().reason == "ViewStale"
    assert outcome.reference is None


@pytest.mark.spec("RC-022")
def test_who_has_no_namespace_does_not_follow_that_of_the_operator() -> None:
    local = make(AIM_RUNTIME_CONFIG, "default", namespace="aim-system", spec={"storage": {"pvcHeadroomPercent": 9}})
    outcome = resolved(local, namespace=None)
    assert (outcome.spec, outcome.reference) == (RuntimeConfigSpec(), None)
