"""What serving says about runtime configs (runtime-config.md section 5)."""

from typing import Any

import pytest
from support.serving import TEAM, condition_of, config, message_of, serving_cache

from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, RUNTIME_CONFIGS
from aim_serving.runtime_config import reconcile_cluster_config, reconcile_config
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
