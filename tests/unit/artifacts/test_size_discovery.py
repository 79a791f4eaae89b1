"""Size discovery: Job, result, failures."""

import pytest
from support.artifacts import (
    TEAM,
    URI,
    Cluster,
    artifact,
    children_of,
    conditions_of,
    environment,
    message_of,
    plan_of,
    value_of,
)
from support.builders import fact

from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_JOBS, ARTIFACT_PODS, ARTIFACTS
from aim_domain.pods.inspect_jobs import EXPLANATION_WAIT
from controller_runtime import FACTS, Plan

JOB = "qwen-check-size-16b81fda"


def asked() -> Cluster:
    known = Cluster(artifact())
    known.settle(ARTIFACTS, "qwen")
    return known


def answered(message: str) -> tuple[Cluster, Plan]:
    known = asked()
    known.end_pod(known.start_pod(), 0, message)
    known.end_job()
    return known, known.run(ARTIFACTS, "qwen")


@pytest.mark.spec("AR-150", "AR-151", "AR-152", "AR-153", "AR-154", "AR-165", "SC-003", "FW-277")
def test_without_a_size_a_job_asks_for_it() -> None:
    known = Cluster(artifact())
    plan = known.run(ARTIFACTS, "qwen")
    (job,) = children_of(plan, ARTIFACT_JOBS)
    assert job["metadata"]["name"] == JOB
    assert job["metadata"]["labels"]["aim.eai.amd.com/component"] == "check-size"
    assert (job["spec"]["backoffLimit"], job["spec"]["ttlSecondsAfterFinished"]) == (2, 300)
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (container["name"], container["command"], container["args"]) == ("check-size", ["/check-size.sh"], [URI])
    assert environment(container) == {"AIM_DOWNLOAD_FILTER": '{"exclude":["*/*"]}'}
    assert "volumes" not in pod
    assert "fsGroup" not in pod["securityContext"]
    assert not children_of(plan, ARTIFACT_CLAIMS)
    assert value_of(plan) == "Progressing"
    assert conditions_of(plan)["CheckSizeJobReady"] == ("False", "ResourceNotReady")
    assert conditions_of(known.run(ARTIFACTS, "qwen"))["CheckSizeJobReady"] == ("False", "JobRunning")


@pytest.mark.spec("AR-155", "AR-156", "AR-158", "AR-162", "SC-004")
def test_the_answer_leads_to_the_volume() -> None:
    known, plan = answered('{"url":"hf://a/b","sizeBytes":10737418240,"more":1}')
    assert plan.status is not None
    assert plan.status["discoveredSizeBytes"] == 10737418240
    assert plan.status["displaySize"] == "10 GiB"
    (claim,) = children_of(plan, ARTIFACT_CLAIMS)
    assert claim["spec"]["resources"]["requests"]["storage"] == "11Gi"
    assert not [type_ for type_, (status, _) in conditions_of(plan).items() if type_.startswith("CheckSize")]
    known.remove(ARTIFACT_JOBS, JOB)
    again = known.run(ARTIFACTS, "qwen")
    assert again.status is not None
    assert again.status["discoveredSizeBytes"] == 10737418240
    assert [child.name for child in again.children] == ["qwen-download-16b81fda"]


@pytest.mark.spec("AR-156")
def test_without_a_termination_message_the_log_is_read() -> None:
    known, plan = answered("")
    (effect,) = plan.effects
    assert effect.kind == "pod-log"
    assert (effect.params["container"], effect.params["previous"]) == ("model-download", False)
    assert value_of(plan) == "Progressing"
    assert conditions_of(plan)["CheckSizeOutputReady"] == ("False", "ResourceNotReady")
    assert message_of(plan, "CheckSizeOutputReady") == f"reading the result of Job {TEAM}/{JOB}"
    tail = 'warning: slow\n{"url":"x","sizeBytes":5}\nbye'
    about = known.raw(ARTIFACTS, "qwen")
    known.put(FACTS, fact("artifacts", "pod-log", effect.key, about, ARTIFACTS, outcome={"tail": tail}))
    plan = known.run(ARTIFACTS, "qwen")
    assert plan.status is not None
    assert plan.status["discoveredSizeBytes"] == 5


@pytest.mark.spec("AR-157", "AR-159", "SC-005")
@pytest.mark.parametrize(
    "message",
    ['{"sizeBytes":0}', '{"sizeBytes":1125899906842625}', '{"sizeBytes":"7"}', '{"sizeBytes":true}'],
)
def test_an_unusable_answer_fails(message: str) -> None:
    _, plan = answered(message)
    assert conditions_of(plan)["CheckSizeOutputReady"] == ("False", "InvalidSizeOutput")
    said = message_of(plan, "CheckSizeOutputReady")
    assert said.startswith(f"Job {TEAM}/{JOB} reported no usable size (last line: {message!r}); set spec.size")
    assert value_of(plan) == "Failed"
    assert not children_of(plan, ARTIFACT_CLAIMS)


@pytest.mark.spec("AR-160")
def test_an_answer_that_is_gone_is_waited_for() -> None:
    known, _ = answered("")
    known.remove(ARTIFACT_PODS, known.names(ARTIFACT_PODS)[0])
    plan = known.run(ARTIFACTS, "qwen")
    assert value_of(plan) == "Progressing"
    assert conditions_of(plan)["CheckSizeOutputReady"] == ("False", "ResourceNotReady")
    assert "is gone before its result was read; the Job will run again" in message_of(plan, "CheckSizeOutputReady")
    known.remove(ARTIFACT_JOBS, JOB)
    assert [child.name for child in known.run(ARTIFACTS, "qwen").children] == [JOB]


@pytest.mark.spec("AR-156")
def test_a_pod_that_names_no_container_is_asked_for_the_one_that_the_job_has() -> None:
    known = asked()
    known.start_pod(None, "Succeeded")
    known.end_job()
    (effect,) = known.run(ARTIFACTS, "qwen").effects
    assert effect.params["container"] == "check-size"


@pytest.mark.spec("AR-157", "AR-159")
def test_of_a_log_without_a_size_the_last_line_is_quoted() -> None:
    known, plan = answered("")
    (effect,) = plan.effects
    about = known.raw(ARTIFACTS, "qwen")
    known.put(FACTS, fact("artifacts", "pod-log", effect.key, about, ARTIFACTS, outcome={"tail": "x\nbye\n"}))
    plan = known.run(ARTIFACTS, "qwen")
    assert "reported no usable size (last line: 'bye'); set spec.size" in message_of(plan, "CheckSizeOutputReady")


@pytest.mark.spec("AR-161", "AR-350")
def test_the_log_of_a_failed_question_is_read_before_its_cause_is_reported() -> None:
    known = asked()
    known.end_pod(known.start_pod(), 1)
    known.end_job("Failed", "BackoffLimitExceeded")
    plan = known.run(ARTIFACTS, "qwen")
    assert [effect.kind for effect in plan.effects] == ["pod-log"]
    assert value_of(plan) == "Progressing"


@pytest.mark.spec("FW-162", "AR-161")
def test_a_failed_question_is_final_when_its_pod_had_its_time_to_say_why() -> None:
    known = asked()
    known.end_job("Failed", "BackoffLimitExceeded", since=known.now)
    plan = known.run(ARTIFACTS, "qwen")
    assert value_of(plan) == "Progressing"
    assert plan.requeue_after == EXPLANATION_WAIT.total_seconds()
    known.later(EXPLANATION_WAIT.total_seconds())
    assert value_of(known.run(ARTIFACTS, "qwen")) == "Failed"


@pytest.mark.spec("AR-362")
def test_another_spec_replaces_a_failed_question() -> None:
    known = asked()
    known.end_pod(known.start_pod(), 11, '{"category":"SourceNotFound","message":"no such repository"}')
    known.end_job("Failed", "PodFailurePolicy")
    spec = known.raw(ARTIFACTS, "qwen")["spec"]
    known.change(ARTIFACTS, "qwen", spec={**spec, "env": [{"name": "HF_TOKEN", "value": "corrected"}]})
    plan = plan_of(known, ARTIFACTS)
    assert [delete.name for delete in plan.deletes] == [JOB]
    assert conditions_of(plan)["CheckSizeJobReady"] == ("False", "ResourceNotReady")
    assert message_of(plan, "CheckSizeJobReady") == (
        f"Job {TEAM}/{JOB} failed and is replaced, because the spec has changed"
    )
    known.change(ARTIFACT_JOBS, JOB, metadata={"finalizers": ["batch.kubernetes.io/held"]})
    known.remove(ARTIFACT_JOBS, JOB)
    assert plan_of(known, ARTIFACTS).deletes == ()


@pytest.mark.spec("AR-161", "AR-354")
def test_a_failed_question_fails_the_artifact_until_it_is_asked_again() -> None:
    known = asked()
    known.end_pod(known.start_pod(), 11, '{"category":"SourceNotFound","message":"no such repository"}')
    known.end_job("Failed", "PodFailurePolicy")
    plan = known.run(ARTIFACTS, "qwen")
    assert conditions_of(plan)["CheckSizeJobPodsReady"] == ("False", "SourceNotFound")
    assert value_of(plan) == "Failed"
    known.remove(ARTIFACT_JOBS, JOB)
    assert [child.name for child in known.run(ARTIFACTS, "qwen").children] == [JOB]
