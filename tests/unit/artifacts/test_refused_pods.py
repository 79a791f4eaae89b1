"""Pods and volumes that something refuses before they exist, and the settings with which they are admitted."""

from datetime import timedelta

import pytest
from support.artifacts import TEAM, URI, Cluster, artifact, conditions_of, message_of
from support.builders import make

from aim_artifacts.cache_reconcile import IndexedSource, Match, artifacts_component
from aim_artifacts.download_account import DownloadAccount
from aim_artifacts.jobs import build_check_size_job, build_download_job
from aim_artifacts.settings import ArtifactsSettings
from aim_domain import AIMArtifact, ModelSource, RuntimeConfigSpec, merge_env
from aim_domain.kinds import AIM_RUNTIME_CONFIG, KAIWO_CONFIG
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_JOBS, ARTIFACT_PODS, ARTIFACTS, KAIWO_CONFIGS, RUNTIME_CONFIGS
from aim_domain.pods.facts import POD_EVENTS
from aim_domain.pods.inspect_pvcs import words_of
from aim_domain.runtimeconfig.merge import merge_specs
from controller_runtime import Effect, JsonObject, Plan, State, timestamp
from controller_runtime.core import Event, PersistentVolumeClaim
from controller_runtime.kinds import EVENT, PERSISTENT_VOLUME_CLAIM

QUOTA = 'Error creating: pods "qwen-download-abcde" is forbidden: failed quota: team: must specify limits.cpu'
NO_CLASS = 'storageclass.storage.k8s.io "fast-typo" not found'
NO_RWX = 'failed to provision volume with StorageClass "local-path": NodePath only supports ReadWriteOnce access modes'


def reported(cluster: Cluster, about: JsonObject, reason: str, message: str, type_: str = "Warning") -> JsonObject:
    """An Event of this moment about an object."""
    meta = about["metadata"]
    whom = {"uid": meta["uid"], "name": meta["name"], "kind": about["kind"]}
    times = {"lastTimestamp": timestamp(cluster.now)}
    return {**make(EVENT, f"e-{reason}".lower()), "reason": reason, "message": message, "type": type_,
            "involvedObject": whom, **times}  # fmt: skip


def reading_about(plan: Plan, obj: JsonObject) -> Effect:
    """The reading of an object's Events that a pass asks for."""
    return next(
        one for one in plan.effects if one.kind == POD_EVENTS.name and one.params["uid"] == obj["metadata"]["uid"]
    )


def after(cluster: Cluster, obj: JsonObject, *events: JsonObject) -> Plan:
    """The pass after the Events about an object were read."""
    plan = cluster.settle(ARTIFACTS, "qwen")
    cluster.answer(reading_about(plan, obj), {"events": list(events)})
    return cluster.settle(ARTIFACTS, "qwen")


def downloading() -> tuple[Cluster, JsonObject]:
    """An artifact whose download Job has been there for six seconds."""
    cluster = Cluster(artifact(spec={"size": "1Gi"}))
    cluster.settle(ARTIFACTS, "qwen")
    cluster.later(6)
    return cluster, cluster.only(ARTIFACT_JOBS)


@pytest.mark.spec("AR-844")
@pytest.mark.parametrize("spec", [{"size": "1Gi"}, {}])
def test_what_refuses_the_pod_of_a_job_is_quoted_and_nothing_is_said_to_run(spec: JsonObject) -> None:
    cluster = Cluster(artifact(spec=spec))
    cluster.settle(ARTIFACTS, "qwen")
    cluster.later(6)
    job = cluster.only(ARTIFACT_JOBS)
    plan = after(cluster, job, reported(cluster, job, "FailedCreate", QUOTA))
    words = [one["message"] for one in cluster.status(ARTIFACTS, "qwen")["conditions"]]
    quoted = [text for text in words if "failed quota: team: must specify limits.cpu" in text]
    assert len(quoted) >= 3, "the Job, its pods and Ready"
    assert all(job["metadata"]["name"] in text for text in quoted)
    assert not [text for text in words if "is running" in text or "being downloaded" in text]
    assert cluster.value(ARTIFACTS, "qwen") == "Pending"
    assert reading_about(plan, job).not_before == cluster.now + timedelta(seconds=10)


@pytest.mark.spec("AR-844")
def test_a_refusal_is_over_when_a_pod_is_made() -> None:
    cluster, job = downloading()
    refused = reported(cluster, job, "FailedCreate", QUOTA)
    cluster.later(1)
    plan = after(cluster, job, refused, reported(cluster, job, "SuccessfulCreate", "Created pod", "Normal"))
    assert conditions_of(plan)["DownloadJobReady"] == ("False", "JobRunning")
    assert "waits for its pod to start" in message_of(plan, "DownloadJobReady")
    cluster.start_pod()
    plan = cluster.settle(ARTIFACTS, "qwen")
    assert message_of(plan, "DownloadComplete") == "Files are being downloaded"
    assert not [one for one in plan.effects if one.params.get("uid") == job["metadata"]["uid"]]


@pytest.mark.spec("AR-844")
@pytest.mark.parametrize(
    ("message", "words"),
    [
        ('(combined from similar events): Error: pods "a-x1y2z" is forbidden', 'Error: pods "a" is forbidden'),
        ('pods "a-x1y2z" is forbidden', 'pods "a" is forbidden'),
        ('pods "abc" is forbidden', 'pods "abc" is forbidden'),
        ('admission webhook "w" denied the request: no', 'admission webhook "w" denied the request: no'),
        ('pods "', 'pods "'),
    ],
)  # fmt: skip
def test_what_differs_from_attempt_to_attempt_is_left_out(message: str, words: str) -> None:
    assert words_of(Event.model_validate({**make(EVENT, "e"), "message": message})) == words


@pytest.mark.spec("AR-845")
@pytest.mark.parametrize("words", [NO_CLASS, NO_RWX])
def test_why_a_claim_has_no_volume_is_said_in_the_words_of_the_provisioner(words: str) -> None:
    cluster, _ = downloading()
    claim = cluster.only(ARTIFACT_CLAIMS)
    plan = after(cluster, claim, reported(cluster, claim, "ProvisioningFailed", words))
    assert conditions_of(plan)["CachePvcReady"] == ("False", "ProvisioningFailed")
    said = message_of(plan, "CachePvcReady")
    assert words in said
    assert "ReadWriteMany" in said
    assert "storage class" in said
    cluster.bind_claim()
    assert conditions_of(cluster.settle(ARTIFACTS, "qwen"))["CachePvcReady"][0] == "True"


def jobs_with(config: JsonObject, gpu_taint: str = "") -> list[JsonObject]:
    """Both Jobs of an artifact."""
    spec, settings = RuntimeConfigSpec.model_validate(config), ArtifactsSettings()
    own = AIMArtifact.model_validate(artifact(spec={"imagePullSecrets": [{"name": "own"}]}))
    claim = PersistentVolumeClaim.model_validate(make(PERSISTENT_VOLUME_CLAIM, "c"))
    download = build_download_job(own, spec, settings, claim, 1, account=DownloadAccount(), gpu_taint=gpu_taint)
    return [download.body, build_check_size_job(own, spec, settings, gpu_taint=gpu_taint).body]


@pytest.mark.spec("AR-840")
def test_jobs_name_requests_and_limits_so_that_a_quota_admits_them() -> None:
    for job in jobs_with({}):
        resources = job["spec"]["template"]["spec"]["containers"][0]["resources"]
        assert all(set(resources[side]) == {"cpu", "memory"} for side in ("requests", "limits"))


@pytest.mark.spec("AR-840", "CC-352")
def test_a_default_moves_to_what_the_setting_says() -> None:
    given = {"limits": {"memory": "512Mi", "ephemeral-storage": "1Gi"}, "requests": {"cpu": "16"}}
    download, _ = jobs_with({"jobs": {"resources": given}})
    resources = download["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources == {
        "requests": {"cpu": "16", "memory": "512Mi"},
        "limits": {"cpu": "16", "memory": "512Mi", "ephemeral-storage": "1Gi"},
    }


@pytest.mark.spec("AR-841", "AR-842", "CC-350", "CC-352")
def test_jobs_have_everything_that_the_settings_say_of_pods() -> None:
    toleration = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
    settings = {
        "tolerations": [toleration],
        "nodeSelector": {"pool": "cpu"},
        "priorityClassName": "low",
        "serviceAccountName": "jobs",
        "imagePullSecrets": [{"name": "own"}, {"name": "added"}],
        "annotations": {"sidecar.istio.io/inject": "false"},
        "securityContext": {"runAsUser": None, "fsGroup": 7},
    }
    download, check = jobs_with({"jobs": settings}, gpu_taint="amd.com/gpu")
    for job in (download, check):
        template = job["spec"]["template"]
        pod = template["spec"]
        assert pod["tolerations"] == [toleration, {"key": "amd.com/gpu", "operator": "Exists"}]
        assert pod["nodeSelector"] == {"pool": "cpu"}
        assert pod["priorityClassName"] == "low"
        assert pod["imagePullSecrets"] == [{"name": "own"}, {"name": "added"}]
        assert template["metadata"]["annotations"] == {"sidecar.istio.io/inject": "false"}
        assert pod["securityContext"]["fsGroup"] == 7
        assert "runAsUser" not in {**pod["securityContext"], **pod["containers"][0]["securityContext"]}
    accounts = [job["spec"]["template"]["spec"]["serviceAccountName"] for job in (download, check)]
    assert accounts == [ArtifactsSettings().artifact_service_account, "jobs"], "downloads report as their own account"


@pytest.mark.spec("CC-351")
def test_settings_of_a_namespace_are_merged_into_those_of_the_cluster() -> None:
    cluster = RuntimeConfigSpec.model_validate(
        {"jobs": {"resources": {"limits": {"cpu": "1"}}, "nodeSelector": {"a": "1"}, "tolerations": [{"key": "x"}]}}
    )
    local = RuntimeConfigSpec.model_validate(
        {
            "jobs": {
                "resources": {"limits": {"memory": "1Gi"}},
                "nodeSelector": {"b": "2"},
                "tolerations": [{"key": "y"}],
            }
        }
    )
    merged = merge_specs(cluster, None, local).jobs
    assert merged is not None
    assert merged.resources is not None
    assert merged.resources.limits == {"cpu": "1", "memory": "1Gi"}
    assert merged.node_selector == {"a": "1", "b": "2"}
    assert [one.key for one in merged.tolerations] == ["y"]
    assert merge_env(cluster.env, local.env) == ()


@pytest.mark.spec("AR-842", "AR-843")
def test_a_job_that_has_not_started_gets_the_settings_that_let_it_start() -> None:
    cluster, before = downloading()
    cluster.start_pod(phase="Pending")
    cluster.put(KAIWO_CONFIGS, make(KAIWO_CONFIG, "kaiwo", spec={"nodes": {"defaultGpuTaintKey": "amd.com/gpu"}}))
    plan = cluster.run(ARTIFACTS, "qwen")
    assert [one.name for one in plan.deletes] == [before["metadata"]["name"]]
    for name in cluster.names(ARTIFACT_PODS):
        cluster.remove(ARTIFACT_PODS, name)
    cluster.settle(ARTIFACTS, "qwen")
    tolerated = cluster.only(ARTIFACT_JOBS)["spec"]["template"]["spec"]["tolerations"]
    assert tolerated == [{"key": "amd.com/gpu", "operator": "Exists"}]
    cluster.start_pod()
    later = {"jobs": {"nodeSelector": {"a": "b"}}}
    cluster.put(RUNTIME_CONFIGS, make(AIM_RUNTIME_CONFIG, "default", namespace=TEAM, spec=later))
    assert cluster.settle(ARTIFACTS, "qwen").deletes == (), "what runs stays"


@pytest.mark.spec("AR-846")
def test_a_cache_quotes_what_refuses_the_pods_of_its_artifact() -> None:
    cluster, job = downloading()
    after(cluster, job, reported(cluster, job, "FailedCreate", QUOTA))
    held = AIMArtifact.model_validate(cluster.raw(ARTIFACTS, "qwen"))
    component = artifacts_component([Match(IndexedSource(0, ModelSource(source_uri=URI)), held)])
    assert component.effective_state is State.PENDING
    assert "failed quota: team: must specify limits.cpu" in component.effective_message
