"""Discovery of templates when things go wrong: models, GPUs, Jobs, results, limits (sections 7 to 14)."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import condition, make, terminated, waiting
from support.deciding import decide
from support.discovery_cache import (
    MI300X,
    SYSTEM,
    DiscoveryCluster,
    cluster_model,
    cluster_template,
    discovery_cache,
    discovery_cluster,
    effect_of,
    gpu_node,
    model,
    template,
)

from aim_discovery.templates.attempts import backoff
from aim_discovery.templates.job_log import JOB_LOG
from aim_discovery.templates.slots import place
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, KAIWO_CONFIG
from aim_domain.parts import (
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    DISCOVERY_JOBS,
    DISCOVERY_PODS,
    KAIWO_CONFIGS,
    MODELS,
    NAMESPACES,
    NODES,
    TEMPLATES,
)
from aim_domain.pods.facts import POD_EVENTS, POD_LOG
from controller_runtime import Category, ClassifiedError, JsonObject, Key
from controller_runtime.kinds import EVENT
from controller_runtime.kinds import NAMESPACE as NAMESPACE_KIND
from controller_runtime.reconcile.child import same_status
from controller_runtime.testing import NOW

ELEMENT: JsonObject = {
    "profile": {"metadata": {"engine": "vllm", "gpu": "MI300X", "gpu_count": 1, "type": "tuned"}},
    "models": [{"name": "a/b", "source": "hf://a/b", "size_gb": 0.5}],
}


def started(**spec: Any) -> tuple[DiscoveryCluster, str]:
    """A template whose Job was just created."""
    cluster = discovery_cluster(model(), template(**spec))
    (child,) = cluster.run(TEMPLATES, "tpl").children
    cluster.settle(TEMPLATES, "tpl")
    return cluster, child.name


def discovered(**spec: Any) -> DiscoveryCluster:
    """A template that is ready."""
    cluster, job = started(**spec)
    cluster.end_job(job)
    cluster.answer(effect_of(cluster.run(TEMPLATES, "tpl"), JOB_LOG.name), {"element": ELEMENT})
    cluster.settle(TEMPLATES, "tpl")
    cluster.remove(DISCOVERY_JOBS, job)
    assert cluster.value(TEMPLATES, "tpl") == "Ready"
    return cluster


# Models


@pytest.mark.spec("DI-165", "DI-171", "AC-35")
def test_a_missing_model_fails_the_template_until_it_appears() -> None:
    cluster = discovery_cluster(template(hardware=MI300X))
    plan = cluster.run(TEMPLATES, "tpl")
    assert plan.children == ()
    assert cluster.value(TEMPLATES, "tpl") == "Failed"
    assert cluster.condition(TEMPLATES, "tpl", "ModelReady") == ("False", "ReferenceNotFound")
    assert cluster.condition(TEMPLATES, "tpl", "ConfigValid") == ("False", "ReferenceNotFound")
    cluster.put(MODELS, model())
    assert len(cluster.run(TEMPLATES, "tpl").children) == 1


@pytest.mark.spec("DI-162", "DI-163", "DI-168", "DI-172", "AC-34", "FW-361")
def test_a_namespaced_template_falls_back_to_the_cluster_model() -> None:
    cluster = discovery_cluster(cluster_model(), template(), cluster_template())
    cluster.settle(TEMPLATES, "tpl")
    cluster.settle(CLUSTER_TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "ModelReady") == ("True", "ClusterModelFound")
    assert cluster.condition(CLUSTER_TEMPLATES, "tpl", "ClusterModelReady") == ("True", "ClusterModelFound")
    assert cluster.status(TEMPLATES, "tpl")["resolvedModel"]["scope"] == "Cluster"


@pytest.mark.spec("DI-169", "DI-170", "DI-210")
@pytest.mark.parametrize(
    ("broken", "state", "jobs"),
    [("ImageMetadataReady", "Degraded", 0), ("ServiceTemplatesReady", "Pending", 1), ("ConfigValid", "Pending", 1)],
)
def test_only_a_models_own_trouble_holds_its_templates_back(broken: str, state: str, jobs: int) -> None:
    conditions = [condition(broken, False), condition("Ready", False)]
    cluster = discovery_cluster({**model(), "status": {"status": "Degraded", "conditions": conditions}}, template())
    assert len(cluster.run(TEMPLATES, "tpl").children) == jobs
    assert cluster.value(TEMPLATES, "tpl") == state


# GPUs


@pytest.mark.spec("DI-196", "DI-198", "DI-199", "DI-200")
def test_a_gpu_that_is_not_in_the_cluster_makes_the_template_not_available() -> None:
    cluster = discovery_cluster(model(), template(hardware={"gpu": {"requests": 1, "model": "MI355X"}}))
    assert cluster.run(TEMPLATES, "tpl").children == ()
    assert cluster.value(TEMPLATES, "tpl") == "NotAvailable"
    assert cluster.condition(TEMPLATES, "tpl", "GPUReady") == ("False", "GPUNotAvailable")
    cluster.put(NODES, gpu_node("new", "75a3"))
    assert len(cluster.run(TEMPLATES, "tpl").children) == 1


@pytest.mark.spec("DI-194", "DI-197", "DI-198", "DI-333", "DI-326", "DI-P16", "DI-P15")
def test_memory_is_checked_before_the_model() -> None:
    small = discovery_cluster(model(), template(hardware={"gpu": {"requests": 1, "minVram": "200Gi"}}))
    assert small.run(TEMPLATES, "tpl").children == ()
    assert small.condition(TEMPLATES, "tpl", "GPUReady") == ("False", "VRAMNotAvailable")
    enough = discovered(hardware={"gpu": {"requests": 1, "minVram": "150Gi"}})
    assert enough.condition(TEMPLATES, "tpl", "GPUReady") == ("True", "GPUAvailable")
    assert "model" not in enough.status(TEMPLATES, "tpl")["resolvedHardware"]["gpu"]
    assert "resolvedNodeAffinity" in enough.status(TEMPLATES, "tpl")


@pytest.mark.spec("DI-191", "DI-200", "AC-43", "DI-205", "DI-P19")
def test_a_discovered_gpu_counts_and_its_loss_does_not_repeat_discovery() -> None:
    cluster = discovered()
    cluster.remove(NODES, "gpu-1")
    plan = cluster.settle(TEMPLATES, "tpl")
    assert plan.children == ()
    assert cluster.value(TEMPLATES, "tpl") == "NotAvailable"
    cluster.put(NODES, gpu_node("gpu-2"))
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Ready"


@pytest.mark.spec("DI-193")
def test_unknown_nodes_degrade_a_template_that_needs_a_gpu() -> None:
    cluster = discovery_cluster(model(), template(hardware=MI300X), nodes=[])
    cluster.run(TEMPLATES, "tpl")
    cluster.make_stale(NODES)
    cluster.run(TEMPLATES, "tpl")
    cluster.later(10)
    cluster.run(TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "GPUReady") == ("False", "GPUCheckFailed")
    assert cluster.value(TEMPLATES, "tpl") == "Degraded"


# Jobs


@pytest.mark.spec("DI-208", "DI-226", "DI-235", "FW-365")
def test_the_job_of_a_cluster_template_runs_in_the_operator_namespace() -> None:
    env = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "t"}}}]
    cluster = discovery_cluster(cluster_model(), cluster_template(env=env))
    (child,) = cluster.run(CLUSTER_TEMPLATES, "tpl").children
    assert child.namespace == SYSTEM
    variable = child.body["spec"]["template"]["spec"]["containers"][0]["env"][-1]
    assert variable["valueFrom"]["secretKeyRef"] == {"name": "hf", "key": "t", "optional": True}


@pytest.mark.spec("DI-274", "DI-270", "DI-272", "DI-325", "DI-P20")
def test_what_the_api_does_not_know_is_left_out_of_the_profile() -> None:
    status = discovered().status(TEMPLATES, "tpl")
    assert status["profile"]["metadata"]["type"] == "unoptimized"
    assert status["modelSources"] == [{"modelId": "a/b", "sourceUri": "hf://a/b", "size": "512Mi"}]


@pytest.mark.spec("DI-213", "DI-217", "DI-222")
def test_changed_inputs_discover_again_and_keep_the_old_result_meanwhile() -> None:
    cluster = discovered()
    cluster.change(TEMPLATES, "tpl", spec={"modelName": "qwen", "profileId": "other"})
    (first,) = cluster.run(TEMPLATES, "tpl").children
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "Discovered") == ("False", "AwaitingDiscovery")
    assert cluster.value(TEMPLATES, "tpl") == "Progressing"
    assert cluster.status(TEMPLATES, "tpl")["modelSources"]
    cluster.change(TEMPLATES, "tpl", spec={"modelName": "qwen", "profileId": "third"})
    plan = cluster.run(TEMPLATES, "tpl")
    assert [delete.name for delete in plan.deletes] == [first.name]
    assert [child.name for child in plan.children] != [first.name]


@pytest.mark.spec(
    "DI-292",
    "DI-293",
    "DI-297",
    "DI-302",
    "DI-304",
    "DI-306",
    "DI-308",
    "DI-294",
    "AC-57",
    "DI-298",
    "DI-343",
    "DI-P04",
)
def test_a_failed_job_is_counted_once_and_tried_again_after_the_backoff() -> None:
    cluster, job = started()
    cluster.end_job(job, "Failed", "BackoffLimitExceeded")
    cluster.later(5)
    plan = cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Failed"
    assert cluster.condition(TEMPLATES, "tpl", "Discovered") == ("False", "DiscoveryFailed")
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryJobReady") == ("False", "JobBackoffLimitExceeded")
    state = cluster.status(TEMPLATES, "tpl")["discovery"]
    assert state["attempts"] == 1
    assert state["lastFailureReason"].startswith("JobBackoffLimitExceeded: ")
    assert plan.requeue_after == 60
    cluster.remove(DISCOVERY_JOBS, job)
    assert cluster.settle(TEMPLATES, "tpl").children == ()
    cluster.later(59)
    assert cluster.run(TEMPLATES, "tpl").requeue_after == 1
    cluster.later(1)
    (again,) = cluster.run(TEMPLATES, "tpl").children
    assert again.name == job
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Progressing"
    assert cluster.condition(TEMPLATES, "tpl", "Discovered") == ("False", "AwaitingDiscovery")
    assert cluster.status(TEMPLATES, "tpl")["discovery"]["attempts"] == 1
    cluster.end_job(job, "Failed", "BackoffLimitExceeded")
    cluster.later(5)
    assert cluster.settle(TEMPLATES, "tpl").requeue_after == 120


@pytest.mark.spec("DI-293", "FW-162")
def test_a_failed_job_counts_only_when_its_pod_had_time_to_say_why() -> None:
    cluster, job = started()
    cluster.end_job(job, "Failed", "BackoffLimitExceeded")
    plan = cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Progressing"
    assert "attempts" not in cluster.status(TEMPLATES, "tpl")["discovery"]
    assert plan.requeue_after == 5


@pytest.mark.spec("DI-297", "DI-299", "AC-55")
def test_the_backoff_doubles_to_an_hour_and_never_overflows() -> None:
    seconds = [backoff(attempts).total_seconds() for attempts in (-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 10**9)]
    assert seconds == [0, 0, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


@pytest.mark.spec("DI-303")
def test_a_failed_job_that_is_still_there_is_deleted_before_its_successor() -> None:
    cluster, job = started()
    cluster.end_job(job, "Failed", "DeadlineExceeded")
    cluster.later(5)
    cluster.settle(TEMPLATES, "tpl")
    cluster.later(60)
    plan = cluster.run(TEMPLATES, "tpl")
    assert [delete.name for delete in plan.deletes] == [job]
    assert plan.children == ()
    assert [child.name for child in cluster.run(TEMPLATES, "tpl").children] == [job]


@pytest.mark.spec("DI-301")
def test_corrected_inputs_are_tried_at_once() -> None:
    cluster, job = started()
    cluster.end_job(job, "Failed")
    cluster.settle(TEMPLATES, "tpl")
    cluster.change(TEMPLATES, "tpl", spec={"modelName": "qwen", "serviceAccountName": "puller"})
    (child,) = cluster.run(TEMPLATES, "tpl").children
    assert child.name != job


@pytest.mark.spec("DI-290", "FW-146", "DI-305", "DI-P09")
def test_the_log_of_a_failed_pod_decides_why_the_attempt_failed() -> None:
    cluster, job = started()
    cluster.put(DISCOVERY_PODS, cluster.job_pod(job, "Failed", terminated("discovery", 1)))
    cluster.end_job(job, "Failed", "BackoffLimitExceeded")
    plan = cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Progressing"
    cluster.answer(effect_of(plan, POD_LOG.name), {"tail": "Cannot access gated repo x"})
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Failed"
    assert cluster.condition(TEMPLATES, "tpl", "AuthValid") == ("False", "AuthError")
    assert cluster.status(TEMPLATES, "tpl")["discovery"]["lastFailureReason"].startswith("AuthError: ")
    cluster.remove(DISCOVERY_JOBS, job)
    cluster.later(60)
    assert len(cluster.run(TEMPLATES, "tpl").children) == 1, "an observed error blocks nothing"


@pytest.mark.spec("DI-288", "DI-P08")
def test_a_job_whose_pod_can_not_start_is_given_up_after_five_minutes() -> None:
    cluster, job = started()
    stuck = waiting("discovery", "ImagePullBackOff", "manifest unknown")
    cluster.put(DISCOVERY_PODS, cluster.job_pod(job, "Pending", stuck))
    plan = cluster.settle(TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryPodsReady") == ("False", "ImageNotFound")
    assert cluster.value(TEMPLATES, "tpl") == "Failed"
    assert plan.requeue_after == 30
    cluster.later(299)
    plan = cluster.run(TEMPLATES, "tpl")
    assert (plan.deletes, plan.requeue_after) == ((), 1)
    cluster.later(1)
    plan = cluster.run(TEMPLATES, "tpl")
    assert [delete.name for delete in plan.deletes] == [job]
    assert cluster.status(TEMPLATES, "tpl")["discovery"]["lastFailureReason"].startswith("ImageNotFound: ")


@pytest.mark.spec("DI-288", "DI-317")
def test_a_stuck_job_makes_room_sooner_for_those_who_wait() -> None:
    cluster = discovery_cluster(model(), template(), max_discovery_jobs=1)
    (job,) = cluster.run(TEMPLATES, "tpl").children
    cluster.settle(TEMPLATES, "tpl")
    stuck = waiting("discovery", "ImagePullBackOff", "unauthorized")
    cluster.put(DISCOVERY_PODS, cluster.job_pod(job.name, "Pending", stuck))
    cluster.settle(TEMPLATES, "tpl")
    cluster.put(TEMPLATES, template("healthy", profileId="other"))
    cluster.settle(TEMPLATES, "healthy")
    assert cluster.value(TEMPLATES, "healthy") == "Pending"
    cluster.later(29)
    assert cluster.run(TEMPLATES, "tpl").deletes == ()
    cluster.later(1)
    assert [delete.name for delete in cluster.run(TEMPLATES, "tpl").deletes] == [job.name]
    assert len(cluster.run(TEMPLATES, "healthy").children) == 1


@pytest.mark.spec("DI-286", "FW-155", "DI-285")
def test_the_events_of_a_pending_pod_say_what_it_waits_for() -> None:
    cluster, job = started()
    pending = cluster.job_pod(job, "Pending")
    cluster.put(DISCOVERY_PODS, pending)
    plan = cluster.settle(TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryPodsReady") is None, "most pods are not pending for long"
    assert (plan.requeue_after, plan.effects) == (2, ())
    cluster.later(2)
    effect = effect_of(cluster.settle(TEMPLATES, "tpl"), POD_EVENTS.name)
    assert effect.not_before == cluster.now
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryPodsReady") == ("False", "PodsPending")
    about = {"lastTimestamp": "2026-11-21T12:00:01Z", "involvedObject": {"uid": pending["metadata"]["uid"]}}
    cluster.answer(effect, {"events": [{**make(EVENT, "e"), "reason": "FailedMount", "message": "no", **about}]})
    plan = cluster.settle(TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryPodsReady") == ("False", "FailedMount")
    assert cluster.value(TEMPLATES, "tpl") == "Pending"
    assert effect_of(plan, POD_EVENTS.name).not_before == cluster.now + timedelta(seconds=10)


@pytest.mark.spec("DI-258", "DI-286", "FW-013")
def test_what_is_replaced_at_once_is_not_written() -> None:
    cluster, job = started()
    cluster.put(DISCOVERY_PODS, cluster.job_pod(job, "Pending"))
    cluster.settle(TEMPLATES, "tpl")
    running = cluster.status(TEMPLATES, "tpl")
    cluster.later(1)
    cluster.put(DISCOVERY_PODS, cluster.job_pod(job, "Running"))
    cluster.run(TEMPLATES, "tpl")
    assert same_status(cluster.status(TEMPLATES, "tpl"), running)
    cluster.end_job(job)
    plan = cluster.run(TEMPLATES, "tpl")
    assert (plan.status, plan.events) == (None, ())
    effect = effect_of(plan, JOB_LOG.name)
    cluster.answer(effect, failure=ClassifiedError(Category.INFRASTRUCTURE, "X", "no pod"))
    cluster.run(TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryJobReady") == ("False", "ReadingResult")


@pytest.mark.spec("DI-391")
def test_what_refuses_the_pod_of_a_discovery_is_quoted() -> None:
    cluster, job = started()
    assert cluster.settle(TEMPLATES, "tpl").requeue_after == 5
    cluster.later(5)
    effect = effect_of(cluster.settle(TEMPLATES, "tpl"), POD_EVENTS.name)
    about = {"lastTimestamp": "2026-11-21T12:00:01Z", "involvedObject": {"uid": cluster.uid(DISCOVERY_JOBS, job)}}
    words = "failed quota: team: must specify limits.cpu"
    refused = {**make(EVENT, "e"), "reason": "FailedCreate", "message": words, "type": "Warning", **about}
    cluster.answer(effect, {"events": [refused]})
    cluster.settle(TEMPLATES, "tpl")
    reported = {one["type"]: one["message"] for one in cluster.status(TEMPLATES, "tpl")["conditions"]}
    assert cluster.value(TEMPLATES, "tpl") == "Pending"
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryJobReady") == ("False", "FailedCreate")
    assert words in reported["DiscoveryJobReady"]
    assert words in reported["DiscoveryPodsReady"]


@pytest.mark.spec("DI-390")
@pytest.mark.parametrize("scoped", [True, False])
def test_discovery_runs_where_the_settings_and_the_gpu_taint_let_it(scoped: bool) -> None:
    cluster, before = started()
    tainted = make(KAIWO_CONFIG, "kaiwo", spec={"nodes": {"defaultGpuTaintKey": "amd.com/gpu"}})
    config = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"jobs": {"nodeSelector": {"pool": "cpu"}}})
    if scoped:
        cluster.put(KAIWO_CONFIGS, tainted)
    else:
        cluster.put(CLUSTER_RUNTIME_CONFIGS, config)
    plan = cluster.run(TEMPLATES, "tpl")
    assert [one.name for one in plan.deletes] == [before], "it may never start as it is"
    cluster.settle(TEMPLATES, "tpl")
    (job,) = [one for one in cluster.all(DISCOVERY_JOBS) if one["metadata"]["name"] != before]
    pod = job["spec"]["template"]["spec"]
    assert pod.get("tolerations") == ([{"key": "amd.com/gpu", "operator": "Exists"}] if scoped else None)
    assert pod.get("nodeSelector") == (None if scoped else {"pool": "cpu"})


@pytest.mark.spec("DI-258", "FW-163")
def test_the_result_is_read_when_the_pod_has_ended() -> None:
    cluster, job = started()
    cluster.put(DISCOVERY_PODS, cluster.job_pod(job, "Succeeded"))
    plan = cluster.run(TEMPLATES, "tpl")
    cluster.answer(effect_of(plan, JOB_LOG.name), {"element": ELEMENT})
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Ready"


@pytest.mark.spec("DI-292")
def test_the_status_of_another_job_is_replaced_before_its_result_is_read() -> None:
    cluster = discovery_cluster(model(), template())
    (child,) = cluster.run(TEMPLATES, "tpl").children
    cluster.end_job(child.name)
    effect = effect_of(cluster.run(TEMPLATES, "tpl"), JOB_LOG.name)
    assert effect.key == cluster.uid(DISCOVERY_JOBS, child.name)
    assert cluster.status(TEMPLATES, "tpl")["discoveryJob"]["name"] == child.name


# Results


@pytest.mark.spec("DI-280", "DI-295", "DI-273", "AC-60", "DI-P02")
@pytest.mark.parametrize(
    "outcome",
    [
        {"fault": "the array is empty"},
        {"element": {"models": [{"name": "no-slash", "source": "hf://a/b"}]}},
        {"element": {"profile": {"metadata": {"gpu_count": "many"}}}},
    ],
)
def test_unusable_output_is_a_failed_attempt(outcome: JsonObject) -> None:
    cluster, job = started()
    cluster.end_job(job)
    cluster.answer(effect_of(cluster.run(TEMPLATES, "tpl"), JOB_LOG.name), outcome)
    cluster.settle(TEMPLATES, "tpl")
    assert cluster.value(TEMPLATES, "tpl") == "Failed"
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryJobReady") == ("False", "InvalidDiscoveryOutput")
    assert cluster.condition(TEMPLATES, "tpl", "ConfigValid") == ("False", "InvalidSpec")
    assert cluster.status(TEMPLATES, "tpl")["discovery"]["attempts"] == 1


@pytest.mark.spec("DI-260", "DI-304")
def test_a_result_is_read_again_until_the_job_is_gone() -> None:
    cluster, job = started()
    cluster.end_job(job)
    failure = ClassifiedError(Category.INFRASTRUCTURE, "ResultUnreadable", "no succeeded pod")
    cluster.answer(effect_of(cluster.run(TEMPLATES, "tpl"), JOB_LOG.name), failure=failure)
    again = effect_of(cluster.settle(TEMPLATES, "tpl"), JOB_LOG.name)
    assert again.not_before == cluster.now + timedelta(seconds=5)
    cluster.remove(DISCOVERY_JOBS, job)
    cluster.run(TEMPLATES, "tpl")
    cluster.later(10)
    plan = cluster.settle(TEMPLATES, "tpl")
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryJobReady") == ("False", "ResultUnreadable")
    assert cluster.value(TEMPLATES, "tpl") == "Degraded"
    assert plan.requeue_after == 50
    assert plan.retry is None


# In-line templates


@pytest.mark.spec("DI-202", "DI-203", "DI-204", "DI-323", "DI-339", "DI-206")
def test_an_inline_template_needs_no_job() -> None:
    sources = [{"modelId": "a/b", "sourceUri": "hf://a/b", "env": [{"name": "X", "value": "1"}]}]
    cluster = discovery_cluster(model(), template(modelSources=sources, hardware=MI300X, type="preview"))
    plan = cluster.settle(TEMPLATES, "tpl")
    assert (plan.children, plan.effects) == ((), ())
    status = cluster.status(TEMPLATES, "tpl")
    assert status["modelSources"] == sources
    assert status["hardwareSummary"] == "1 x MI300X"
    assert status["profile"] == {"metadata": {"gpu": "MI300X", "gpuCount": 1, "type": "preview"}}
    assert cluster.value(TEMPLATES, "tpl") == "Ready"
    assert cluster.condition(TEMPLATES, "tpl", "Discovered") == ("True", "InlineModelSources")
    assert cluster.condition(TEMPLATES, "tpl", "DiscoveryJobReady") is None
    cluster.change(TEMPLATES, "tpl", spec={"modelName": "qwen", "hardware": MI300X})
    assert len(cluster.run(TEMPLATES, "tpl").children) == 1, "discovery runs once the sources are gone (DI-206)"


# The limit


@pytest.mark.spec("DI-309", "DI-310", "DI-311", "DI-317", "DI-318", "DI-319")
def test_free_slots_go_to_the_oldest_template_of_both_scopes() -> None:
    cluster = discovery_cluster(
        model(),
        cluster_model(),
        template("c-young", profileId="1"),
        template("b-old", profileId="2"),
        cluster_template("a-shared", profileId="3"),
        max_discovery_jobs=1,
    )
    plan = cluster.run(TEMPLATES, "c-young")
    assert plan.children == ()
    assert plan.requeue_after is None, "a free slot wakes it"
    assert cluster.value(TEMPLATES, "c-young") == "Pending"
    assert cluster.condition(TEMPLATES, "c-young", "DiscoveryJobReady") == ("False", "JobNotCreated")
    (child,) = cluster.run(CLUSTER_TEMPLATES, "a-shared").children
    assert child.quotas == (place(1),), "counted again where it is created"
    assert cluster.run(TEMPLATES, "b-old").children == ()
    cluster.settle(CLUSTER_TEMPLATES, "a-shared")
    cluster.end_job(child.name, "Failed", namespace=SYSTEM)
    cluster.settle(CLUSTER_TEMPLATES, "a-shared")
    assert len(cluster.run(TEMPLATES, "b-old").children) == 1
    assert cluster.run(TEMPLATES, "c-young").children == ()


@pytest.mark.spec("DI-010")
def test_nothing_is_created_in_a_namespace_that_is_gone() -> None:
    cluster = discovery_cache(model(), template())
    cluster.cache.absorb_deleted(NAMESPACES, Key("", "ml"), "namespace-ml-uid", 0.0)
    assert cluster.plan(TEMPLATES, "tpl").children == ()


@pytest.mark.spec("DI-309", "DI-311", "DI-318")
def test_passes_at_the_same_moment_do_not_exceed_the_limit() -> None:
    names = [f"t{number:02}" for number in range(25)]
    cluster = discovery_cluster(model(), *(template(name, profileId=name) for name in names))
    reconciler = next(one for one in cluster.definition.reconcilers if one.part is TEMPLATES)
    # None of the plans is carried out before the last is made, as if all workers had looked at once.
    objects = [cluster.object(TEMPLATES, "ml", name) for name in names]
    plans = {one.name: decide(reconciler, one, cluster.view(), cluster.now) for one in objects}
    assert [name for name, plan in plans.items() if plan.children] == names[:10]
    for name in names[:10]:
        cluster.run(TEMPLATES, name)
    assert not any(cluster.run(TEMPLATES, name).children for name in names)
    assert len(cluster.all(DISCOVERY_JOBS)) == 10


@pytest.mark.spec("DI-309", "DI-311", "DI-318")
def test_backoffs_that_end_together_do_not_exceed_the_limit() -> None:
    names = [f"t{number}" for number in range(4)]
    cluster = discovery_cluster(model(), *(template(name, profileId=name) for name in names), max_discovery_jobs=2)
    for name in names:
        (child,) = cluster.run(TEMPLATES, name).children
        cluster.settle(TEMPLATES, name)
        cluster.end_job(child.name, "Failed", "DeadlineExceeded")
        cluster.later(5)
        cluster.settle(TEMPLATES, name)
        cluster.remove(DISCOVERY_JOBS, child.name)
    cluster.put(TEMPLATES, template("young", profileId="young"))
    assert len(cluster.run(TEMPLATES, "young").children) == 1, "backoffs hold no place"
    cluster.later(60)
    reconciler = next(one for one in cluster.definition.reconcilers if one.part is TEMPLATES)
    objects = [cluster.object(TEMPLATES, "ml", name) for name in names]
    plans = {one.name: decide(reconciler, one, cluster.view(), cluster.now) for one in objects}
    assert [name for name, plan in plans.items() if plan.children] == names[:1]
    assert plans["t1"].requeue_after is None


@pytest.mark.spec("DI-010", "DI-318")
def test_a_template_in_a_namespace_that_goes_away_holds_no_place() -> None:
    stuck = make(NAMESPACE_KIND, "a-stuck", deleting=NOW)
    first = {**template("a-first"), "metadata": {**template("a-first")["metadata"], "namespace": "a-stuck"}}
    cluster = discovery_cache(stuck, cluster_model(), first, template("b-second"), max_discovery_jobs=1)
    assert cluster.plan(TEMPLATES, "a-first", "a-stuck").children == ()
    assert len(cluster.plan(TEMPLATES, "b-second").children) == 1
