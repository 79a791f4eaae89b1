"""Templates through models, jobs, failures and results: acceptance scenarios of sections 7 to 16."""

from typing import Any

import pytest
from support.builders import make, owner, terminated, waiting
from support.discovery_world import (
    MI300X,
    SYSTEM,
    DiscoveryWorld,
    cluster_model,
    cluster_template,
    discovery_world,
    effect_of,
    gpu_node,
    model,
    template,
)

from aim_discovery.effect_kinds import EffectKind
from aim_discovery.templates.attempts import Attempts
from aim_discovery.templates.output import InvalidOutputError, profile_and_sources
from aim_domain import AIMTemplateCache, DiscoveryState
from aim_domain.parts import (
    CLUSTER_MODELS,
    CLUSTER_TEMPLATES,
    CUSTOM_PROFILES,
    DISCOVERY_JOBS,
    DISCOVERY_PODS,
    MODELS,
    NODES,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from aim_domain.pods.facts import POD_LOG
from controller_runtime import AimError, Category, JsonObject, StatusValue, timestamp
from controller_runtime.kinds import JOB
from controller_runtime.reconcile.difference import same_status

ELEMENT: JsonObject = {
    "profile": {"metadata": {"engine": "vllm", "gpu": "MI300X", "gpu_count": 1, "type": "optimized"}},
    "models": [{"name": "a/b", "source": "hf://a/b", "size_gb": 0.5}],
}
SOURCES = [{"modelId": "a/b", "sourceUri": "hf://a/b"}]


def started(cluster: DiscoveryWorld | None = None, **spec: Any) -> tuple[DiscoveryWorld, str]:
    """A template whose Job was just created."""
    cluster = cluster or discovery_world(model(), template(**spec))
    (child,) = cluster.run(TEMPLATES, "tpl").children
    cluster.settle(TEMPLATES, "tpl")
    return cluster, child.name


def finish(cluster: DiscoveryWorld, job: str) -> None:
    """Let the Job print its profile, and vanish."""
    cluster.end_job(job)
    cluster.answer(effect_of(cluster.run(TEMPLATES, "tpl"), EffectKind.JOB_LOG), {"element": ELEMENT})
    cluster.settle(TEMPLATES, "tpl")
    cluster.remove(DISCOVERY_JOBS, job)
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Ready"


def fail(cluster: DiscoveryWorld, job: str) -> None:
    """Let the Job fail for good, and vanish."""
    cluster.end_job(job, "Failed", "DeadlineExceeded")
    cluster.later(5)
    cluster.settle(TEMPLATES, "tpl")
    cluster.remove(DISCOVERY_JOBS, job)
    cluster.settle(TEMPLATES, "tpl")


def new_jobs(cluster: DiscoveryWorld) -> list[str]:
    return [child.name for child in cluster.run(TEMPLATES, "tpl").children if child.part is DISCOVERY_JOBS]


# Models


@pytest.mark.spec("AC-33", "DI-167", "DI-168", "DI-169", "DI-170")
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
    conditions = [{"type": one, "status": "False", "reason": "X"} for one in types]
    given = {**(cluster_model() if shared else model()), "status": {"status": status, "conditions": conditions}}
    cluster = discovery_world(given, cluster_template() if shared else template())
    part = CLUSTER_TEMPLATES if shared else TEMPLATES
    cluster.run(part, "tpl")
    assert cluster.condition(part, "tpl", f"{prefix}ModelReady") == (value, f"{prefix}{reason}")
    if value == "False":
        assert cluster.value(part, "tpl") == status


@pytest.mark.spec("DI-167", "AC-33")
def test_a_model_without_an_image_is_of_no_use() -> None:
    cluster = discovery_world(model(image=""), template())
    assert cluster.run(TEMPLATES, "tpl").children == ()
    assert cluster.condition(TEMPLATES, "tpl", "ModelReady") == ("False", "ImageNotSpecified")
    assert cluster.value(TEMPLATES, "tpl") == "Failed"


@pytest.mark.spec("DI-166", "DI-172", "DI-305")
def test_a_model_that_can_not_be_looked_up_is_not_replaced_by_that_of_the_cluster() -> None:
    cluster = discovery_world(model(), cluster_model(), template())
    cluster.settle(TEMPLATES, "tpl")
    cluster.remove(MODELS, "qwen")
    cluster.world.make_stale(MODELS)
    for _ in range(2):
        assert cluster.run(TEMPLATES, "tpl").children == ()
        cluster.later(10)
    assert cluster.condition(TEMPLATES, "tpl", "ModelReady") == ("False", "ViewStale")
    assert cluster.value(TEMPLATES, "tpl") == "Degraded"
    assert cluster.status(TEMPLATES, "tpl")["resolvedModel"]["scope"] == "Namespace", "kept while it is not known"


@pytest.mark.spec("DI-164", "DI-217")
def test_a_model_of_the_namespace_takes_over_and_gives_back() -> None:
    cluster = discovery_world(cluster_model(image="a/shared:1"), template())
    _, job = started(cluster)
    finish(cluster, job)
    cluster.world.put(MODELS, model(image="a/local:1"))
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
    cluster = discovery_world(model(), template(hardware=MI300X))
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


@pytest.mark.spec("DI-342", "DI-343", "DI-173")
def test_a_template_has_these_conditions_and_no_others() -> None:
    cluster, job = started(hardware=MI300X, caching={"enabled": True})
    cluster.world.put(DISCOVERY_PODS, cluster.job_pod(job, "Running"))
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


@pytest.mark.spec("DI-211", "DI-212", "AC-64")
def test_namesakes_of_both_scopes_use_their_own_jobs() -> None:
    local = {**template(), "metadata": {**template()["metadata"], "namespace": SYSTEM}}
    cluster = discovery_world(cluster_model(), cluster_template(), local)
    jobs: dict[str, str] = {}
    for part in (TEMPLATES, CLUSTER_TEMPLATES):
        (child,) = cluster.run(part, "tpl", SYSTEM).children
        jobs[part.name] = child.name
        cluster.settle(part, "tpl", SYSTEM)
    # Equal inputs give equal names: the second template met the Job of the first, and does not take it for its own.
    assert len(set(jobs.values())) == 1
    cluster.end_job(jobs[TEMPLATES.name], namespace=SYSTEM)
    assert [one.kind for one in cluster.run(TEMPLATES, "tpl", SYSTEM).effects] == [EffectKind.JOB_LOG]
    assert cluster.run(CLUSTER_TEMPLATES, "tpl", SYSTEM).effects == ()


@pytest.mark.spec("DI-211", "DI-258", "DI-292", "AC-63")
def test_a_job_that_ended_while_nobody_looked_is_read_and_not_repeated() -> None:
    cluster = discovery_world(model(), template())
    (child,) = cluster.run(TEMPLATES, "tpl").children
    # The status of the pass that created the Job was lost with the process.
    cluster.change(TEMPLATES, "tpl", status={})
    cluster.end_job(child.name)
    plan = cluster.run(TEMPLATES, "tpl")
    assert plan.children == ()
    cluster.answer(effect_of(plan, EffectKind.JOB_LOG), {"element": ELEMENT})
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
    conditions = [{"type": "Discovered", "status": str(reason == "DiscoveryComplete"), "reason": reason}]
    left = {"status": "Ready", "profile": {"metadata": {"gpu": "MI300X"}}, "conditions": conditions}
    if reason == "AwaitingDiscovery":
        left["conditions"] = []
    cluster = discovery_world(model(), {**template(), "status": left})
    assert cluster.settle(TEMPLATES, "tpl").children == ()
    assert cluster.value(TEMPLATES, "tpl") == "Ready"
    assert cluster.condition(TEMPLATES, "tpl", "Discovered") == ("True", "DiscoveryComplete")


@pytest.mark.spec("AC-47", "DI-202", "DI-203")
def test_an_inline_template_says_where_its_sources_are_from() -> None:
    sources = [{"modelId": "amd/Llama-3.1-8B", "sourceUri": "hf://amd/Llama-3.1-8B", "size": "9094593249"}]
    cluster = discovery_world(model(), template(modelSources=sources))
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


# Failures


@pytest.mark.spec("DI-291", "DI-292", "DI-298")
def test_an_attempt_is_dated_by_its_job_and_its_wait_by_its_failure() -> None:
    cluster, job = started()
    created = timestamp(cluster.now)
    assert cluster.status(TEMPLATES, "tpl")["discovery"]["lastAttemptTime"] == created
    cluster.later(100)
    fail(cluster, job)
    assert cluster.status(TEMPLATES, "tpl")["discovery"]["lastAttemptTime"] == created
    cluster.later(59)
    assert new_jobs(cluster) == []
    cluster.later(1)
    assert new_jobs(cluster) == [job]


@pytest.mark.spec("AC-56", "DI-296", "DI-300", "DI-298")
def test_other_inputs_start_from_nothing() -> None:
    cluster, job = started()
    fail(cluster, job)
    cluster.later(30)
    assert new_jobs(cluster) == []
    cluster.change(TEMPLATES, "tpl", spec={"modelName": "qwen", "profileId": "other"})
    (again,) = new_jobs(cluster)
    assert again != job
    cluster.settle(TEMPLATES, "tpl")
    fail(cluster, again)
    assert cluster.status(TEMPLATES, "tpl")["discovery"]["attempts"] == 1


@pytest.mark.spec("DI-299", "DI-296")
def test_attempts_of_other_inputs_do_not_count() -> None:
    error = AimError(Category.INVALID_SPEC, "PodFailed", "no")
    state = DiscoveryState.model_validate({"attempts": 4, "specHash": "old"})
    now = make(JOB, "j")["metadata"]["creationTimestamp"]
    assert Attempts.of(None).due(None) is None
    at = Attempts.of(DiscoveryState.model_validate({"lastAttemptTime": now})).last
    assert at is not None
    assert Attempts.of(state).failed_with(error, "new", at).failed == 1
    assert Attempts.of(state).failed_with(error, "old", at).failed == 5


@pytest.mark.spec("AC-61", "DI-301")
def test_another_pull_secret_is_tried_at_once() -> None:
    cluster, job = started()
    fail(cluster, job)
    cluster.change(TEMPLATES, "tpl", spec={"modelName": "qwen", "imagePullSecrets": [{"name": "new"}]})
    (again,) = new_jobs(cluster)
    assert again != job


@pytest.mark.spec("DI-307")
def test_the_remaining_wait_is_no_reason_to_write() -> None:
    cluster, job = started()
    fail(cluster, job)
    before = cluster.status(TEMPLATES, "tpl")
    for _ in range(5):
        cluster.later(7)
        cluster.run(TEMPLATES, "tpl")
        assert same_status(cluster.status(TEMPLATES, "tpl"), before)


@pytest.mark.spec("AC-58", "DI-286")
@pytest.mark.parametrize(
    ("text", "reason", "parent", "value"),
    [
        ("unauthorized: no", "ImagePullAuthFailure", ("AuthValid", "AuthError"), "Failed"),
        ("manifest unknown", "ImageNotFound", ("ConfigValid", "ReferenceNotFound"), "Failed"),
        ("i/o timeout", "ImagePullBackOff", ("DependenciesReachable", "InfrastructureError"), "Degraded"),
    ],
)
def test_an_image_that_the_node_can_not_pull(text: str, reason: str, parent: tuple[str, str], value: str) -> None:
    cluster, job = started()
    pod = cluster.job_pod(job, "Pending", waiting("discovery", "ImagePullBackOff", text))
    cluster.world.put(DISCOVERY_PODS, pod)
    for _ in range(2):
        cluster.run(TEMPLATES, "tpl")
        cluster.later(10)
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryPodsReady") == ("False", reason)
    assert cluster.condition(TEMPLATES, "tpl", parent[0]) == ("False", parent[1])
    assert cluster.value(TEMPLATES, "tpl") == value


@pytest.mark.spec("DI-304", "DI-287", "AC-59", "DI-340")
@pytest.mark.parametrize(
    ("line", "reason", "value"),
    [
        ("Repository Not Found for url … 401", "SourceNotFound", "Failed"),
        ("Cannot access gated repo", "AuthError", "Failed"),
        ("No space left on device", "StorageFull", "Failed"),
        ("RBAC: clusterrole x not found", "PodInfrastructureError", "Degraded"),
        ("boom", "PodFailed", "Failed"),
    ],
)
def test_every_failure_is_tried_again_after_a_minute(line: str, reason: str, value: str) -> None:
    cluster, job = started()
    cluster.world.put(DISCOVERY_PODS, cluster.job_pod(job, "Failed", terminated("discovery", 1)))
    cluster.end_job(job, "Failed", "BackoffLimitExceeded")
    cluster.answer(effect_of(cluster.run(TEMPLATES, "tpl"), POD_LOG), {"tail": line})
    for _ in range(2):
        cluster.run(TEMPLATES, "tpl")
        cluster.later(10)
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == value
    failure = cluster.status(TEMPLATES, "tpl")["discovery"]["lastFailureReason"]
    assert failure.startswith(f"{reason}: ")
    assert line.split(" …", maxsplit=1)[0] in failure
    cluster.remove(DISCOVERY_JOBS, job)
    cluster.later(50)
    assert new_jobs(cluster) == [job]


@pytest.mark.spec("DI-320")
def test_without_a_count_no_job_is_created() -> None:
    cluster = discovery_world(model(), template())
    cluster.world.make_stale(DISCOVERY_JOBS)
    assert cluster.run(TEMPLATES, "tpl").children == ()


@pytest.mark.spec("DI-316", "DI-319", "DI-202")
def test_the_limit_concerns_only_those_who_need_a_job() -> None:
    cluster, job = started()
    finish(cluster, job)
    ended = {"conditions": [{"type": "Failed", "status": "True"}]}
    labels = {
        "app.kubernetes.io/name": "aim-discovery",
        "app.kubernetes.io/component": "discovery",
        "app.kubernetes.io/managed-by": "aim-controller",
    }
    for number in range(10):
        cluster.world.put(DISCOVERY_JOBS, make(JOB, f"busy-{number}", labels=labels))
        cluster.world.put(DISCOVERY_JOBS, make(JOB, f"ended-{number}", labels=labels, status=ended))
    cluster.world.put(TEMPLATES, template("inline", modelSources=SOURCES))
    for name in ("tpl", "inline"):
        cluster.settle(TEMPLATES, name)
        assert cluster.value(TEMPLATES, name) == "Ready"
    cluster.world.put(TEMPLATES, template("held", profileId="x"))
    plan = cluster.run(TEMPLATES, "held")
    assert (plan.children, plan.requeue_after) == ((), None)
    cluster.remove(DISCOVERY_JOBS, "busy-0")
    assert len(cluster.run(TEMPLATES, "held").children) == 1, "those that have ended hold no place"


# Custom profiles and caches


PROFILE: JsonObject = {
    "aimId": "meta-llama/Llama-3-8B",
    "modelId": "org/weights",
    "hardware": MI300X,
    "metric": "latency",
    "precision": "fp16",
}


@pytest.mark.spec("AC-67", "DI-243")
def test_an_empty_custom_profile_gives_empty_maps() -> None:
    cluster = discovery_world(model(), template(customProfile={}, **PROFILE))
    config_map = next(one for one in cluster.run(TEMPLATES, "tpl").children if one.part is CUSTOM_PROFILES)
    (text,) = config_map.body["data"].values()
    assert "engine_args: {}" in text
    assert "env_vars: {}" in text


@pytest.mark.spec("AC-68", "DI-241")
def test_engine_arguments_that_are_no_object_fail_the_template() -> None:
    cluster = discovery_world(model(), template(customProfile={"engineArgs": "not-an-object"}, **PROFILE))
    cluster.run(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Failed"
    assert cluster.condition(TEMPLATES, "tpl", "ConfigValid") == ("False", "InvalidSpec")


@pytest.mark.spec("AC-69", "DI-215", "DI-217", "DI-249")
def test_another_engine_argument_means_another_file_and_another_job() -> None:
    cluster = discovery_world(model(), template(customProfile={"engineArgs": {"a": 1}}, **PROFILE))
    first = {child.part.name: child for child in cluster.run(TEMPLATES, "tpl").children}
    cluster.change(TEMPLATES, "tpl", spec={"modelName": "qwen", **PROFILE, "customProfile": {"engineArgs": {"a": 2}}})
    plan = cluster.run(TEMPLATES, "tpl")
    second = {child.part.name: child for child in plan.children}
    files = [one[CUSTOM_PROFILES.name] for one in (first, second)]
    assert files[0].name == files[1].name
    assert files[0].body["data"] != files[1].body["data"]
    assert second[DISCOVERY_JOBS.name].name != first[DISCOVERY_JOBS.name].name
    assert [delete.name for delete in plan.deletes] == [first[DISCOVERY_JOBS.name].name]


@pytest.mark.spec("AC-70", "DI-344", "DI-346")
def test_a_cache_has_its_own_env_and_comes_after_discovery() -> None:
    env = [{"name": "HF_TOKEN", "value": "own"}]
    other = [{"name": "HF_TOKEN", "value": "of-template"}]
    inline = template("inline", modelSources=SOURCES, env=other, caching={"enabled": True, "env": env})
    off = template("off", modelSources=SOURCES, caching={"enabled": False})
    cluster = discovery_world(model(), template(caching={"enabled": True}), inline, off)
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
    cluster = discovery_world(model(), own)
    cluster.settle(TEMPLATES, "tpl")
    cache = cluster.raw(TEMPLATE_CACHES, "tpl")
    cluster.world.put(TEMPLATE_CACHES, {**cache, "status": {"status": "Failed"}})
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == StatusValue.READY


# Pause, deletion, events


@pytest.mark.spec("DI-008", "AC-73")
def test_a_paused_object_is_left_alone_whatever_happens() -> None:
    paused = {"aim.eai.amd.com/reconciliation-paused": "true"}
    own = {**template(hardware=MI300X), "status": {"status": "Failed"}}
    own["metadata"] = {**own["metadata"], "annotations": paused}
    cluster = discovery_world(own)
    for present in ((), (model(),), (model(), gpu_node("another"))):
        for obj in present:
            cluster.world.put(NODES if obj["kind"] == "Node" else MODELS, obj)
        plan = cluster.run(TEMPLATES, "tpl")
        assert (plan.status, plan.children, plan.deletes, plan.effects, plan.events) == (None, (), (), (), ())
    assert cluster.status(TEMPLATES, "tpl") == {"status": "Failed"}


@pytest.mark.spec("DI-009")
def test_what_is_being_deleted_is_left_alone() -> None:
    cluster = discovery_world()
    for part, obj in ((MODELS, model()), (CLUSTER_MODELS, cluster_model()), (TEMPLATES, template())):
        obj["metadata"] = {**obj["metadata"], "deletionTimestamp": timestamp(cluster.now), "finalizers": ["x/y"]}
        cluster.world.put(part, obj)
        plan = cluster.run(part, obj["metadata"]["name"])
        assert (plan.status, plan.children, plan.patches, plan.effects) == (None, (), (), ())


@pytest.mark.spec("DI-354", "DI-355")
def test_events_tell_what_became_of_a_template() -> None:
    cluster = discovery_world(model(), template(hardware={"gpu": {"requests": 1, "model": "MI355X"}}))
    told = {(one.condition, one.type.value, one.reason) for one in cluster.run(TEMPLATES, "tpl").events}
    assert ("GPUReady", "Warning", "GPUNotAvailable") in told
    assert ("ModelReady", "Normal", "ModelFound") in told
    cluster.world.put(NODES, gpu_node("new", "75a3"))
    told = {(one.condition, one.type.value, one.reason) for one in cluster.run(TEMPLATES, "tpl").events}
    assert ("GPUReady", "Normal", "GPUAvailable") in told
    assert not any(name == "ModelReady" for name, _, _ in told)


@pytest.mark.spec("DI-055", "DI-053", "DI-054", "DI-226")
def test_labels_of_a_template_go_to_its_job_and_pod() -> None:
    own = template()
    own["metadata"] = {**own["metadata"], "labels": {"aim.eai.amd.com/tier": "gold", "other": "x"}}
    (child,) = discovery_world(model(), own).run(TEMPLATES, "tpl").children
    assert child.owned
    for metadata in (child.body["metadata"], child.body["spec"]["template"]["metadata"]):
        assert metadata["labels"]["aim.eai.amd.com/tier"] == "gold"
        assert metadata["labels"]["aim.eai.amd.com/service-template.name"] == "tpl"
        assert "other" not in metadata["labels"]


@pytest.mark.spec("DI-211")
def test_a_job_of_somebody_else_is_not_taken_for_the_own_one() -> None:
    cluster = discovery_world(model(), template(), template("other"))
    (child,) = cluster.run(TEMPLATES, "tpl").children
    raw = cluster.raw(DISCOVERY_JOBS, child.name)
    stranger = owner(cluster.raw(TEMPLATES, "other"))
    cluster.world.put(DISCOVERY_JOBS, {**raw, "metadata": {**raw["metadata"], "ownerReferences": [stranger]}})
    cluster.run(TEMPLATES, "tpl")
    assert "discoveryJob" not in cluster.status(TEMPLATES, "tpl")
