"""A corrected Secret is followed by the next Job within a minute, and nothing has to be deleted."""

from typing import Any

import pytest
from support.artifacts import TEAM, Cluster, artifact, namespace, value_of

from aim_artifacts.download_account import DownloadAccount
from aim_artifacts.secret_watch import SECRET_VERSIONS
from aim_domain.parts import ARTIFACT_JOBS, ARTIFACT_PODS, ARTIFACTS
from controller_runtime import Category, ClassifiedError, Effect, Plan, dumps

OLD, NEW = "uid/1", "uid/2"
REFUSED = dumps({"category": "Auth", "message": "401"}).decode()
NOT_FOUND = dumps({"category": "SourceNotFound", "message": "Repository Not Found"}).decode()


def of_secret(name: str, secret: str = "hf") -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": "token"}}}


def watched(plan: Plan) -> list[Effect]:
    return [effect for effect in plan.effects if effect.kind == SECRET_VERSIONS.name]


def begun(*, size: str | None = "1Gi", **spec: Any) -> tuple[Cluster, Effect]:
    """A Job that has just begun, and the first reading of its Secrets."""
    sized = {"size": size} if size else {}
    known = Cluster(artifact(spec={**sized, **spec}), namespace())
    known.settle(ARTIFACTS, "qwen")
    if size:
        known.bind_claim()
        known.settle(ARTIFACTS, "qwen")
    known.start_pod()
    (reading,) = watched(known.settle(ARTIFACTS, "qwen"))
    return known, reading


def fail(known: Cluster, code: int = 10, message: str = REFUSED) -> Effect:
    """The Job fails; the reading that follows."""
    known.end_pod(known.names(ARTIFACT_PODS)[-1], code, message)
    known.end_job("Failed", "PodFailurePolicy")
    (reading,) = watched(known.settle(ARTIFACTS, "qwen"))
    return reading


@pytest.mark.spec("AR-820", "FW-096")
@pytest.mark.parametrize("size", ["1Gi", None])
@pytest.mark.parametrize(("code", "message"), [(10, REFUSED), (11, NOT_FOUND)])
@pytest.mark.parametrize(("before", "after"), [(OLD, NEW), (None, OLD), (OLD, None)])
def test_a_corrected_token_begins_the_next_job(
    size: str | None, code: int, message: str, before: str | None, after: str | None
) -> None:
    known, first = begun(size=size, env=[of_secret("HF_TOKEN")])
    assert first.params == {"namespace": TEAM, "secrets": ["hf"]}
    assert first.not_before is None
    known.answer(first, {"versions": {"hf": before}})
    failed = known.only(ARTIFACT_JOBS)["metadata"]["uid"]

    reading = fail(known, code, message)
    assert reading.not_before is not None
    assert (reading.not_before - known.now).total_seconds() <= 60
    assert value_of(known.settle(ARTIFACTS, "qwen")) == "Failed"
    known.answer(reading, {"versions": {"hf": before}})
    assert value_of(known.settle(ARTIFACTS, "qwen")) == "Failed"

    known.answer(reading, {"versions": {"hf": after}})
    plan = known.run(ARTIFACTS, "qwen")
    assert [delete.uid for delete in plan.deletes] == [failed]
    assert value_of(plan) != "Failed"
    known.settle(ARTIFACTS, "qwen")
    assert known.only(ARTIFACT_JOBS)["metadata"]["uid"] != failed


@pytest.mark.spec("AR-820")
def test_a_correction_that_comes_while_the_job_fails_counts() -> None:
    known, first = begun(env=[of_secret("HF_TOKEN")])
    known.answer(first, {"versions": {"hf": OLD}})
    known.later(40)
    reading = fail(known)
    known.answer(reading, {"versions": {"hf": NEW}})
    assert known.run(ARTIFACTS, "qwen").deletes


@pytest.mark.spec("AR-821")
def test_every_secret_of_the_job_counts() -> None:
    keys = [of_secret("AWS_ACCESS_KEY_ID", "s3"), of_secret("AWS_SECRET_ACCESS_KEY", "s3"), {"name": "A", "value": "b"}]
    known, first = begun(env=keys, imagePullSecrets=[{"name": "pull"}])
    assert first.params["secrets"] == ["pull", "s3"]
    known.account = DownloadAccount(pull_secrets=("of-default",))
    (reading,) = watched(known.settle(ARTIFACTS, "qwen"))
    assert reading.params["secrets"] == ["of-default", "pull", "s3"]


@pytest.mark.spec("AR-821")
def test_without_secrets_nothing_is_read() -> None:
    known = Cluster(artifact(spec={"size": "1Gi", "env": [{"name": "HF_TOKEN", "value": "x"}]}), namespace())
    known.settle(ARTIFACTS, "qwen")
    known.bind_claim()
    known.settle(ARTIFACTS, "qwen")
    known.start_pod()
    assert not watched(known.settle(ARTIFACTS, "qwen"))


@pytest.mark.spec("AR-820")
def test_a_job_that_goes_on_is_left_alone_and_nothing_is_read_again() -> None:
    known, first = begun(env=[of_secret("HF_TOKEN")])
    known.answer(first, {"versions": {"hf": OLD}})
    plan = known.settle(ARTIFACTS, "qwen")
    assert not watched(plan)
    assert not plan.deletes


@pytest.mark.spec("AR-822", "FW-507")
def test_a_secret_that_may_not_be_read_changes_nothing() -> None:
    known, first = begun(env=[of_secret("HF_TOKEN")])
    refusal = ClassifiedError(Category.INFRASTRUCTURE, "SecretAccessFailed", "Secret demo/hf cannot be read")
    known.answer(first, failure=refusal)
    reading = fail(known)
    assert reading.not_before is not None
    assert value_of(known.settle(ARTIFACTS, "qwen")) == "Failed"
