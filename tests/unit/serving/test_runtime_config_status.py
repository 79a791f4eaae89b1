"""What serving says about runtime configs (runtime-config.md section 5)."""

from typing import Any

import pytest
from support.builders import NOW
from support.serving import TEAM, condition_of, config, message_of, serving_world

from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, RUNTIME_CONFIGS
from aim_serving.runtime_config import reconcile_cluster_config, reconcile_config
from controller_runtime import JsonObject, Plan


def plan_of(**spec: Any) -> Plan:
    world = serving_world(config(**spec))
    return reconcile_config(world.object(RUNTIME_CONFIGS, TEAM, "default"), world.view(), NOW)


def cluster_plan(name: str = "default", **spec: Any) -> Plan:
    world = serving_world(config(name, cluster=True, **spec))
    return reconcile_cluster_config(world.object(CLUSTER_RUNTIME_CONFIGS, "", name), world.view(), NOW)


@pytest.mark.spec("RC-070", "RC-072", "RC-074")
def test_a_valid_config() -> None:
    plan = plan_of(routing={"requestTimeout": "30s", "pathTemplate": "/{.metadata.name}"})
    assert condition_of(plan, "ConfigValid") == ("True", "ConfigurationValid")
    assert condition_of(plan, "Ready") == ("True", "ConfigurationValid")
    assert plan.status is not None
    assert plan.status["observedGeneration"] == 1
    assert (plan.children, plan.events) == ((), ())


@pytest.mark.spec("RC-072", "RC-098")
@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"routing": {"requestTimeout": "soon"}}, "spec.routing.requestTimeout"),
        ({"routing": {"pathTemplate": "/{.metadata.name"}}, "spec.routing.pathTemplate"),
        ({"labelPropagation": {"match": ["ok-*", "[broken"]}}, "spec.labelPropagation.match[1]"),
    ],
)
def test_an_invalid_config(spec: JsonObject, path: str) -> None:
    plan = plan_of(**spec)
    assert condition_of(plan, "ConfigValid") == ("False", "InvalidSpec")
    assert condition_of(plan, "Ready") == ("False", "InvalidSpec")
    assert path in message_of(plan, "ConfigValid")
    assert [event.reason for event in plan.events] == ["InvalidSpec"]


@pytest.mark.spec("RC-117", "FW-130")
def test_quotas() -> None:
    quota: JsonObject = {"artifactStorageQuota": {"clusterLimit": "lots"}}
    assert [event.reason for event in cluster_plan(**quota).events] == ["InvalidSpec", "InvalidQuota"]
    ignored = cluster_plan("other", artifactStorageQuota={"clusterLimit": "1Ti"})
    assert [event.reason for event in ignored.events] == ["QuotaIgnored"]
    assert cluster_plan(artifactStorageQuota={"clusterLimit": "1Ti"}).events == ()


@pytest.mark.spec("FW-130")
def test_deprecated_fields() -> None:
    assert [event.reason for event in plan_of(defaultStorageClassName="fast").events] == ["DeprecatedField"]
