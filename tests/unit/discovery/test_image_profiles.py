"""Reading the profiles of a model's image: Job, catalogue, profiles, and what is reported (docs/spec/profiles.md)."""

from typing import Any

import pytest
import yaml
from support import discovery_cache as made
from support.builders import make, owner, waiting
from support.discovery_cache import SYSTEM, DiscoveryCluster, discovery_cache, discovery_cluster, effect_of, gpu_node
from support.woken import woken

from aim_discovery.profiles.discovery import PROFILE_LOG
from aim_domain import labels
from aim_domain.kinds import AIM_PROFILE
from aim_domain.naming import catalogue_name, discovered_profile_name
from aim_domain.parts import (
    CLUSTER_MODELS,
    CLUSTER_PROFILES,
    DISCOVERY_JOBS,
    DISCOVERY_PODS,
    MODELS,
    NODES,
    PROFILE_CATALOGUES,
    PROFILE_SETS,
    PROFILES,
)
from aim_domain.pods.facts import POD_EVENTS
from controller_runtime import Category, ClassifiedError, JsonObject, Plan
from controller_runtime.kinds import EVENT

ASKED = {labels.ANNOTATION_PIPELINE: "profile"}
SOURCE = {"modelId": "org/model", "sourceUri": "hf://org/model"}


def file(gpu: str = "MI300X", **metadata: Any) -> str:
    own = {"engine": "vllm", "accelerator_model": gpu, "accelerator_count": 1, "type": "optimized", **metadata}
    return yaml.safe_dump({"model_id": "org/model", "metadata": own})


FILES = {"org/model/a.yaml": file(metric="latency"), "org/model/b.yaml": file("MI325X", metric="throughput")}
PRINTED = {"files": FILES, "aimId": "org/model", "baseImage": "x/base:1.2"}


KNOWN = {"model": {"canonicalName": "org/model"}}
"""What the image's labels say, so that no registry is asked."""


def model(name: str = "qwen", **spec: Any) -> JsonObject:
    return made.model(name, **{"imageMetadata": KNOWN, **spec})


def cluster_model(name: str = "qwen") -> JsonObject:
    return made.cluster_model(name, imageMetadata=KNOWN)


def asked(body: JsonObject, annotations: dict[str, str] | None = None) -> JsonObject:
    given = ASKED if annotations is None else annotations
    return {**body, "metadata": {**body["metadata"], "annotations": given}}


def jobs(plan: Plan) -> list[JsonObject]:
    return [one.body for one in plan.children if one.part is DISCOVERY_JOBS]


def said(cluster: DiscoveryCluster) -> tuple[str, str] | None:
    return cluster.condition(MODELS, "qwen", "ProfilesDiscovered")


def read(**values: Any) -> DiscoveryCluster:
    """A model whose image was read."""
    cluster = discovery_cluster(asked(model()), **values)
    cluster.settle(MODELS, "qwen")
    cluster.end_job(cluster.names(DISCOVERY_JOBS)[0])
    cluster.answer(effect_of(cluster.run(MODELS, "qwen"), PROFILE_LOG.name), PRINTED)
    cluster.settle(MODELS, "qwen")
    return cluster


@pytest.mark.spec("PR-002", "PR-090")
@pytest.mark.parametrize(
    ("enabled", "annotation", "spec", "wanted"),
    [
        (False, "", {}, False),
        (True, "", {}, True),
        (False, "profile", {}, True),
        (True, "template", {}, False),
        (True, "", {"discovery": {"extractMetadata": False, "createServiceTemplates": True}}, False),
        (True, "", {"modelSources": [SOURCE], "custom": {"hardware": {"gpu": {"requests": 1}}}}, False),
        (True, "", {"customTemplates": [{"name": "x", "type": "general"}]}, False),
    ],
)
def test_profiles_are_read_where_somebody_asks_for_them(
    enabled: bool, annotation: str, spec: dict[str, Any], wanted: bool
) -> None:
    body = asked(model(**spec), {labels.ANNOTATION_PIPELINE: annotation} if annotation else {})
    plan = discovery_cache(body, profiles_enabled=enabled).plan(MODELS, "qwen")
    assert bool(jobs(plan)) == wanted
    assert plan.status is not None
    assert any(one["type"] == "ProfilesDiscovered" for one in plan.status["conditions"]) == wanted


@pytest.mark.spec("PR-091")
def test_the_job_runs_a_shell_in_the_image_without_any_right() -> None:
    body = asked(model(imagePullSecrets=[{"name": "pull"}], serviceAccountName="runner"))
    (job,) = jobs(discovery_cache(body).plan(MODELS, "qwen"))
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][:2] == ["sh", "-c"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert (pod["restartPolicy"], pod["serviceAccountName"], pod["imagePullSecrets"]) == (
        "Never",
        "runner",
        [{"name": "pull"}],
    )
    assert (job["spec"]["backoffLimit"], job["spec"]["ttlSecondsAfterFinished"]) == (0, 300)
    assert job["metadata"]["name"].startswith("aim-disc-m-qwen-")
    (other,) = jobs(discovery_cache(asked(model(serviceAccountName="x"))).plan(MODELS, "qwen"))
    assert other["metadata"]["name"] != job["metadata"]["name"]
    (shared,) = jobs(discovery_cache(asked(cluster_model())).plan(CLUSTER_MODELS, "qwen", ""))
    assert shared["metadata"]["name"].startswith("aim-disc-cm-qwen-")
    assert shared["metadata"]["namespace"] == SYSTEM


@pytest.mark.spec("PR-091")
def test_the_limit_on_discovery_jobs_counts_all_of_them() -> None:
    other = asked(model("other"))
    cluster = discovery_cluster(other, asked(model()), max_discovery_jobs=1)
    cluster.settle(MODELS, "other")
    cluster.settle(MODELS, "qwen")
    assert said(cluster) == ("False", "DiscoveryCapReached")
    assert len(cluster.names(DISCOVERY_JOBS)) == 1
    (job,) = cluster.all(DISCOVERY_JOBS)
    cluster.end_job(job["metadata"]["name"])
    (ended,) = cluster.all(DISCOVERY_JOBS)
    waiting = discovery_cache(cluster.raw(MODELS, "qwen"), job, max_discovery_jobs=1)
    assert woken(waiting.definition, waiting, DISCOVERY_JOBS, job, ended) == {"model:ml/qwen"}
    cluster.settle(MODELS, "qwen")
    assert len(cluster.names(DISCOVERY_JOBS)) == 2


@pytest.mark.spec("PR-094", "PR-095", "PR-097", "PR-098")
def test_what_was_read_is_kept_and_becomes_profiles_of_the_nodes() -> None:
    cluster = read()
    kept = cluster.raw(PROFILE_CATALOGUES, catalogue_name("qwen"))
    assert set(kept["data"]) == {"metadata.json", "profiles.org__model__a.yaml", "profiles.org__model__b.yaml"}
    assert cluster.names(PROFILES) == [discovered_profile_name("qwen", "a")]
    (found,) = cluster.all(PROFILES)
    assert found["metadata"]["ownerReferences"][0]["kind"] == "AIMModel"
    assert found["metadata"]["annotations"][labels.ANNOTATION_COPYABLE] == "true"
    assert found["metadata"]["annotations"][labels.ANNOTATION_BASE_IMAGE] == "x/base:1.2"
    assert found["spec"]["modelSources"] == [SOURCE]
    status = cluster.status(MODELS, "qwen")
    assert said(cluster) == ("True", "DiscoverySucceeded")
    assert status["discoveredProfiles"] == {
        "total": 2,
        "supported": 1,
        "unsupported": 1,
        "byHardware": [
            {
                "acceleratorType": "gpu",
                "acceleratorModel": "MI300X",
                "acceleratorCount": 1,
                "supported": True,
                "profiles": [{"metric": "latency"}],
            },
            {
                "acceleratorType": "gpu",
                "acceleratorModel": "MI325X",
                "acceleratorCount": 1,
                "supported": False,
                "profiles": [{"metric": "throughput"}],
            },
        ],
    }
    assert (status["aimId"], status["baseImage"], status["version"]) == ("org/model", "x/base:1.2", "0.8.5")
    assert status["managedProfiles"]["total"] == 1
    assert status["discoveryCacheRef"]["name"] == catalogue_name("qwen")
    before = cluster.written()
    cluster.later(3600)
    cluster.settle(MODELS, "qwen")
    assert cluster.written() == before, "the catalogue needs no Job"


@pytest.mark.spec("PR-096")
def test_a_node_that_comes_brings_its_profile_and_one_that_goes_takes_none() -> None:
    cluster = read()
    cluster.put(NODES, gpu_node("new", "74a5"))
    cluster.settle(MODELS, "qwen")
    assert len(cluster.names(PROFILES)) == 2
    cluster.remove(NODES, "new", "")
    cluster.remove(NODES, "gpu-1", "")
    cluster.settle(MODELS, "qwen")
    assert len(cluster.names(PROFILES)) == 2
    assert cluster.status(MODELS, "qwen")["discoveredProfiles"]["supported"] == 0
    changed = {**cluster.all(PROFILES)[0]["spec"], "engine": "x"}
    cluster.change(PROFILES, discovered_profile_name("qwen", "a"), spec=changed)
    cluster.settle(MODELS, "qwen")
    assert cluster.all(PROFILES)[0]["spec"]["engine"] == "vllm", "it is kept up, too"
    kept = cluster.raw(PROFILE_CATALOGUES, catalogue_name("qwen"))
    only = {key: text for key, text in kept["data"].items() if not key.endswith("b.yaml")}
    cluster.put(PROFILE_CATALOGUES, {**kept, "data": only})
    cluster.settle(MODELS, "qwen")
    assert cluster.names(PROFILES) == [discovered_profile_name("qwen", "a")], "the image has no other any longer"


@pytest.mark.spec("PR-092", "PR-097")
def test_a_failed_job_is_tried_again_with_growing_waits_and_the_model_is_as_before() -> None:
    cluster = discovery_cluster(asked(model(discovery={"extractMetadata": True, "createServiceTemplates": False})))
    cluster.settle(MODELS, "qwen")
    waits = []
    for attempt in (1, 2):
        (name,) = cluster.names(DISCOVERY_JOBS)
        first = cluster.uid(DISCOVERY_JOBS, name)
        cluster.end_job(name, "Failed", "DeadlineExceeded")
        plan = cluster.settle(MODELS, "qwen")
        assert said(cluster) == ("False", "DiscoveryInProgress"), "its pod may still say why"
        cluster.later(plan.requeue_after or 0)
        plan = cluster.settle(MODELS, "qwen")
        assert said(cluster) == ("False", "DiscoveryFailed")
        assert cluster.status(MODELS, "qwen")["discovery"]["attempts"] == attempt
        waits.append(plan.requeue_after)
        cluster.later(plan.requeue_after or 0)
        cluster.settle(MODELS, "qwen")
        (again,) = cluster.names(DISCOVERY_JOBS)
        assert cluster.uid(DISCOVERY_JOBS, again) != first
    assert waits[0] is not None
    assert waits[1] is not None
    assert 50 < waits[0] <= 60
    assert 100 < waits[1] <= 120
    name = cluster.names(DISCOVERY_JOBS)[0]
    cluster.end_job(name)
    cluster.answer(effect_of(cluster.run(MODELS, "qwen"), PROFILE_LOG.name), {"fault": "nothing of it"})
    cluster.settle(MODELS, "qwen")
    assert "LogParseFailed" in cluster.status(MODELS, "qwen")["discovery"]["lastFailureReason"]


def words(cluster: DiscoveryCluster) -> str:
    found = cluster.status(MODELS, "qwen")["conditions"]
    return str(next(one["message"] for one in found if one["type"] == "ProfilesDiscovered"))


@pytest.mark.spec("PR-092", "DI-288", "DI-P08")
def test_a_job_whose_pod_cannot_start_gives_its_place_away() -> None:
    cluster = discovery_cluster(asked(model(discovery={"extractMetadata": True, "createServiceTemplates": False})))
    cluster.settle(MODELS, "qwen")
    (name,) = cluster.names(DISCOVERY_JOBS)
    stuck = waiting("discovery", "ImagePullBackOff", "unauthorized")
    cluster.put(DISCOVERY_PODS, cluster.job_pod(name, "Pending", stuck))
    plan = cluster.settle(MODELS, "qwen")
    assert said(cluster) == ("False", "DiscoveryInProgress")
    assert "unauthorized" in words(cluster)
    assert plan.requeue_after == 30
    cluster.later(30)
    job = cluster.raw(DISCOVERY_JOBS, name)
    failed = cluster.run(MODELS, "qwen")
    assert [(one.part, one.name) for one in failed.deletes] == [(DISCOVERY_JOBS, name)]
    assert said(cluster) == ("False", "DiscoveryFailed")
    assert "ImagePullAuthFailure" in cluster.status(MODELS, "qwen")["discovery"]["lastFailureReason"]
    again = discovery_cache(cluster.raw(MODELS, "qwen"), job).plan(MODELS, "qwen")
    assert [one.name for one in again.deletes] == [name], "a deletion that was lost is repeated"
    cluster.settle(MODELS, "qwen")
    assert cluster.names(DISCOVERY_JOBS) == [], "the next attempt is not due"
    cluster.later(60)
    cluster.settle(MODELS, "qwen")
    assert cluster.names(DISCOVERY_JOBS) == [name]


@pytest.mark.spec("PR-092", "DI-391")
def test_what_refuses_the_pod_of_a_job_is_quoted() -> None:
    cluster = discovery_cluster(asked(model(discovery={"extractMetadata": True, "createServiceTemplates": False})))
    assert cluster.settle(MODELS, "qwen").requeue_after == 5
    cluster.later(5)
    effect = effect_of(cluster.settle(MODELS, "qwen"), POD_EVENTS.name)
    (name,) = cluster.names(DISCOVERY_JOBS)
    about = {"lastTimestamp": "2026-11-21T12:00:01Z", "involvedObject": {"uid": cluster.uid(DISCOVERY_JOBS, name)}}
    quota = "failed quota: team: must specify limits.cpu"
    refused = {**make(EVENT, "e"), "reason": "FailedCreate", "message": quota, "type": "Warning", **about}
    cluster.answer(effect, {"events": [refused]})
    cluster.settle(MODELS, "qwen")
    assert quota in words(cluster)


@pytest.mark.spec("PR-094")
def test_a_result_that_cannot_be_read_now_is_read_again_a_moment_later() -> None:
    cluster = discovery_cluster(asked(model()))
    cluster.settle(MODELS, "qwen")
    cluster.end_job(cluster.names(DISCOVERY_JOBS)[0])
    effect = effect_of(cluster.run(MODELS, "qwen"), PROFILE_LOG.name)
    cluster.answer(effect, failure=ClassifiedError(Category.INFRASTRUCTURE, "ResultUnreadable", "no pod"))
    again = effect_of(cluster.run(MODELS, "qwen"), PROFILE_LOG.name)
    assert again.not_before is not None
    assert said(cluster) == ("False", "DiscoveryInProgress")
    cluster.answer(again, PRINTED)
    cluster.settle(MODELS, "qwen")
    assert said(cluster) == ("True", "DiscoverySucceeded")


@pytest.mark.spec("PR-091")
def test_another_image_is_read_again_and_until_then_its_former_profiles_stay() -> None:
    cluster = read()
    cluster.change(MODELS, "qwen", spec={"image": "amdenterpriseai/aim-qwen-qwen3-32b:0.9.0"})
    cluster.settle(MODELS, "qwen")
    assert said(cluster) == ("False", "DiscoveryStarted") or said(cluster) == ("False", "DiscoveryInProgress")
    assert len(cluster.names(PROFILES)) == 1
    assert cluster.status(MODELS, "qwen")["discoveredProfiles"]["total"] == 2


@pytest.mark.spec("PR-095")
@pytest.mark.parametrize(
    ("metadata", "deployment", "primary"),
    [
        ({"primary": False}, {"profileId": "a"}, False),
        ({}, {"profileId": "A"}, True),
        ({}, {"profileId": "b"}, False),
        ({"metric": "latency"}, {"gpuModel": "MI300X", "gpuCount": 1, "metric": "Latency"}, True),
        ({"metric": "latency"}, {"gpuModel": "MI300X", "metric": "throughput"}, False),
        ({}, {"description": "nothing else"}, False),
    ],
)
def test_the_primary_profile_is_the_files_or_the_recommended_one(
    metadata: dict[str, Any], deployment: JsonObject, primary: bool
) -> None:
    own = model(imageMetadata={"model": {"canonicalName": "org/model", "recommendedDeployments": [deployment]}})
    cluster = discovery_cluster(asked(own))
    cluster.settle(MODELS, "qwen")
    job = next(name for name in cluster.names(DISCOVERY_JOBS) if name.startswith("aim-disc-m-"))
    cluster.end_job(job)
    printed = {**PRINTED, "files": {"org/model/a.yaml": file(**metadata)}}
    cluster.answer(effect_of(cluster.run(MODELS, "qwen"), PROFILE_LOG.name), printed)
    cluster.settle(MODELS, "qwen")
    cluster.settle(MODELS, "qwen")
    (found,) = cluster.all(PROFILES)
    assert found["spec"]["primary"] == primary


@pytest.mark.spec("PR-115", "PR-117")
def test_a_model_that_is_derived_has_a_set_and_repeats_its_counts() -> None:
    derivation = {"derivedFrom": {"selector": {"aimId": "a"}}, "versionPolicy": "all"}
    body = make(AIM_PROFILE, "member", spec={"image": "a/b:1"})
    tuned = {**model("tuned"), "spec": {"profiles": derivation}}
    cluster = discovery_cluster(tuned)
    cluster.settle(MODELS, "tuned")
    (child,) = cluster.all(PROFILE_SETS)
    assert child["spec"] == {"selector": {"aimId": "a"}, "versionPolicy": "all"}
    assert cluster.status(MODELS, "tuned")["profileSetRef"]["name"] == child["metadata"]["name"]
    assert cluster.names(DISCOVERY_JOBS) == []
    cluster.add(
        {**body, "metadata": {**body["metadata"], "ownerReferences": [owner(child)]}, "status": {"status": "Ready"}}
    )
    cluster.settle(MODELS, "tuned")
    status = cluster.status(MODELS, "tuned")
    assert (status["status"], status["managedProfiles"]["total"], status["managedProfiles"]["base"]) == ("Ready", 1, 1)
    assert cluster.condition(MODELS, "tuned", "ManagedProfilesReady") == ("True", "ManagedProfilesReady")
    assert cluster.condition(MODELS, "tuned", "ServiceTemplatesReady") is None


@pytest.mark.spec("PR-090", "PR-095")
def test_profiles_of_a_cluster_model_are_of_the_cluster() -> None:
    cluster = discovery_cluster(asked(cluster_model()))
    cluster.settle(CLUSTER_MODELS, "qwen")
    job = next(name for name in cluster.names(DISCOVERY_JOBS) if name.startswith("aim-disc-cm-"))
    cluster.end_job(job, namespace=SYSTEM)
    cluster.answer(effect_of(cluster.run(CLUSTER_MODELS, "qwen"), PROFILE_LOG.name), PRINTED)
    cluster.settle(CLUSTER_MODELS, "qwen")
    cluster.settle(CLUSTER_MODELS, "qwen")
    assert cluster.names(CLUSTER_PROFILES) == [discovered_profile_name("qwen", "a")]
    assert cluster.raw(PROFILE_CATALOGUES, catalogue_name("qwen"), SYSTEM)
