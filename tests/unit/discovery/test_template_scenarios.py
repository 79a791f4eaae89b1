"""Templates through models, jobs, failures and results: acceptance scenarios of sections 7 to 16."""

import pytest
from support.builders import condition, owner
from support.discovery_cache import (
    MI300X,
    SYSTEM,
    cluster_model,
    cluster_template,
    discovery_cache,
    discovery_cluster,
    effect_of,
    gpu_node,
    model,
    template,
)
from support.template_jobs import ELEMENT, finish, new_jobs, started

from aim_discovery.templates.job_log import JOB_LOG
from aim_discovery.templates.output import InvalidOutputError, profile_and_sources
from aim_domain.parts import CLUSTER_MODELS, CLUSTER_TEMPLATES, DISCOVERY_JOBS, DISCOVERY_PODS, MODELS, NODES, TEMPLATES
from controller_runtime import timestamp

# Models


@pytest.mark.spec("AC-33", "DI-167", "DI-168", "DI-169", "DI-170", "DI-P37")
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("status", "broken", "value", "reason"),
    [
        ("Ready", [], "True", "ModelFound"),
        ("Failed", ["ImageMetadataReady"], "False", "ModelFailed"),
        ("Failed", ["ImageMetadataReady", "ServiceTemplatesReady"], "False", "ModelFailed"),
        ("Failed", ["ServiceTemplatesReady", "Ready"], "True", "ModelFound"),
        ("Failed", [], "True", "ModelFound"),
        ("Degraded", ["ImageMetadataReady"], "False", "ModelFailed"),
        ("Degraded", ["ServiceTemplatesReady"], "True", "ModelFound"),
        ("Failed", ["ConfigValid", "ServiceTemplatesReady"], "True", "ModelFound"),
    ],
)
def test_health_that_follows_from_a_model(
    shared: bool, status: str, broken: list[str], value: str, reason: str
) -> None:
    prefix = "Cluster" if shared else ""
    types = [f"{prefix}{name}" if name == "ServiceTemplatesReady" else name for name in broken]
    conditions = [condition(one, False) for one in types]
    given = {**(cluster_model() if shared else model()), "status": {"status": status, "conditions": conditions}}
    cluster = discovery_cluster(given, cluster_template() if shared else template())
    part = CLUSTER_TEMPLATES if shared else TEMPLATES
    cluster.run(part, "tpl")
    assert cluster.condition(part, "tpl", f"{prefix}ModelReady") == (value, f"{prefix}{reason}")
    if value == "False":
        assert cluster.value(part, "tpl") == status


@pytest.mark.spec("DI-167", "AC-33")
def test_a_model_without_an_image_is_of_no_use() -> None:
    plan = discovery_cache(model(image=""), template()).plan(TEMPLATES, "tpl")
    assert (plan.children, (plan.status or {})["status"]) == ((), "Failed")
    reported = {one["type"]: (one["status"], one["reason"]) for one in (plan.status or {})["conditions"]}
    assert reported["ModelReady"] == ("False", "ImageNotSpecified")


@pytest.mark.spec("DI-166", "DI-172", "DI-305")
def test_a_model_that_can_not_be_looked_up_is_not_replaced_by_that_of_the_cluster() -> None:
    cluster = discovery_cluster(model(), cluster_model(), template())
    cluster.settle(TEMPLATES, "tpl")
    cluster.remove(MODELS, "qwen")
    cluster.make_stale(MODELS)
    for _ in range(2):
        assert cluster.run(TEMPLATES, "tpl").children == ()
        cluster.later(10)
    assert cluster.condition(TEMPLATES, "tpl", "ModelReady") == ("False", "ViewStale")
    assert cluster.value(TEMPLATES, "tpl") == "Degraded"
    assert cluster.status(TEMPLATES, "tpl")["resolvedModel"]["scope"] == "Namespace", "kept while it is not known"


@pytest.mark.spec("DI-164", "DI-217")
def test_a_model_of_the_namespace_takes_over_and_gives_back() -> None:
    cluster = discovery_cluster(cluster_model(image="a/shared:1"), template())
    _, job = started(cluster)
    finish(cluster, job)
    cluster.put(MODELS, model(image="a/local:1"))
    (second,) = new_jobs(cluster)
    assert second != job
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.status(TEMPLATES, "tpl")["resolvedModel"]["scope"] == "Namespace"
    cluster.remove(MODELS, "qwen")
    plan = cluster.run(TEMPLATES, "tpl")
    assert [delete.name for delete in plan.deletes] == [second]
    assert cluster.status(TEMPLATES, "tpl")["resolvedModel"]["scope"] == "Cluster"


# Jobs


@pytest.mark.spec("DI-281", "DI-282", "DI-283", "DI-209", "DI-214", "DI-329", "DI-205", "DI-340", "DI-341", "AC-45")
def test_the_way_of_a_discovery() -> None:
    cluster = discovery_cluster(model(), template(hardware=MI300X))
    (child,) = cluster.run(TEMPLATES, "tpl").children
    assert child.body["metadata"]["labels"]["aim.eai.amd.com/template"] == "tpl"
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryJobReady") == ("False", "JobNotCreated")
    assert cluster.value(TEMPLATES, "tpl") == "Pending"
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryJobReady") == ("False", "JobRunning")
    assert cluster.value(TEMPLATES, "tpl") == "Progressing"
    running = cluster.status(TEMPLATES, "tpl")
    assert running["discoveryJob"]["uid"] == cluster.uid(DISCOVERY_JOBS, child.name)
    assert not {"profile", "resolvedHardware", "resolvedNodeAffinity", "hardwareSummary"} & running.keys()
    finish(cluster, child.name)
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryJobReady") == ("True", "Ready")
    assert cluster.condition(TEMPLATES, "tpl", "Discovered") == ("True", "DiscoveryComplete")
    status = cluster.status(TEMPLATES, "tpl")
    assert status["resolvedModel"]["name"] == "qwen"
    assert status["modelSources"] == [{"modelId": "a/b", "sourceUri": "hf://a/b", "size": "512Mi"}]
    assert status["discoveryJob"]["name"] == child.name
    assert new_jobs(cluster) == []


@pytest.mark.spec("DI-342", "DI-343", "DI-173", "DI-P36")
def test_a_template_has_these_conditions_and_no_others() -> None:
    cluster, job = started(hardware=MI300X, caching={"enabled": True})
    cluster.put(DISCOVERY_PODS, cluster.job_pod(job, "Running"))
    cluster.later(3)
    cluster.settle(TEMPLATES, "tpl")
    found = {one["type"] for one in cluster.status(TEMPLATES, "tpl")["conditions"]}
    assert found == {
        "RuntimeConfigReady",
        "ModelReady",
        "DiscoveryJobReady",
        "DiscoveryPodsReady",
        "GPUReady",
        "Discovered",
        "CacheReady",
        "Ready",
    }


@pytest.mark.spec("DI-211", "DI-212", "AC-64", "DI-P25")
def test_namesakes_of_both_scopes_use_their_own_jobs() -> None:
    local = {**template(), "metadata": {**template()["metadata"], "namespace": SYSTEM}}
    cluster = discovery_cluster(cluster_model(), cluster_template(), local)
    (first,) = cluster.run(TEMPLATES, "tpl", SYSTEM).children
    cluster.settle(TEMPLATES, "tpl", SYSTEM)
    # Equal inputs give equal names: the second template meets the Job of the first, and does not take it for its own.
    assert cluster.failure(CLUSTER_TEMPLATES, "tpl").reason == "AlreadyExists"
    cluster.end_job(first.name, namespace=SYSTEM)
    assert [one.kind for one in cluster.run(TEMPLATES, "tpl", SYSTEM).effects] == [JOB_LOG.name]
    cluster.effects.clear()
    assert cluster.failure(CLUSTER_TEMPLATES, "tpl").reason == "AlreadyExists"
    assert cluster.effects == {}, "it reads no result of another's Job"
    cluster.remove(DISCOVERY_JOBS, first.name, SYSTEM)
    (second,) = cluster.run(CLUSTER_TEMPLATES, "tpl").children
    assert second.name == first.name


@pytest.mark.spec("DI-211", "DI-258", "DI-292", "AC-63")
def test_a_job_that_ended_while_nobody_looked_is_read_and_not_repeated() -> None:
    cluster = discovery_cluster(model(), template())
    (child,) = cluster.run(TEMPLATES, "tpl").children
    # The status of the pass that created the Job was lost with the process.
    cluster.change(TEMPLATES, "tpl", status={})
    cluster.end_job(child.name)
    plan = cluster.run(TEMPLATES, "tpl")
    assert plan.children == ()
    cluster.answer(effect_of(plan, JOB_LOG.name), {"element": ELEMENT})
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Ready"


@pytest.mark.spec("AC-62", "DI-217", "DI-213")
def test_another_image_of_the_model_is_discovered_again() -> None:
    cluster, job = started()
    finish(cluster, job)
    before = cluster.status(TEMPLATES, "tpl")
    cluster.change(MODELS, "qwen", spec={"image": "a/other:2"})
    (again,) = new_jobs(cluster)
    assert again != job
    cluster.settle(TEMPLATES, "tpl")
    status = cluster.status(TEMPLATES, "tpl")
    assert status["status"] == "Progressing"
    assert (status["modelSources"], status["profile"]) == (before["modelSources"], before["profile"])
    finish(cluster, again)


@pytest.mark.spec("DI-218")
@pytest.mark.parametrize("reason", ["AwaitingDiscovery", "DiscoveryComplete"])
def test_what_the_former_operator_left_is_not_discovered_again(reason: str) -> None:
    conditions = [condition("Discovered", reason == "DiscoveryComplete", reason)]
    left = {"status": "Ready", "profile": {"metadata": {"gpu": "MI300X"}}, "conditions": conditions}
    if reason == "AwaitingDiscovery":
        left["conditions"] = []
    cluster = discovery_cluster(model(), {**template(), "status": left})
    assert cluster.settle(TEMPLATES, "tpl").children == ()
    assert cluster.value(TEMPLATES, "tpl") == "Ready"
    assert cluster.condition(TEMPLATES, "tpl", "Discovered") == ("True", "DiscoveryComplete")


@pytest.mark.spec("AC-47", "DI-202", "DI-203")
def test_an_inline_template_says_where_its_sources_are_from() -> None:
    sources = [{"modelId": "amd/Llama-3.1-8B", "sourceUri": "hf://amd/Llama-3.1-8B", "size": "9094593249"}]
    cluster = discovery_cluster(model(), template(modelSources=sources))
    assert cluster.settle(TEMPLATES, "tpl").children == ()
    status = cluster.status(TEMPLATES, "tpl")
    assert status["modelSources"] == sources
    (found,) = [one for one in status["conditions"] if one["type"] == "Discovered"]
    assert found["message"] == "Model sources provided in-line in spec"
    assert "discovery" not in status


@pytest.mark.spec("AC-51", "DI-272", "DI-271")
def test_sources_keep_their_order() -> None:
    models = [{"name": f"a/{name}", "source": f"hf://a/{name}"} for name in "cab"]
    _, sources = profile_and_sources({"models": models}, None)
    assert [one["modelId"] for one in sources] == ["a/c", "a/a", "a/b"]
    assert not any("size" in one for one in sources)
    assert profile_and_sources({}, None)[1] == []


@pytest.mark.spec("DI-273")
@pytest.mark.parametrize("source", ["http://a/b", "hf:// a", ""])
def test_a_source_that_the_api_would_refuse_is_no_result(source: str) -> None:
    with pytest.raises(InvalidOutputError, match="source"):
        profile_and_sources({"models": [{"name": "a/b", "source": source}]}, None)


# Pause, deletion, events


@pytest.mark.spec("DI-008", "AC-73")
def test_a_paused_object_is_left_alone_whatever_happens() -> None:
    paused = {"aim.eai.amd.com/reconciliation-paused": "true"}
    own = {**template(hardware=MI300X), "status": {"status": "Failed"}}
    own["metadata"] = {**own["metadata"], "annotations": paused}
    cluster = discovery_cluster(own)
    for present in ((), (model(),), (model(), gpu_node("another"))):
        for obj in present:
            cluster.put(NODES if obj["kind"] == "Node" else MODELS, obj)
        plan = cluster.run(TEMPLATES, "tpl")
        assert (plan.status, plan.children, plan.deletes, plan.effects, plan.events) == (None, (), (), (), ())
    assert cluster.status(TEMPLATES, "tpl") == {"status": "Failed"}


@pytest.mark.spec("DI-009")
def test_what_is_being_deleted_is_left_alone() -> None:
    cluster = discovery_cluster()
    for part, obj in ((MODELS, model()), (CLUSTER_MODELS, cluster_model()), (TEMPLATES, template())):
        obj["metadata"] = {**obj["metadata"], "deletionTimestamp": timestamp(cluster.now), "finalizers": ["x/y"]}
        cluster.put(part, obj)
        plan = cluster.run(part, obj["metadata"]["name"])
        assert (plan.status, plan.children, plan.patches, plan.effects) == (None, (), (), ())


@pytest.mark.spec("DI-354", "DI-355")
def test_events_tell_what_became_of_a_template() -> None:
    cluster = discovery_cluster(model(), template(hardware={"gpu": {"requests": 1, "model": "MI355X"}}))
    reported = {(one.condition, one.type.value, one.reason) for one in cluster.run(TEMPLATES, "tpl").events}
    assert ("GPUReady", "Warning", "GPUNotAvailable") in reported
    assert ("ModelReady", "Normal", "ModelFound") in reported
    cluster.put(NODES, gpu_node("new", "75a3"))
    reported = {(one.condition, one.type.value, one.reason) for one in cluster.run(TEMPLATES, "tpl").events}
    assert ("GPUReady", "Normal", "GPUAvailable") in reported
    assert not any(name == "ModelReady" for name, _, _ in reported)


@pytest.mark.spec("DI-055", "DI-053", "DI-054", "DI-226")
def test_labels_of_a_template_go_to_its_job_and_pod() -> None:
    own = template()
    own["metadata"] = {**own["metadata"], "labels": {"aim.eai.amd.com/tier": "gold", "other": "x"}}
    (child,) = discovery_cluster(model(), own).run(TEMPLATES, "tpl").children
    assert child.owned
    for metadata in (child.body["metadata"], child.body["spec"]["template"]["metadata"]):
        assert metadata["labels"]["aim.eai.amd.com/tier"] == "gold"
        assert metadata["labels"]["aim.eai.amd.com/service-template.name"] == "tpl"
        assert "other" not in metadata["labels"]


@pytest.mark.spec("DI-211")
def test_a_job_of_somebody_else_is_not_taken_for_the_own_one() -> None:
    cluster = discovery_cluster(model(), template(), template("other"))
    (child,) = cluster.run(TEMPLATES, "tpl").children
    raw = cluster.raw(DISCOVERY_JOBS, child.name)
    stranger = owner(cluster.raw(TEMPLATES, "other"))
    cluster.put(DISCOVERY_JOBS, {**raw, "metadata": {**raw["metadata"], "ownerReferences": [stranger]}})
    assert cluster.failure(TEMPLATES, "tpl").reason == "AlreadyExists"
    assert "discoveryJob" not in cluster.status(TEMPLATES, "tpl")
