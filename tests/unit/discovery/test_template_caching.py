"""The cache that a template asks for itself (section 16)."""

import pytest
from support.builders import make, owner
from support.discovery_cache import (
    DiscoveryCluster,
    cluster_model,
    cluster_template,
    discovery_cluster,
    model,
    template,
)

from aim_domain.kinds import AIM_TEMPLATE_CACHE
from aim_domain.parts import CLUSTER_TEMPLATES, TEMPLATE_CACHES, TEMPLATES
from controller_runtime import WriteMode

SOURCES = [{"modelId": "a/b", "sourceUri": "hf://a/b"}]
ON = {"enabled": True}


@pytest.mark.spec("DI-344", "DI-345", "DI-346", "DI-352", "AC-71", "AR-640", "AR-641", "SC-111")
def test_an_inline_template_gets_its_cache_at_once() -> None:
    env = [{"name": "HF_TOKEN", "value": "x"}]
    cluster = discovery_cluster(model(), template(modelSources=SOURCES, caching={"enabled": True, "env": []}, env=env))
    (child,) = cluster.run(TEMPLATES, "tpl").children
    assert (child.part, child.mode, child.owned) == (TEMPLATE_CACHES, WriteMode.CREATE, True)
    assert child.body["spec"] == {"templateName": "tpl", "templateScope": "Namespace", "env": env}
    assert cluster.condition(TEMPLATES, "tpl", "CacheReady") == ("False", "WaitingForCache")
    assert cluster.value(TEMPLATES, "tpl") == "Ready", "a cache never holds its template back (DI-352)"


OF_TEMPLATE = {"templateName": "tpl", "templateScope": "Namespace"}


def cached(status: str) -> DiscoveryCluster:
    own = template(modelSources=SOURCES, caching=ON)
    cache = make(AIM_TEMPLATE_CACHE, "other-name", owners=[owner(own)], spec=OF_TEMPLATE, status={"status": status})
    cluster = discovery_cluster(model(), own, cache)
    assert cluster.settle(TEMPLATES, "tpl").children == ()
    return cluster


@pytest.mark.spec("DI-347", "DI-351", "DI-353", "DI-032", "AR-640", "AR-644")
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Ready", ("True", "Ready")),
        ("Degraded", ("False", "CacheDegraded")),
        ("NotAvailable", ("False", "CacheDegraded")),
        ("Failed", ("False", "CacheFailed")),
        ("Progressing", ("False", "WaitingForCache")),
    ],
)
def test_the_owned_cache_is_mirrored_whatever_its_name(status: str, expected: tuple[str, str]) -> None:
    cluster = cached(status)
    assert cluster.condition(TEMPLATES, "tpl", "CacheReady") == expected
    assert cluster.status(TEMPLATES, "tpl")["resolvedCache"]["name"] == "other-name"


@pytest.mark.spec("DI-349", "DI-351")
def test_switching_caching_off_keeps_the_cache_and_drops_the_condition() -> None:
    cluster = cached("Ready")
    cluster.change(TEMPLATES, "tpl", spec={"modelName": "qwen", "modelSources": SOURCES})
    assert cluster.settle(TEMPLATES, "tpl").deletes == ()
    assert cluster.condition(TEMPLATES, "tpl", "CacheReady") is None


@pytest.mark.spec("DI-348")
def test_a_cache_of_somebody_else_is_left_alone() -> None:
    foreign = make(AIM_TEMPLATE_CACHE, "tpl", spec=OF_TEMPLATE)
    cluster = discovery_cluster(model(), template(modelSources=SOURCES, caching=ON), foreign)
    plan = cluster.run(TEMPLATES, "tpl")
    assert plan.children == ()
    assert "TemplateCacheNameConflict" in [event.reason for event in plan.events]


@pytest.mark.spec("DI-344", "DI-350", "AR-640", "AR-642")
def test_no_cache_before_discovery_and_none_for_cluster_templates() -> None:
    shared = cluster_template(modelSources=SOURCES)
    cluster = discovery_cluster(model(), cluster_model(), template(caching=ON), shared)
    assert TEMPLATE_CACHES not in [child.part for child in cluster.settle(TEMPLATES, "tpl").children]
    assert cluster.run(CLUSTER_TEMPLATES, "tpl").children == ()
