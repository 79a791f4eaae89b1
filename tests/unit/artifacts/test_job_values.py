"""What Jobs of an artifact are, and when they belong to the past."""

from datetime import timedelta
from typing import Any

import pytest
from support.artifacts import artifact
from support.builders import make, owner

from aim_artifacts.artifact_reconcile import build_binding
from aim_artifacts.claim import is_controlled_by
from aim_artifacts.download_account import DownloadAccount
from aim_artifacts.jobs import (
    build_check_size_job,
    build_download_job,
    check_size_environment,
    download_environment,
    is_outdated,
    is_stale,
)
from aim_artifacts.settings import ArtifactsSettings
from aim_domain import AIMArtifact, RuntimeConfigSpec, labels
from controller_runtime import JsonObject
from controller_runtime.core import Job, PersistentVolumeClaim
from controller_runtime.kinds import JOB, PERSISTENT_VOLUME_CLAIM
from controller_runtime.testing import NOW

HOUR = timedelta(hours=1)


def job(age: timedelta = timedelta(), **annotations: Any) -> Job:
    names = {"pvc": labels.ANNOTATION_PVC_UID, "generation": labels.ANNOTATION_ARTIFACT_GENERATION}
    given = {names[name]: value for name, value in annotations.items()}
    return Job.model_validate(make(JOB, "j", created=NOW - age, annotations=given))


@pytest.mark.spec("AR-106")
def test_a_job_is_stale_when_it_wrote_to_another_volume() -> None:
    claim = PersistentVolumeClaim.model_validate(make(PERSISTENT_VOLUME_CLAIM, "c", uid="this", created=NOW))
    assert is_stale(job(pvc="other"), claim)
    assert not is_stale(job(HOUR, pvc="this"), claim)
    assert is_stale(job(HOUR), claim)
    assert not is_stale(job(), claim)
    assert not is_stale(job(-HOUR), claim)


@pytest.mark.spec("AR-362")
@pytest.mark.parametrize(
    ("annotations", "outdated"),
    [({}, False), ({"generation": "1"}, True), ({"generation": "2"}, False), ({"generation": "x"}, False)],
)
def test_a_job_is_outdated_when_the_spec_has_changed_since(annotations: dict[str, Any], outdated: bool) -> None:
    changed = AIMArtifact.model_validate(artifact(generation=2))
    assert is_outdated(job(**annotations), changed) is outdated


@pytest.mark.spec("AR-250", "AR-254")
def test_pods_run_without_privileges_and_with_the_pull_secrets_of_the_artifact() -> None:
    own = AIMArtifact.model_validate(artifact(spec={"imagePullSecrets": [{"name": "pull"}]}))
    pods = [
        build_check_size_job(one, RuntimeConfigSpec(), ArtifactsSettings()).body["spec"]["template"]["spec"]
        for one in (own, AIMArtifact.model_validate(artifact()))
    ]
    assert [pod.get("imagePullSecrets") for pod in pods] == [[{"name": "pull"}], None]
    assert pods[0]["securityContext"] == {
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@pytest.mark.spec("AR-250", "AR-257")
def test_disruptions_cost_no_attempt_and_what_cannot_be_cured_ends_the_job() -> None:
    child = build_check_size_job(AIMArtifact.model_validate(artifact()), RuntimeConfigSpec(), ArtifactsSettings())
    ignored, failing = child.body["spec"]["podFailurePolicy"]["rules"]
    container = child.body["spec"]["template"]["spec"]["containers"][0]
    assert ignored == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert (failing["action"], failing["onExitCodes"]["operator"]) == ("FailJob", "In")
    assert failing["onExitCodes"]["containerName"] == container["name"]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert child.body["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.spec("FW-342", "FW-304", "AR-812")
def test_how_downloads_and_size_checks_run() -> None:
    own, config = AIMArtifact.model_validate(artifact()), RuntimeConfigSpec()
    claim = PersistentVolumeClaim.model_validate(make(PERSISTENT_VOLUME_CLAIM, "c", created=NOW))
    usual, other = ArtifactsSettings(), ArtifactsSettings(artifact_service_account="downloads")

    def jobs(settings: ArtifactsSettings) -> list[JsonObject]:
        download = build_download_job(own, config, settings, claim, 1, account=DownloadAccount())
        return [download.body["spec"], build_check_size_job(own, config, settings).body["spec"]]

    limits = [(job["backoffLimit"], job["ttlSecondsAfterFinished"]) for job in jobs(usual)]
    assert limits == [(2, 600), (2, 300)]
    pods = [job["template"]["spec"] for job in jobs(usual)]
    for pod in pods:
        (container,) = pod["containers"]
        assert pod["restartPolicy"] == "Never"
        who = {**pod["securityContext"], **container["securityContext"]}
        assert (who["runAsUser"], who["runAsGroup"], who["runAsNonRoot"]) == (1000, 1000, True)
        assert (who["allowPrivilegeEscalation"], who["capabilities"]) == (False, {"drop": ["ALL"]})
        assert who["seccompProfile"] == {"type": "RuntimeDefault"}
    assert [pod["securityContext"].get("fsGroup") for pod in pods] == [1000, None]
    assert [pod["automountServiceAccountToken"] for pod in pods] == [True, False], "only downloads write a status"
    # Without a name it is `default`.
    accounts = [job["template"]["spec"].get("serviceAccountName") for one in (usual, other) for job in jobs(one)]
    assert accounts == ["aim-engine-downloader", None, "downloads", None]
    subjects = [build_binding("ml", settings).body["subjects"] for settings in (usual, other)]
    assert [subject["name"] for (subject,) in subjects] == ["aim-engine-downloader", "downloads"]


def variables(values: JsonObject) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in values.items()]


def environment(configured: JsonObject, own: JsonObject, uri: str = "s3://bucket/key") -> dict[str, str]:
    config = RuntimeConfigSpec.model_validate({"env": variables(configured)})
    given = artifact(uri=uri, spec={"env": variables(own)})
    found = download_environment(AIMArtifact.model_validate(given), config, 12)
    return {one.name: one.value or "" for one in found}


@pytest.mark.spec("AR-153", "AR-260", "AR-261", "AR-262", "AR-263", "AR-P14")
def test_fixed_variables_come_before_those_of_artifact_config_and_default() -> None:
    plain = artifact()["metadata"]
    defaults = {
        "AIM_DOWNLOADER_PROTOCOL": "XET,HF_TRANSFER", "TMPDIR": "/tmp/", "HF_HOME": "/tmp/.hf",
        "EXPECTED_SIZE_BYTES": "12", "MOUNT_PATH": "/cache", "TARGET_DIR": "/cache",
        "ARTIFACT_NAME": plain["name"], "ARTIFACT_NAMESPACE": plain["namespace"], "STALL_TIMEOUT": "120",
    }  # fmt: skip
    assert environment({}, {}) == defaults
    configured = {"TMPDIR": "/config", "STALL_TIMEOUT": "1", "MOUNT_PATH": "/config"}
    own = {"TMPDIR": "/own", "ARTIFACT_NAME": "own", "ARTIFACT_NAMESPACE": "own"}
    assert environment(configured, own) == {**defaults, "TMPDIR": "/own", "STALL_TIMEOUT": "1"}
    assert set(environment({}, {}, "hf://a/b")) == {*defaults, "AIM_DOWNLOAD_FILTER"}


@pytest.mark.spec("AR-153", "AR-154", "FW-277")
def test_the_question_for_the_size_has_no_defaults() -> None:
    given = AIMArtifact.model_validate(artifact(uri="s3://bucket/key", spec={"env": variables({"A": "own"})}))
    config = RuntimeConfigSpec.model_validate({"env": variables({"A": "1", "B": "2"})})
    assert {one.name: one.value for one in check_size_environment(given, config)} == {"A": "own", "B": "2"}


@pytest.mark.spec("AR-204")
def test_only_the_controller_of_this_uid_counts() -> None:
    own = artifact()
    parent = AIMArtifact.model_validate(own)

    def controlled(*owners: JsonObject) -> bool:
        claim = make(PERSISTENT_VOLUME_CLAIM, "c", owners=owners)
        return is_controlled_by(PersistentVolumeClaim.model_validate(claim), parent)

    assert controlled(owner(own))
    assert not controlled(owner(own, controller=False))
    assert not controlled({**owner(own), "uid": "other"})
    assert not controlled()
