"""What serving says about runtime configs (runtime-config.md section 5)."""

from typing import Any

import pytest
from support.builders import make
from support.serving import TEAM, condition_of, config, message_of, serving_cache
from support.woken import woken as all_woken

from aim_domain.kinds import NAMESPACE, PERSISTENT_VOLUME_CLAIM
from aim_domain.parts import ARTIFACT_CLAIMS, CLUSTER_RUNTIME_CONFIGS, NAMESPACES, RUNTIME_CONFIGS
from aim_serving.runtime_config import reconcile_cluster_config, reconcile_config
from aim_serving.service import ServingSettings, definition
from controller_runtime import JsonObject, Key, Plan
from controller_runtime.testing import NOW


def plan_of(**spec: Any) -> Plan:
    cache = serving_cache(config(**spec))
    return reconcile_config(cache.object(RUNTIME_CONFIGS, TEAM, "default"), cache.view(), NOW)


def cluster_plan(name: str = "default", **spec: Any) -> Plan:
    cache = serving_cache(config(name, cluster=True, **spec))
    return reconcile_cluster_config(cache.object(CLUSTER_RUNTIME_CONFIGS, "", name), cache.view(), NOW)


@pytest.mark.spec("RC-P05", "RC-070", "RC-072", "RC-074")
def test_a_valid_config() -> None:
    plan = plan_of(routing={"requestTimeout": "30s", "pathTemplate": "/{.metadata.name}"})
    assert condition_of(plan, "ConfigValid") == ("True", "ConfigurationValid")
    assert condition_of(plan, "Ready") == ("True", "ConfigurationValid")
    assert plan.status is not None
    assert plan.status["observedGeneration"] == 1
    assert (plan.children, plan.events) == ((), ())


@pytest.mark.spec("RC-P12", "RC-072", "RC-098", "CC-310")
@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"routing": {"requestTimeout": "soon"}}, "spec.routing.requestTimeout"),
        ({"routing": {"pathTemplate": "/{.metadata.name"}}, "spec.routing.pathTemplate"),
        (
            {"routing": {"pathTemplate": "/a/{.spec..name}"}},
            "spec.routing.pathTemplate: expression {.spec..name}: invalid",
        ),
        ({"routing": {"pathTemplate": "/{ }"}}, "spec.routing.pathTemplate: expression {}: invalid expression, it is"),
        ({"routing": {"pathTemplate": "/{.status.conditions[0].type}"}}, "a path cannot follow conditions"),
        ({"labelPropagation": {"match": ["ok-*", "[broken"]}}, "spec.labelPropagation.match[1]"),
        ({"pvcHeadroomPercent": -50}, "spec.pvcHeadroomPercent is -50"),
    ],
)
def test_an_invalid_config(spec: JsonObject, path: str) -> None:
    plan = plan_of(**spec)
    assert condition_of(plan, "ConfigValid") == ("False", "InvalidSpec")
    assert condition_of(plan, "Ready") == ("False", "InvalidSpec")
    assert path in message_of(plan, "ConfigValid")
    assert [event.reason for event in plan.events if event.reason != "DeprecatedField"] == ["InvalidSpec"]


@pytest.mark.spec("RC-072")
def test_every_offending_path_is_listed() -> None:
    routing = {"requestTimeout": "soon", "pathTemplate": "/{.metadata.name"}
    message = message_of(plan_of(routing=routing, labelPropagation={"match": ["[a", "[b"]}), "ConfigValid")
    paths = ("routing.requestTimeout", "routing.pathTemplate", "labelPropagation.match[0]", "labelPropagation.match[1]")
    assert [path for path in paths if f"spec.{path}: " not in message] == []


@pytest.mark.spec("RC-072", "RC-117", "RC-S22", "FW-130", "AR-442", "CC-310")
@pytest.mark.parametrize("field", ["clusterLimit", "defaultNamespaceLimit"])
@pytest.mark.parametrize(("limit", "what"), [("lots", "no"), ("-1Gi", "a negative")])
def test_limits_that_cannot_hold(field: str, limit: str, what: str) -> None:
    plan = cluster_plan(artifactStorageQuota={field: limit})
    assert [(event.reason, event.standing) for event in plan.events] == [("InvalidSpec", False), ("InvalidQuota", True)]
    reported = f"spec.artifactStorageQuota.{field}: {limit!r} is {what} quantity and is ignored"
    assert message_of(plan, "ConfigValid") == plan.events[1].message == reported


@pytest.mark.spec("RC-117", "CC-310")
def test_a_limit_of_nothing_and_no_headroom_are_taken() -> None:
    limits = {"clusterLimit": "0", "defaultNamespaceLimit": "0"}
    plan = cluster_plan(artifactStorageQuota=limits, pvcHeadroomPercent=0)
    assert [event.reason for event in plan.events if event.reason != "DeprecatedField"] == []


@pytest.mark.spec("RC-117", "RC-S22", "FW-130", "SC-074")
def test_quotas() -> None:
    ignored = cluster_plan("other", artifactStorageQuota={"clusterLimit": "1Ti"})
    assert [(one.type, one.reason, one.standing) for one in ignored.events] == [("Warning", "QuotaIgnored", True)]
    assert cluster_plan(artifactStorageQuota={"clusterLimit": "1Ti"}).events == ()


@pytest.mark.spec("RC-056", "RC-053", "FW-130")
def test_a_deprecated_field_is_reported_once_per_generation() -> None:
    cache = serving_cache(config(defaultStorageClassName="fast", pvcHeadroomPercent=5))

    def reported() -> list[tuple[str, str]]:
        plan = reconcile_config(cache.object(RUNTIME_CONFIGS, TEAM, "default"), cache.view(), NOW)
        assert (plan.patches, plan.children) == ((), ()), "the object stays as it is"
        stored = cache.stored[RUNTIME_CONFIGS, Key(TEAM, "default")]
        cache.put(RUNTIME_CONFIGS, {**stored, "status": plan.status})
        return [(event.type, event.message) for event in plan.events if event.reason == "DeprecatedField"]

    assert reported() == [
        ("Normal", "spec.defaultStorageClassName is deprecated; use spec.storage.defaultStorageClassName"),
        ("Normal", "spec.pvcHeadroomPercent is deprecated; use spec.storage.pvcHeadroomPercent"),
    ]
    assert reported() == []
    stored = cache.stored[RUNTIME_CONFIGS, Key(TEAM, "default")]
    cache.put(
        RUNTIME_CONFIGS,
        {**stored, "metadata": {**stored["metadata"], "generation": 2, "resourceVersion": str(1 << 40)}},
    )
    assert len(reported()) == 2


SERVICE = definition(ServingSettings())
LIMITED = {"aim.eai.amd.com/artifact-storage-quota": "1Gi"}


def claim(name: str, namespace: str, size: str) -> JsonObject:
    """The claim of an artifact."""
    artifact = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMArtifact", "name": name, "uid": f"uid-{name}"}
    ours = {"aim.eai.amd.com/cache.name": name}
    spec = {"resources": {"requests": {"storage": size}}}
    return make(PERSISTENT_VOLUME_CLAIM, name, namespace=namespace, labels=ours, owners=[artifact], spec=spec)


STORED = (claim("x", "a", "20Gi"), claim("y", "a", "20Gi"), claim("z", "b", "10Gi"))


def usage_reported(limits: JsonObject, *objects: JsonObject, name: str = "default") -> list[str]:
    """Messages of the Events about limits below what is stored."""
    cache = serving_cache(config(name, cluster=True, artifactStorageQuota=limits), *objects)
    found = cache.object(CLUSTER_RUNTIME_CONFIGS, "", name)
    events = [one for one in reconcile_cluster_config(found, cache.view(), NOW).events if one.reason != "QuotaIgnored"]
    assert {(one.type, one.reason, one.standing) for one in events} <= {("Warning", "QuotaBelowUsage", True)}
    return [one.message for one in events]


@pytest.mark.spec("AR-450", "AR-443")
@pytest.mark.parametrize(
    ("limits", "names"),
    [
        ({}, []),
        ({"clusterLimit": "50Gi", "defaultNamespaceLimit": "40Gi"}, []),
        ({"clusterLimit": "49Gi"}, ["the cluster uses 50 GiB of 49 GiB"]),
        ({"defaultNamespaceLimit": "39Gi"}, ["namespace a uses 40 GiB of 39 GiB"]),
        (
            {"clusterLimit": "1Gi", "defaultNamespaceLimit": "0"},
            ["the cluster uses 50 GiB of 1 GiB", "namespace a uses 40 GiB of 0 B", "namespace b uses 10 GiB of 0 B"],
        ),
    ],
)
def test_limits_below_what_is_stored_are_an_event_of_the_config(limits: JsonObject, names: list[str]) -> None:
    what_follows = "; nothing is deleted, and no volume is added until enough is freed: delete unused artifacts"
    expected = [f"{', '.join(names)}{what_follows} or raise the limit"] if names else []
    assert usage_reported(limits, *STORED) == expected


@pytest.mark.spec("AR-450", "AR-441", "AR-444")
def test_the_limit_of_a_namespace_counts_there_and_only_the_config_named_default_has_limits() -> None:
    [message] = usage_reported({}, make(NAMESPACE, "b", annotations=LIMITED), *STORED)
    assert message.startswith("namespace b uses 10 GiB of 1 GiB; nothing")
    assert usage_reported({"clusterLimit": "1Gi"}, *STORED, name="other") == []


@pytest.mark.spec("AR-450")
def test_ten_limits_are_named_and_the_others_counted() -> None:
    volumes = [claim("x", f"team-{number:02}", "2Gi") for number in range(12)]
    [message] = usage_reported({"defaultNamespaceLimit": "1Gi"}, *volumes)
    assert "namespace team-09 uses 2 GiB of 1 GiB, 2 more; nothing" in message
    assert "team-10" not in message


@pytest.mark.spec("AR-450")
def test_a_lowered_limit_of_a_namespace_wakes_the_config_and_a_volume_does_not() -> None:
    default = config("default", cluster=True, artifactStorageQuota={"clusterLimit": "90Gi"})
    known = serving_cache(default, make(NAMESPACE, "a"), *STORED)
    limited = make(NAMESPACE, "a", annotations=LIMITED)
    woken = all_woken(SERVICE, known, NAMESPACES, make(NAMESPACE, "a"), limited)
    assert woken == {"cluster-runtime-config:default"}
    assert all_woken(SERVICE, known, ARTIFACT_CLAIMS, None, claim("new", "a", "9Gi")) == set()
