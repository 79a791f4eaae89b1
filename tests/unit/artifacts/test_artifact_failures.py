"""Failed downloads: classification, finality, retries."""

from datetime import timedelta

import pytest
from support.artifacts import UID, Cluster, artifact, conditions_of, value_of
from support.builders import fact, waiting

from aim_domain.parts import ARTIFACT_JOBS, ARTIFACT_PODS, ARTIFACTS
from controller_runtime import FACTS, JsonObject, Plan, dumps

DOWNLOAD = "qwen-download-16b81fda"


def downloading() -> Cluster:
    known = Cluster(artifact(spec={"size": "100Mi"}))
    known.settle(ARTIFACTS, "qwen")
    known.bind_claim()
    return known


def failing(code: int, message: str = "", *, job: str | None = None, reason: str = "") -> tuple[Cluster, Plan]:
    known = downloading()
    known.end_pod(known.start_pod(), code, message, reason)
    if job is not None:
        known.end_job("Failed", job)
    return known, known.run(ARTIFACTS, "qwen")


def reported(category: str, message: str = "it is so") -> str:
    return dumps({"category": category, "message": message}).decode()


def log_fact(known: Cluster, pod: str, tail: str) -> JsonObject:
    uid = known.raw(ARTIFACT_PODS, pod)["metadata"]["uid"]
    about = known.raw(ARTIFACTS, "qwen")
    return fact("artifacts", "pod-log", f"{UID}/{uid}/model-download", about, ARTIFACTS, outcome={"tail": tail})


@pytest.mark.spec("AR-304", "AR-310", "AR-350", "AR-353", "AR-356", "SC-030", "FW-090", "AR-357")
def test_an_authentication_error_is_final_with_the_first_pod() -> None:
    _, plan = failing(10, reported("Auth", "token hf_abcdefgh was refused"))
    conditions = conditions_of(plan)
    for type_ in ("DownloadJobPodsReady", "AuthValid", "Ready"):
        assert conditions[type_] == ("False", "AuthError")
    assert conditions["DownloadComplete"] == ("False", "Downloading")
    assert value_of(plan) == "Failed"
    assert plan.status is not None
    assert plan.status["progress"] == {"displayPercentage": "N/A"}
    assert "hf_abcdefgh" not in str(plan.status)
    assert plan.retry is None
    assert not plan.effects


@pytest.mark.spec("AR-350", "AR-356", "FW-162")
@pytest.mark.parametrize("has_pod", [True, False])
def test_a_failed_job_is_not_judged_before_its_pod_had_time_to_say_why(has_pod: bool) -> None:
    known = downloading()
    pod = known.start_pod() if has_pod else None
    since = known.now
    known.end_job("Failed", "PodFailurePolicy", since)
    early = known.run(ARTIFACTS, "qwen")
    assert value_of(early) == "Progressing"
    assert conditions_of(early)["Ready"] == ("False", "Progressing")
    assert "ConfigValid" not in conditions_of(early)
    assert early.requeue_after == 5
    if pod is not None:
        known.end_pod(pod, 10, reported("Auth"))
        assert conditions_of(known.run(ARTIFACTS, "qwen"))["Ready"] == ("False", "AuthError")
        return
    known.until(since + timedelta(seconds=5))
    late = known.run(ARTIFACTS, "qwen")
    assert (value_of(late), conditions_of(late)["Ready"]) == ("Failed", ("False", "InvalidSpec"))


@pytest.mark.spec("AR-349", "AR-351", "AR-355", "AR-356", "SC-033")
@pytest.mark.parametrize(
    ("code", "pods_reason", "ready_reason", "status"),
    [
        (10, "AuthError", "AuthError", "Failed"),
        (11, "SourceNotFound", "InvalidSpec", "Failed"),
        (12, "StorageFull", "StorageFull", "Failed"),
        (13, "VerificationFailed", "VerificationFailed", "Failed"),
        (14, "DownloadStalled", "DownloadStalled", "Failed"),
        (15, "DownloadFailed", "DownloadFailed", "Failed"),
        (16, "NoMatchingFiles", "InvalidSpec", "Failed"),
        (1, "PodFailed", "InvalidSpec", "Failed"),
    ],
)
def test_exit_codes_when_the_job_has_failed(code: int, pods_reason: str, ready_reason: str, status: str) -> None:
    known = downloading()
    pod = known.start_pod()
    known.end_pod(pod, code)
    known.end_job("Failed", "BackoffLimitExceeded")
    known.put(FACTS, log_fact(known, pod, "nothing of interest"))
    plan = known.run(ARTIFACTS, "qwen")
    conditions = conditions_of(plan)
    assert conditions["DownloadJobPodsReady"] == ("False", pods_reason)
    assert conditions["DownloadJobReady"] == ("False", "JobBackoffLimitExceeded")
    assert conditions["Ready"] == ("False", ready_reason)
    assert value_of(plan) == status


@pytest.mark.spec("AR-354", "SC-016", "AR-P02")
def test_other_failures_count_only_when_the_job_gives_up() -> None:
    known, plan = failing(14, reported("Stalled"))
    assert value_of(plan) == "Progressing"
    assert conditions_of(plan)["DownloadJobPodsReady"] == ("False", "DownloadStalled")
    known.start_pod()
    plan = known.run(ARTIFACTS, "qwen")
    assert plan.status is not None
    assert "progress" not in plan.status
    assert conditions_of(plan)["DownloadJobPodsReady"] == ("False", "PodsStarting")
    known.end_job()
    plan = known.settle(ARTIFACTS, "qwen")
    assert value_of(plan) == "Ready"
    assert not [type_ for type_, (status, _) in conditions_of(plan).items() if status == "False"]


@pytest.mark.spec("AR-350", "AR-351", "AR-352", "FW-146", "SC-035", "SC-031")
def test_the_log_decides_for_programs_without_exit_codes() -> None:
    known, plan = failing(1, job="BackoffLimitExceeded")
    (effect,) = plan.effects
    assert effect.kind == "pod-log"
    assert effect.params["container"] == "model-download"
    assert value_of(plan) == "Progressing"
    pod = known.names(ARTIFACT_PODS)[0]
    known.put(FACTS, log_fact(known, pod, "x\nRepository Not Found for url: …/api: 401 Client Error"))
    plan = known.run(ARTIFACTS, "qwen")
    assert conditions_of(plan)["DownloadJobPodsReady"] == ("False", "SourceNotFound")
    assert "AuthValid" not in conditions_of(plan)
    assert not plan.effects
    assert value_of(plan) == "Failed"


@pytest.mark.spec("AR-349")
@pytest.mark.parametrize(
    ("reason", "pods_reason", "status"),
    [("OOMKilled", "PodOOMKilled", "Failed"), ("DeadlineExceeded", "PodDeadlineExceeded", "Failed")],
)
def test_termination_reasons(reason: str, pods_reason: str, status: str) -> None:
    known = downloading()
    pod = known.start_pod()
    known.end_pod(pod, 137, "", reason)
    known.end_job("Failed", "BackoffLimitExceeded")
    known.put(FACTS, log_fact(known, pod, ""))
    plan = known.run(ARTIFACTS, "qwen")
    assert conditions_of(plan)["DownloadJobPodsReady"] == ("False", pods_reason)
    assert value_of(plan) == status


@pytest.mark.spec("AR-350", "SC-036")
@pytest.mark.parametrize(
    ("reason", "message", "pods_reason"),
    [
        ("ErrImagePull", "401 Unauthorized", "ImagePullAuthFailure"),
        ("ImagePullBackOff", "manifest unknown: not found", "ImageNotFound"),
        ("CreateContainerConfigError", 'secret "hf" not found', "CreateContainerConfigError"),
    ],
)
def test_containers_that_can_not_start(reason: str, message: str, pods_reason: str) -> None:
    known = downloading()
    known.start_pod(None, "Pending", waiting("model-download", reason, message))
    plan = known.run(ARTIFACTS, "qwen")
    assert conditions_of(plan)["DownloadJobPodsReady"] == ("False", pods_reason)
    assert value_of(plan) == "Failed"


@pytest.mark.spec("AR-311", "SC-021")
@pytest.mark.parametrize(
    ("code", "reason"), [(13, "VerificationFailed"), (1, "VerificationFailed"), (15, "Downloading")]
)
def test_download_complete_after_a_failure_at_100_percent(code: int, reason: str) -> None:
    known = downloading()
    known.change(ARTIFACTS, "qwen", status={"progress": {"percentage": 100, "displayPercentage": "100 %"}})
    known.end_pod(known.start_pod(), code)
    assert conditions_of(known.run(ARTIFACTS, "qwen"))["DownloadComplete"] == ("False", reason)


@pytest.mark.spec("AR-361", "SC-034")
def test_a_failed_artifact_tries_again_when_its_job_is_gone() -> None:
    known, plan = failing(10, reported("Auth"), job="PodFailurePolicy")
    assert value_of(plan) == "Failed"
    assert not plan.children
    known.remove(ARTIFACT_JOBS, DOWNLOAD)
    plan = known.run(ARTIFACTS, "qwen")
    assert [child.name for child in plan.children] == [DOWNLOAD]
    assert value_of(plan) == "Progressing"
    assert conditions_of(plan)["AuthValid"] == ("True", "AuthenticationValid")


@pytest.mark.spec("AR-362", "AR-264")
def test_a_corrected_spec_tries_again_at_once() -> None:
    known, _ = failing(10, reported("Auth"), job="PodFailurePolicy")
    spec = known.raw(ARTIFACTS, "qwen")["spec"]
    known.change(ARTIFACTS, "qwen", spec={**spec, "env": [{"name": "HF_TOKEN", "value": "corrected"}]})
    plan = known.run(ARTIFACTS, "qwen")
    assert [delete.name for delete in plan.deletes] == [DOWNLOAD]
    plan = known.run(ARTIFACTS, "qwen")
    (child,) = plan.children
    assert child.body["metadata"]["annotations"]["aim.eai.amd.com/artifact-generation"] == "2"


@pytest.mark.spec("AR-312", "FW-155")
def test_events_of_pending_pods_are_read_and_shown() -> None:
    known = downloading()
    pod = known.start_pod(None, "Pending")
    plan = known.run(ARTIFACTS, "qwen")
    (effect,) = plan.effects
    assert effect.kind == "pod-events"
    assert UID in effect.key, "a fact wakes only who asked for it"
    assert effect.not_before is not None, "most pods run before anybody has to know what they wait for"
    assert conditions_of(plan)["DownloadJobPodsReady"] == ("False", "NoPods"), "until that is known"
    uid = known.raw(ARTIFACT_PODS, pod)["metadata"]["uid"]
    event = {
        "metadata": {"name": "e", "namespace": "ml-team"},
        "involvedObject": {"uid": uid, "name": pod},
        "reason": "FailedScheduling",
        "message": "0/1 nodes are available",
        "lastTimestamp": "2026-11-21T12:00:00Z",
    }
    about = known.raw(ARTIFACTS, "qwen")
    known.put(FACTS, fact("artifacts", "pod-events", effect.key, about, ARTIFACTS, outcome={"events": [event]}))
    plan = known.run(ARTIFACTS, "qwen")
    assert conditions_of(plan)["DownloadJobPodsReady"] == ("False", "FailedScheduling")
    assert value_of(plan) == "Pending"
    (again,) = plan.effects
    assert again.not_before is not None
    known.put(FACTS, fact("artifacts", "pod-events", effect.key, about, ARTIFACTS, outcome={"events": []}))
    plan = known.run(ARTIFACTS, "qwen")
    assert conditions_of(plan)["DownloadJobPodsReady"] == ("False", "PodsPending")
    assert value_of(plan) == "Pending"
