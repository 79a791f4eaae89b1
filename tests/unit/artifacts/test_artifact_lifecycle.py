"""An artifact from its creation to a verified volume, pass by pass."""

from datetime import timedelta
from typing import Any

import pytest
from support.artifacts import (
    SERVICE,
    TEAM,
    URI,
    Cluster,
    artifact,
    children_of,
    conditions_of,
    environment,
    message_of,
    plan_of,
    seen,
    value_of,
)
from support.builders import condition, make
from support.woken import woken

from aim_artifacts.downloader_contract import progress_json
from aim_artifacts.indexes import USES_OF_CLAIM, ClaimUse
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG, INFERENCE_SERVICE
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACT_JOBS,
    ARTIFACT_PODS,
    ARTIFACTS,
    INFERENCE_SERVICES,
    STATUS_UPDATER_BINDINGS,
)
from controller_runtime import EventType, JsonObject
from controller_runtime.kinds import POD
from controller_runtime.testing import NOW

CLAIM = "qwen-cache-16b81fda"
DOWNLOAD = "qwen-download-16b81fda"
SIZED = {"size": "100Mi"}


def cluster(*others: JsonObject, **members: Any) -> Cluster:
    return Cluster(artifact(**{"spec": SIZED, **members}), *others)


def downloading(**members: Any) -> Cluster:
    """A cluster in which the download pod runs."""
    known = cluster(**members)
    known.settle(ARTIFACTS, "qwen")
    known.bind_claim()
    known.start_pod()
    return known


def uses(known: Cluster) -> tuple[ClaimUse, ...]:
    """What a pass reads of those that mount the volume."""
    return known.cache.summary(USES_OF_CLAIM, f"{TEAM}/{CLAIM}")


def ready() -> Cluster:
    known = downloading()
    known.end_job()
    known.settle(ARTIFACTS, "qwen")
    return known


@pytest.mark.spec("AR-212", "FW-P21")
@pytest.mark.parametrize("made_by_cache", [True, False])
def test_only_the_volume_for_a_cache_says_so(made_by_cache: bool) -> None:
    own = {"template-created": "true"} if made_by_cache else {}
    (claim,) = children_of(cluster(labels=own).run(ARTIFACTS, "qwen"), ARTIFACT_CLAIMS)
    found = claim["metadata"]["labels"].get("aim.eai.amd.com/cache.type")
    assert found == ("template-cache" if made_by_cache else None)


@pytest.mark.spec(
    "FW-518",
    "AR-041",
    "AR-100",
    "AR-101",
    "AR-210",
    "AR-212",
    "AR-271",
    "AR-420",
    "AR-026",
    "AR-270",
    "AR-272",
    "AR-P11",
)
def test_first_pass_makes_binding_and_volume() -> None:
    known = cluster(created=NOW)
    plan = known.run(ARTIFACTS, "qwen")
    (claim,) = children_of(plan, ARTIFACT_CLAIMS)
    assert claim["metadata"]["name"] == CLAIM
    assert claim["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "aim-artifact-controller",
        "aim.eai.amd.com/artifact.name": "qwen",
        "aim.eai.amd.com/cache.name": "qwen",
        "aim.eai.amd.com/artifact": "qwen",
        "aim.eai.amd.com/source-model": "qwen_qwen3-32b",
    }
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    (binding,) = children_of(plan, STATUS_UPDATER_BINDINGS)
    assert binding["roleRef"]["name"] == "aim-engine-artifact-status-updater"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "aim-engine-downloader", "namespace": TEAM}]
    assert [child.owned for child in plan.children] == [False, True]
    assert not children_of(plan, ARTIFACT_JOBS)
    assert (plan.status, plan.events) == (None, ()), "it is under way, as everybody expects"


@pytest.mark.spec("FW-518")
def test_a_new_artifact_is_reported_of_once_its_download_runs() -> None:
    known = cluster(created=NOW)
    known.settle(ARTIFACTS, "qwen")
    known.bind_claim()
    pod = known.start_pod(None, "Pending")
    known.settle(ARTIFACTS, "qwen")
    assert known.status(ARTIFACTS, "qwen").get("conditions") is None
    known.change(ARTIFACT_PODS, pod, status={"phase": "Running"})
    assert value_of(known.settle(ARTIFACTS, "qwen")) == "Progressing"


@pytest.mark.spec("FW-518", "AR-420")
def test_what_lasts_is_reported_although_it_is_about_the_first_volume() -> None:
    plan = plan_of(seen(artifact(spec=SIZED)), ARTIFACTS)
    assert value_of(plan) == "Progressing"
    assert conditions_of(plan)["CachePvcReady"] == ("False", "ResourceNotReady")
    assert plan.status is not None
    assert plan.status["mode"] == "Shared"
    assert plan.status["displaySize"] == "100 MiB"
    assert "allocatedSize" not in plan.status


@pytest.mark.spec(
    "AR-102",
    "AR-204",
    "AR-205",
    "AR-214",
    "AR-250",
    "AR-251",
    "AR-252",
    "AR-253",
    "AR-256",
    "AR-257",
    "AR-360",
    "SC-015",
)
def test_second_pass_makes_the_download_job_while_the_volume_is_pending() -> None:
    known = cluster()
    known.run(ARTIFACTS, "qwen")
    plan = known.run(ARTIFACTS, "qwen")
    (job,) = children_of(plan, ARTIFACT_JOBS)
    claim = known.raw(ARTIFACT_CLAIMS, CLAIM)
    assert job["metadata"]["name"] == DOWNLOAD
    assert job["metadata"]["annotations"] == {
        "aim.eai.amd.com/pvc-uid": claim["metadata"]["uid"],
        "aim.eai.amd.com/artifact-generation": "1",
    }
    assert job["metadata"]["labels"]["aim.eai.amd.com/component"] == "download"
    assert job["metadata"]["labels"]["aim.eai.amd.com/cache.type"] == "artifact"
    spec = job["spec"]
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (2, 600)
    assert spec["podFailurePolicy"]["rules"][1]["onExitCodes"] == {
        "containerName": "model-download",
        "operator": "In",
        "values": [10, 11, 12, 16],
    }
    pod = spec["template"]["spec"]
    assert pod["securityContext"]["fsGroup"] == 1000
    assert pod["volumes"] == [{"name": "cache", "persistentVolumeClaim": {"claimName": CLAIM}}]
    assert "app.kubernetes.io/managed-by" not in spec["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    assert (container["name"], container["image"], container["args"]) == ("model-download", "downloader:1", [URI])
    assert "command" not in container
    assert plan.status is not None
    assert (plan.status["persistentVolumeClaim"], plan.status["allocatedSize"]) == (CLAIM, "1Gi")
    assert plan.status["headroomPercent"] == 10
    assert conditions_of(plan)["CachePvcReady"] == ("False", "PvcPending")


@pytest.mark.spec("AR-260", "AR-261", "AR-262", "AR-263", "AR-401", "AR-406", "SC-025")
def test_environment_of_the_download() -> None:
    config = make(
        AIM_CLUSTER_RUNTIME_CONFIG,
        "default",
        spec={
            "env": [
                {"name": "AIM_DOWNLOADER_PROTOCOL", "value": "XET,XET,HTTP"},
                {"name": "ARTIFACT_NAME", "value": "other"},
            ]
        },
    )
    env: list[JsonObject] = [
        {"name": "AIM_DOWNLOADER_PROTOCOL", "value": "HTTP"},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
    ]
    known = cluster(config, spec={**SIZED, "env": env})
    known.settle(ARTIFACTS, "qwen")
    (container,) = known.only(ARTIFACT_JOBS)["spec"]["template"]["spec"]["containers"]
    values = environment(container)
    assert values["AIM_DOWNLOADER_PROTOCOL"] == "HTTP"
    assert values["ARTIFACT_NAME"] == "qwen"
    assert values["ARTIFACT_NAMESPACE"] == TEAM
    assert values["EXPECTED_SIZE_BYTES"] == str(100 << 20)
    assert values["AIM_DOWNLOAD_FILTER"] == '{"exclude":["*/*"]}'
    assert container["env"][-2]["valueFrom"] == env[1]["valueFrom"]


@pytest.mark.spec("AR-407", "SC-053")
def test_the_filter_is_pinned_with_the_first_job() -> None:
    known = cluster(spec=SIZED)
    known.settle(ARTIFACTS, "qwen")
    annotations = known.raw(ARTIFACTS, "qwen")["metadata"]["annotations"]
    assert annotations["aim.eai.amd.com/resolved-download-filter"] == '{"exclude":["*/*"]}'
    later = make(AIM_RUNTIME_CONFIG, "default", namespace=TEAM, spec={"storage": {"downloadFilter": {}}})
    known.put(next(part for part in known.cache.parts if part.name == "aimruntimeconfigs"), later)
    known.remove(ARTIFACT_JOBS, DOWNLOAD)
    known.settle(ARTIFACTS, "qwen")
    (container,) = known.only(ARTIFACT_JOBS)["spec"]["template"]["spec"]["containers"]
    assert environment(container)["AIM_DOWNLOAD_FILTER"] == '{"exclude":["*/*"]}'


@pytest.mark.spec("AR-103", "AR-300", "AR-305", "AR-310", "FW-379", "SC-020", "FW-163")
def test_progress_belongs_to_the_pod_until_the_job_succeeds() -> None:
    known = downloading()
    progress = {"percentage": 40, "displayPercentage": "40 %", "downloadedBytes": 40, "totalBytes": 100}
    known.change(ARTIFACTS, "qwen", status={"progress": progress})
    plan = known.run(ARTIFACTS, "qwen")
    assert plan.status is not None
    assert "progress" not in plan.status
    assert conditions_of(plan)["DownloadComplete"] == ("False", "Downloading")
    assert plan.requeue_after == 10
    known.change(ARTIFACTS, "qwen", status={"progress": {**progress, "percentage": 100, "displayPercentage": "100 %"}})
    plan = known.run(ARTIFACTS, "qwen")
    assert conditions_of(plan)["DownloadComplete"] == ("True", "Verifying")
    assert value_of(plan) == "Progressing"
    known.change(ARTIFACT_PODS, known.only(ARTIFACT_PODS)["metadata"]["name"], status={"phase": "Succeeded"})
    plan = known.run(ARTIFACTS, "qwen")
    assert conditions_of(plan)["DownloadComplete"] == ("True", "Verified"), "its Job will say so within a second"
    assert value_of(plan) == "Ready"


@pytest.mark.spec("FW-378", "FW-514", "AR-305")
def test_a_transfer_that_goes_on_wakes_nobody() -> None:
    known = downloading()
    known.change(ARTIFACTS, "qwen", status={"progress": transferred(40), "download": {"message": "Downloading"}})
    before = known.raw(ARTIFACTS, "qwen")

    def news(changed: JsonObject) -> set[str]:
        after = {**before, "status": {**before["status"], **changed}}
        return woken(SERVICE, known, ARTIFACTS, before, after)

    assert news({"progress": transferred(41)}) == set()
    assert news({"download": {"message": "Failed with XET"}}) == set()
    about = {"artifact:ml-team/qwen"}
    assert news({"progress": transferred(100)}) == about
    assert news({"progress": {**transferred(41), "displayPercentage": "N/A"}}) == about
    assert news({"progress": {**transferred(41), "displayPercentage": "40 %"}}) == about
    assert news({"progress": transferred(41), "status": "Failed"}) >= about


def transferred(percentage: int) -> JsonObject:
    return progress_json(percentage, percentage, 100)


@pytest.mark.spec("AR-316")
def test_a_number_without_text_gets_its_text() -> None:
    known = downloading()
    known.change(ARTIFACTS, "qwen", status={"progress": {"percentage": 7}})
    plan = known.run(ARTIFACTS, "qwen")
    assert plan.status is not None
    assert plan.status["progress"] == {"displayPercentage": "7 %"}


@pytest.mark.spec("AR-104", "AR-303", "AR-308", "AR-313", "SC-001", "AR-314", "AR-098")
def test_success_marks_the_volume_and_the_artifact_is_ready() -> None:
    known = downloading()
    known.change(ARTIFACTS, "qwen", status={"download": {"protocol": "XET", "message": "Verifying integrity..."}})
    known.end_job()
    plan = known.run(ARTIFACTS, "qwen")
    (patch,) = plan.patches
    assert (patch.part, patch.name) == (ARTIFACT_CLAIMS, CLAIM)
    assert conditions_of(plan) == {
        "RuntimeConfigReady": ("True", "DefaultConfigNotFound"),
        "CachePvcReady": ("True", "Ready"),
        "DownloadJobReady": ("True", "Ready"),
        "DownloadComplete": ("True", "Verified"),
        "Ready": ("True", "AllComponentsReady"),
    }
    assert plan.status is not None
    full = 100 << 20
    assert plan.status["progress"] == {
        "totalBytes": full,
        "downloadedBytes": full,
        "percentage": 100,
        "displayPercentage": "100 %",
    }
    assert plan.status["download"] == {"message": "Complete"}


@pytest.mark.spec("AR-107", "SC-009", "AR-100")
def test_once_ready_the_job_is_not_needed_any_more() -> None:
    known = ready()
    known.remove(ARTIFACT_JOBS, DOWNLOAD)
    plan = known.settle(ARTIFACTS, "qwen")
    assert value_of(plan) == "Ready"
    assert not plan.children
    assert not plan.patches
    assert "DownloadJobReady" not in conditions_of(plan)
    assert plan_of(known, ARTIFACTS) == plan


@pytest.mark.spec("AR-106", "AR-108", "SC-010", "AR-098", "AR-P07")
def test_a_lost_volume_is_filled_again_and_the_old_job_does_not_count() -> None:
    known = ready()
    known.remove(ARTIFACT_CLAIMS, CLAIM)
    plan = known.run(ARTIFACTS, "qwen")
    assert value_of(plan) == "Progressing"
    assert conditions_of(plan)["CachePvcReady"] == ("False", "ResourceNotReady")
    assert conditions_of(plan)["DownloadComplete"] == ("False", "Downloading")
    assert len(children_of(plan, ARTIFACT_CLAIMS)) == 1
    plan = known.run(ARTIFACTS, "qwen")
    assert [delete.name for delete in plan.deletes] == [DOWNLOAD]
    plan = known.run(ARTIFACTS, "qwen")
    assert [job["metadata"]["name"] for job in children_of(plan, ARTIFACT_JOBS)] == [DOWNLOAD]
    assert value_of(plan) == "Progressing"


@pytest.mark.spec("AR-105")
@pytest.mark.parametrize(("claim_age", "trusted"), [(60, True), (-60, False)])
def test_volumes_of_the_existing_operator_are_trusted_unless_they_are_younger(claim_age: int, trusted: bool) -> None:
    verified = condition("DownloadComplete", True, "Verified", since=NOW + timedelta(seconds=claim_age))
    known = cluster(status={"status": "Ready", "conditions": [verified]})
    known.run(ARTIFACTS, "qwen")
    known.later(60)
    known.change(ARTIFACTS, "qwen", status={"status": "Ready", "conditions": [verified]})
    known.bind_claim()
    plan = known.run(ARTIFACTS, "qwen")
    assert (value_of(plan) == "Ready") is trusted
    assert bool([patch for patch in plan.patches if patch.part is ARTIFACT_CLAIMS]) is trusted


@pytest.mark.spec("AR-043", "SC-013")
def test_a_missing_runtime_config_stops_everything_until_it_is_there() -> None:
    known = cluster(spec={**SIZED, "runtimeConfigName": "missing"})
    plan = known.run(ARTIFACTS, "qwen")
    assert not plan.children
    assert value_of(plan) == "Failed"
    assert conditions_of(plan)["RuntimeConfigReady"] == ("False", "ReferenceNotFound")
    found = make(AIM_CLUSTER_RUNTIME_CONFIG, "missing", spec={})
    known.put(next(part for part in known.cache.parts if part.name == "aimclusterruntimeconfigs"), found)
    assert known.run(ARTIFACTS, "qwen").children


@pytest.mark.spec("RC-111", "RC-112", "RC-P08", "AR-201", "AR-206", "AR-211", "SC-006", "SC-007", "SV-261", "AT-152")
@pytest.mark.parametrize(
    ("base", "local", "override", "own_class", "expected"),
    [
        ({"pvcHeadroomPercent": 15, "defaultStorageClassName": "longhorn"}, None, None, None, ("12Gi", "longhorn")),
        ({"pvcHeadroomPercent": 15, "defaultStorageClassName": "longhorn"}, None, None, "fast", ("12Gi", "fast")),
        ({"pvcHeadroomPercent": 15, "defaultStorageClassName": "longhorn"}, None, None, "", ("12Gi", None)),
        ({"pvcHeadroomPercent": 15}, {"defaultStorageClassName": "x"}, None, None, ("12Gi", "x")),
        ({"pvcHeadroomPercent": 15}, {"pvcHeadroomPercent": 0}, None, None, ("10Gi", None)),
        ({"pvcHeadroomPercent": 15}, None, "50", None, ("15Gi", None)),
    ],
)
def test_size_and_class_of_the_volume(
    base: JsonObject,
    local: JsonObject | None,
    override: str | None,
    own_class: str | None,
    expected: tuple[str, str | None],
) -> None:
    annotations = {} if override is None else {"aim.eai.amd.com/pvc-headroom-percent": override}
    configs = [make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"storage": base})]
    if local is not None:
        configs.append(make(AIM_RUNTIME_CONFIG, "default", namespace=TEAM, spec={"storage": local}))
    spec = {"size": "10Gi", **({} if own_class is None else {"storageClassName": own_class})}
    plan = plan_of(seen(artifact(spec=spec, annotations=annotations), *configs), ARTIFACTS)
    (claim,) = children_of(plan, ARTIFACT_CLAIMS)
    found = claim["spec"]["resources"]["requests"]["storage"], claim["spec"].get("storageClassName")
    assert found == expected


@pytest.mark.spec("AR-273", "SC-014")
def test_the_job_waits_for_the_binding() -> None:
    known = cluster()
    known.run(ARTIFACTS, "qwen")
    known.remove(STATUS_UPDATER_BINDINGS, "aim-engine-artifact-status-updater")
    plan = known.run(ARTIFACTS, "qwen")
    assert children_of(plan, STATUS_UPDATER_BINDINGS)
    assert not children_of(plan, ARTIFACT_JOBS)


@pytest.mark.spec("CC-309", "AR-113", "AR-405")
def test_warnings_about_s3_sources_come_once() -> None:
    known = cluster(uri="s3://bucket/llama", spec={**SIZED, "downloadFilter": {}})
    first = known.run(ARTIFACTS, "qwen")
    reasons = [event.reason for event in first.events]
    assert "ModelIdMissing" in reasons
    assert "DownloadFilterIgnored" in reasons
    assert "ModelIdMissing" not in [event.reason for event in known.run(ARTIFACTS, "qwen").events]
    (container,) = known.only(ARTIFACT_JOBS)["spec"]["template"]["spec"]["containers"]
    assert "AIM_DOWNLOAD_FILTER" not in environment(container)


@pytest.mark.spec("AR-425", "AR-426")
def test_last_used_is_the_deployment_that_mounts_the_volume() -> None:
    known = ready()
    used = NOW + timedelta(minutes=5)
    mounts = {"predictor": {"volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": CLAIM}}]}}
    user = make(INFERENCE_SERVICE, "chat", namespace=TEAM, created=used, spec=mounts)
    known.put(INFERENCE_SERVICES, user)
    plan = known.settle(ARTIFACTS, "qwen")
    assert plan.status is not None
    assert plan.status["lastUsed"] == "2026-11-21T12:05:00Z"
    known.remove(INFERENCE_SERVICES, "chat")
    after = known.settle(ARTIFACTS, "qwen")
    assert after.status is not None
    assert after.status["lastUsed"] == "2026-11-21T12:05:00Z"


@pytest.mark.spec("AR-426")
def test_of_a_thousand_users_a_pass_reads_the_newest_and_those_that_changed() -> None:
    known = ready()
    mounts = {"predictor": {"volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": CLAIM}}]}}
    for number in range(1000):
        created = NOW + timedelta(seconds=number)
        known.put(
            INFERENCE_SERVICES, make(INFERENCE_SERVICE, f"chat-{number}", namespace=TEAM, created=created, spec=mounts)
        )
    plan = known.settle(ARTIFACTS, "qwen")
    assert plan.status is not None
    assert plan.status["lastUsed"] == "2026-11-21T12:16:39Z"
    (newest,) = uses(known)
    assert newest.created == NOW + timedelta(seconds=999)

    changed = make(INFERENCE_SERVICE, "chat-7", namespace=TEAM, created=NOW, generation=2, spec=mounts)
    known.put(INFERENCE_SERVICES, changed)
    assert {use.generation for use in uses(known)} == {1, 2}
    assert len(uses(known)) == 2


@pytest.mark.spec("AR-420", "SC-011")
def test_mode_follows_the_owners() -> None:
    reference = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMTemplateCache", "name": "c", "uid": "u"}
    plan = plan_of(seen(artifact(spec=SIZED, owners=[reference])), ARTIFACTS)
    assert plan.status is not None
    assert plan.status["mode"] == "Dedicated"


@pytest.mark.spec("FW-019", "AR-032")
def test_a_stale_view_creates_nothing() -> None:
    known = cluster()
    known.make_stale(ARTIFACT_CLAIMS)
    plan = known.run(ARTIFACTS, "qwen")
    assert not plan.children
    assert plan.retry is not None


def test_pods_of_another_job_do_not_count() -> None:
    known = downloading()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    stranger = make(POD, "stray", namespace=TEAM, labels={"aim.eai.amd.com/cache.type": "artifact"}, spec=spec)
    known.put(next(part for part in known.cache.parts if part.name == "pods-artifacts"), stranger)
    assert value_of(known.run(ARTIFACTS, "qwen")) == "Progressing"


@pytest.mark.spec("RC-113", "RC-118", "AR-213")
def test_a_changed_config_touches_neither_the_volume_nor_the_job_that_are_there() -> None:
    known = cluster(spec=SIZED)
    for _ in range(3):
        known.run(ARTIFACTS, "qwen")
    volume, job = known.only(ARTIFACT_CLAIMS), known.only(ARTIFACT_JOBS)
    storage = {"pvcHeadroomPercent": 90, "defaultStorageClassName": "other"}
    later = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"storage": storage, "env": [{"name": "A", "value": "1"}]})
    known.put(next(part for part in known.cache.parts if part.name == "aimclusterruntimeconfigs"), later)
    plan = known.run(ARTIFACTS, "qwen")
    assert (children_of(plan, ARTIFACT_CLAIMS), children_of(plan, ARTIFACT_JOBS)) == ([], [])
    assert (plan.deletes, known.only(ARTIFACT_CLAIMS), known.only(ARTIFACT_JOBS)) == ((), volume, job)


@pytest.mark.spec("AR-829")
@pytest.mark.parametrize(("uri", "model"), [("s3://models/SmolLM-135M", "org/smol"), ("hf://org/smol", None)])
def test_a_known_model_id_is_not_mentioned(uri: str, model: str | None) -> None:
    given = {"modelId": model} if model else {}
    plan = Cluster(artifact(uri=uri, spec={"size": "2.2Gi", **given})).run(ARTIFACTS, "qwen")
    assert "ModelIdKnown" not in conditions_of(plan)


@pytest.mark.spec("SC-002", "AR-829")
def test_weights_from_s3_without_a_model_id() -> None:
    known = Cluster(artifact(uri="s3://models/SmolLM-135M", spec={"size": "2.2Gi"}))
    first = known.run(ARTIFACTS, "qwen")
    assert [event.reason for event in first.events if event.type is EventType.WARNING] == ["ModelIdMissing"]
    assert conditions_of(first)["ModelIdKnown"] == ("False", "ModelIdMissing")
    assert "set spec.modelId" in message_of(first, "ModelIdKnown")
    known.settle(ARTIFACTS, "qwen")
    known.bind_claim()
    known.start_pod()
    known.end_job()
    done = known.settle(ARTIFACTS, "qwen")
    assert value_of(done) == "Ready"
    assert done.status is not None
    assert (done.status["displaySize"], done.status["allocatedSize"]) == ("2.2 GiB", "3Gi")
    assert done.status["progress"]["percentage"] == 100
