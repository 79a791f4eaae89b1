"""Scenarios of templates with a profile or a cache of their own."""

import pytest
from support.discovery_cache import MI300X, discovery_cluster, model, template
from support.template_jobs import SOURCES, finish, started

from aim_domain import AIMTemplateCache
from aim_domain.parts import CUSTOM_PROFILES, DISCOVERY_JOBS, TEMPLATE_CACHES, TEMPLATES
from controller_runtime import JsonObject, StatusValue

PROFILE: JsonObject = {
    "aimId": "meta-llama/Llama-3-8B",
    "modelId": "org/weights",
    "hardware": MI300X,
    "metric": "latency",
    "precision": "fp16",
}


@pytest.mark.spec("AC-67", "DI-243")
def test_an_empty_custom_profile_gives_empty_maps() -> None:
    cluster = discovery_cluster(model(), template(customProfile={}, **PROFILE))
    config_map = next(one for one in cluster.run(TEMPLATES, "tpl").children if one.part is CUSTOM_PROFILES)
    (text,) = config_map.body["data"].values()
    assert "engine_args: {}" in text
    assert "env_vars: {}" in text


@pytest.mark.spec("AC-68", "DI-241")
def test_engine_arguments_that_are_no_object_fail_the_template() -> None:
    cluster = discovery_cluster(model(), template(customProfile={"engineArgs": "not-an-object"}, **PROFILE))
    cluster.run(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Failed"
    assert cluster.condition(TEMPLATES, "tpl", "ConfigValid") == ("False", "InvalidSpec")


@pytest.mark.spec("AC-69", "DI-215", "DI-217", "DI-249")
def test_another_engine_argument_means_another_file_and_another_job() -> None:
    cluster = discovery_cluster(model(), template(customProfile={"engineArgs": {"a": 1}}, **PROFILE))
    first = {child.part.name: child for child in cluster.run(TEMPLATES, "tpl").children}
    cluster.change(TEMPLATES, "tpl", spec={"modelName": "qwen", **PROFILE, "customProfile": {"engineArgs": {"a": 2}}})
    plan = cluster.run(TEMPLATES, "tpl")
    second = {child.part.name: child for child in plan.children}
    files = [one[CUSTOM_PROFILES.name] for one in (first, second)]
    assert files[0].name == files[1].name
    assert files[0].body["data"] != files[1].body["data"]
    assert second[DISCOVERY_JOBS.name].name != first[DISCOVERY_JOBS.name].name
    assert [delete.name for delete in plan.deletes] == [first[DISCOVERY_JOBS.name].name]


@pytest.mark.spec("AC-70", "DI-344", "DI-346", "AR-641")
def test_a_cache_has_its_own_env_and_comes_after_discovery() -> None:
    env = [{"name": "HF_TOKEN", "value": "own"}]
    other = [{"name": "HF_TOKEN", "value": "of-template"}]
    inline = template("inline", modelSources=SOURCES, env=other, caching={"enabled": True, "env": env})
    off = template("off", modelSources=SOURCES, caching={"enabled": False})
    cluster = discovery_cluster(model(), template(caching={"enabled": True}), inline, off)
    (cache,) = cluster.run(TEMPLATES, "inline").children
    assert (cache.part, cache.name, cache.body["spec"]["env"]) == (TEMPLATE_CACHES, "inline", env)
    assert cluster.run(TEMPLATES, "off").children == ()
    _, job = started(cluster)
    assert cluster.find(TEMPLATE_CACHES, "tpl") is None
    finish(cluster, job)
    assert AIMTemplateCache.model_validate(cluster.raw(TEMPLATE_CACHES, "tpl")).spec.template_name == "tpl"


@pytest.mark.spec("DI-352", "AC-71")
def test_a_failed_cache_does_not_fail_its_template() -> None:
    own = template(modelSources=SOURCES, caching={"enabled": True})
    cluster = discovery_cluster(model(), own)
    cluster.settle(TEMPLATES, "tpl")
    cache = cluster.raw(TEMPLATE_CACHES, "tpl")
    cluster.put(TEMPLATE_CACHES, {**cache, "status": {"status": "Failed"}})
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == StatusValue.READY
