"""Disks for LoRA adapters, and the adapters that are downloaded to them (LA-010 to LA-027)."""

from datetime import timedelta
from typing import Any

import pytest
from support.artifacts import (
    TEAM,
    Cluster,
    children_of,
    conditions_of,
    environment,
    message_of,
    plan_of,
    seen,
    source,
    template,
    template_cache,
)
from support.artifacts import artifact as weights
from support.builders import EARLIER, condition, make, owner

from aim_domain import labels
from aim_domain.kinds import AIM_ARTIFACT, AIM_CLUSTER_RUNTIME_CONFIG
from aim_domain.naming import adapter_folder, claim_name
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACT_JOBS, ARTIFACTS, TEMPLATE_CACHES
from controller_runtime import JsonObject
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM

URI = "hf://team/sql-lora"
DISK_UID, UID = "disk-uid", "sql-uid"
CLAIM = claim_name("disk", DISK_UID)


def disk(size: str = "1Gi", **members: Any) -> JsonObject:
    spec = {"type": "adapterDisk", "size": size}
    return make(AIM_ARTIFACT, "disk", namespace=TEAM, uid=DISK_UID, spec=spec, **members)


def adapter(name: str = "sql", uid: str = UID, *, size: str | None = "10Mi", **members: Any) -> JsonObject:
    spec = {"type": "adapter", "disk": "disk", "sourceUri": URI, **({"size": size} if size else {})}
    return make(AIM_ARTIFACT, name, namespace=TEAM, uid=uid, spec=spec, **members)


def claim(phase: str = "Bound", uid: str = "claim-uid") -> JsonObject:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return make(
        PERSISTENT_VOLUME_CLAIM, CLAIM, namespace=TEAM, uid=uid, owners=[owner(disk())],
        labels={labels.CACHE_NAME: "disk"}, spec=spec, status={"phase": phase},
    )  # fmt: skip


def variables_of(job: JsonObject) -> dict[str, Any]:
    [container] = job["spec"]["template"]["spec"]["containers"]
    return environment(container)


@pytest.mark.spec("LA-010")
def test_a_disk_is_a_claim_and_nothing_is_downloaded_to_it() -> None:
    known = Cluster(disk())
    plan = known.run(ARTIFACTS, "disk")
    [made] = children_of(plan, ARTIFACT_CLAIMS)
    assert (made["spec"]["accessModes"], children_of(plan, ARTIFACT_JOBS)) == (["ReadWriteMany"], [])
    known.settle(ARTIFACTS, "disk")
    found = known.status(ARTIFACTS, "disk")
    assert (found["status"], found["persistentVolumeClaim"]) == ("Ready", CLAIM), "a claim may wait for its first pod"
    assert known.names(ARTIFACT_JOBS) == []


@pytest.mark.spec("LA-010")
def test_a_disk_counts_towards_the_storage_limits_and_its_adapters_do_not() -> None:
    limit = make(
        AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"artifactStorageQuota": {"defaultNamespaceLimit": "500Mi"}}
    )
    refused = plan_of(seen(disk(), limit), ARTIFACTS, "disk")
    assert children_of(refused, ARTIFACT_CLAIMS) == []
    assert conditions_of(refused)["StorageQuotaReady"][0] == "False"
    taken = plan_of(seen(disk(), claim(), adapter(size="10Gi"), limit), ARTIFACTS, "sql")
    assert "StorageQuotaReady" not in conditions_of(taken)


@pytest.mark.spec("LA-021", "LA-024")
def test_an_adapter_is_downloaded_into_its_folder_and_marked_on_its_artifact() -> None:
    known = Cluster(disk(), claim(), adapter())
    known.settle(ARTIFACTS, "sql")
    job = known.only(ARTIFACT_JOBS)
    [volume] = job["spec"]["template"]["spec"]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == CLAIM
    variables = variables_of(job)
    assert variables["TARGET_DIR"] == f"/cache/{adapter_folder('sql', UID)}"
    assert (variables["MOUNT_PATH"], variables["AIM_ADAPTER_FOLDERS"]) == ("/cache", adapter_folder("sql", UID))
    known.start_pod()
    known.end_job()
    known.settle(ARTIFACTS, "sql")
    found = known.status(ARTIFACTS, "sql")
    assert (found["status"], "persistentVolumeClaim" in found) == ("Ready", False)
    assert known.raw(ARTIFACTS, "sql")["metadata"]["annotations"][labels.ANNOTATION_ADAPTER_VERIFIED] == "claim-uid"
    assert labels.ANNOTATION_DOWNLOAD_VERIFIED not in (
        known.raw(ARTIFACT_CLAIMS, CLAIM)["metadata"].get("annotations") or {}
    )


@pytest.mark.spec("LA-024")
def test_on_another_disk_it_is_downloaded_again() -> None:
    marked = adapter(annotations={labels.ANNOTATION_ADAPTER_VERIFIED: "former-uid"}, status={"status": "Ready"})
    known = Cluster(disk(), claim(), marked)
    known.settle(ARTIFACTS, "sql")
    assert len(known.names(ARTIFACT_JOBS)) == 1
    same = adapter(annotations={labels.ANNOTATION_ADAPTER_VERIFIED: "claim-uid"}, status={"status": "Ready"})
    plan = plan_of(seen(disk(), claim(), same), ARTIFACTS, "sql")
    assert (children_of(plan, ARTIFACT_JOBS), conditions_of(plan)["Ready"][0]) == ([], "True")


@pytest.mark.spec("LA-021")
def test_a_user_cannot_send_an_adapter_elsewhere() -> None:
    elsewhere = adapter()
    elsewhere["spec"]["env"] = [{"name": "TARGET_DIR", "value": "/cache/other"}]
    known = Cluster(disk(), claim(), elsewhere)
    known.settle(ARTIFACTS, "sql")
    assert variables_of(known.only(ARTIFACT_JOBS))["TARGET_DIR"] == f"/cache/{adapter_folder('sql', UID)}"


@pytest.mark.spec("LA-022")
@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ([], "AdapterDiskNotFound"),
        ([make(AIM_ARTIFACT, "disk", namespace=TEAM, spec={"sourceUri": URI})], "AdapterDiskNotFound"),
        ([disk()], "AdapterDiskNotReady"),
    ],
)
def test_an_adapter_waits_for_its_disk(others: list[JsonObject], reason: str) -> None:
    plan = plan_of(seen(adapter(), *others), ARTIFACTS, "sql")
    assert conditions_of(plan)["CachePvcReady"] == ("False", reason)
    assert f"{TEAM}/disk" in message_of(plan, "CachePvcReady")
    assert (children_of(plan, ARTIFACT_CLAIMS), children_of(plan, ARTIFACT_JOBS)) == ([], [])


@pytest.mark.spec("LA-023")
def test_what_does_not_fit_on_the_disk_does_not_begin() -> None:
    first = adapter("first", "first-uid", size="700Mi")
    known = [disk(), claim(), first, adapter(size="400Mi")]
    plan = plan_of(seen(*known), ARTIFACTS, "sql")
    assert conditions_of(plan)["CachePvcReady"] == ("False", "AdapterDiskFull")
    assert "others take 700 MiB of 1 GiB" in message_of(plan, "CachePvcReady")
    assert conditions_of(plan_of(seen(*known), ARTIFACTS, "first"))["CachePvcReady"][1] != "AdapterDiskFull"


@pytest.mark.spec("LA-026")
def test_the_job_says_whose_folders_stay() -> None:
    known = Cluster(disk(), claim(), adapter(), adapter("other", "other-uid"))
    known.settle(ARTIFACTS, "sql")
    folders = variables_of(known.only(ARTIFACT_JOBS))["AIM_ADAPTER_FOLDERS"].split(",")
    assert folders == sorted([adapter_folder("sql", UID), adapter_folder("other", "other-uid")])


@pytest.mark.spec("LA-027")
def test_no_cache_takes_an_adapter_for_the_weights_of_a_model() -> None:
    found = adapter(status={"status": "Ready", "conditions": [condition("Ready", True)]})
    plan = plan_of(seen(template_cache(), template(source(uri=URI)), found, disk(), claim()), TEMPLATE_CACHES)
    [made] = children_of(plan, ARTIFACTS)
    assert made["spec"].get("type") is None


@pytest.mark.spec("LA-002")
@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"type": "adapter", "sourceUri": URI}, "spec.disk is missing"),
        ({"type": "adapterDisk"}, "spec.size is missing"),
        ({"type": "adapterDisk", "size": "0"}, "spec.size is missing"),
    ],
)
def test_what_an_older_definition_let_through_is_reported(spec: JsonObject, problem: str) -> None:
    plan = plan_of(seen(make(AIM_ARTIFACT, "sql", namespace=TEAM, spec=spec)), ARTIFACTS, "sql")
    assert conditions_of(plan)["ConfigValid"] == ("False", "InvalidSpec")
    assert problem in message_of(plan, "ConfigValid")
    assert children_of(plan, ARTIFACT_CLAIMS) == []


@pytest.mark.spec("LA-021")
def test_an_adapter_that_waits_keeps_no_room_from_weights() -> None:
    quota = {"artifactStorageQuota": {"defaultNamespaceLimit": "3Gi"}}
    limit = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec=quota)
    older = adapter(size="2Gi", created=EARLIER - timedelta(days=1))
    plan = plan_of(seen(older, weights(spec={"size": "1Gi"}), limit), ARTIFACTS)
    assert len(children_of(plan, ARTIFACT_CLAIMS)) == 1
