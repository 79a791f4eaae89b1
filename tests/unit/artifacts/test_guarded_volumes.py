"""What keeps a volume from being made, made twice, taken over or counted wrongly."""

from typing import Any

import pytest
from support.artifacts import (
    TEAM,
    Cluster,
    artifact,
    children_of,
    conditions_of,
    namespace,
    plan_of,
    seen,
)
from support.builders import make, owner

from aim_artifacts.claim import build_claim
from aim_artifacts.limits.eviction import Evictables
from aim_artifacts.limits.quota import Blocked, Request, Volume, admit
from aim_domain import AIMArtifact, AIMClusterRuntimeConfig, RuntimeConfigSpec, labels
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, PERSISTENT_VOLUME_CLAIM
from aim_domain.naming import claim_name
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACT_JOBS,
    ARTIFACTS,
    CLUSTER_RUNTIME_CONFIGS,
)
from aim_domain.storage_limits import StorageLimits, counted_bytes, storage_limits
from controller_runtime import JsonObject, WriteMode
from controller_runtime.core import Namespace, PersistentVolumeClaim
from controller_runtime.testing import NOW

GI = 1 << 30
SIZED = {"size": "10Gi"}


def config(**quota: Any) -> JsonObject:
    return make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"artifactStorageQuota": quota})


def claim(name: str, *, owners: list[JsonObject], **members: Any) -> JsonObject:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "11Gi"}}}
    marks = {labels.CACHE_NAME: "qwen"}
    return make(PERSISTENT_VOLUME_CLAIM, name, namespace=TEAM, owners=owners, labels=marks, spec=spec, **members)


@pytest.mark.spec("AR-213", "AR-447")
def test_a_volume_is_only_ever_created_and_within_both_limits() -> None:
    known = AIMArtifact.model_validate(artifact())
    child = build_claim(known, RuntimeConfigSpec(), 10 * GI, StorageLimits(namespace=20 * GI, cluster=90 * GI))
    assert child.mode is WriteMode.CREATE
    assert [(quota.value, quota.most, quota.takes) for quota in child.quotas] == [
        (TEAM, 20 * GI, 11 * GI),
        ("", 90 * GI, 11 * GI),
    ]
    assert build_claim(known, RuntimeConfigSpec(), GI, StorageLimits()).quotas == ()


@pytest.mark.spec("AR-250", "AR-252", "AR-701")
def test_a_download_is_only_ever_created_and_runs_as_nobody_special() -> None:
    known = Cluster(artifact(spec=SIZED))
    known.run(ARTIFACTS, "qwen")
    (job,) = [child for child in known.run(ARTIFACTS, "qwen").children if child.part is ARTIFACT_JOBS]
    assert job.mode is WriteMode.CREATE
    (container,) = job.body["spec"]["template"]["spec"]["containers"]
    assert (container["securityContext"]["runAsUser"], container["securityContext"]["runAsGroup"]) == (1000, 1000)


@pytest.mark.spec("AR-446")
@pytest.mark.parametrize(
    ("kind", "version", "counts"),
    [
        ("AIMArtifact", "aim.eai.amd.com/v1alpha1", True),
        ("AIMArtifact", "example.com/v1", False),
        ("AIMService", "aim.eai.amd.com/v1alpha1", False),
    ],
)
def test_only_volumes_of_artifacts_count(kind: str, version: str, counts: bool) -> None:
    by = {"apiVersion": version, "kind": kind, "name": "qwen", "uid": "u", "controller": True}
    found = PersistentVolumeClaim.model_validate(claim("c", owners=[by]))
    assert counted_bytes(found) == (11 * GI if counts else 0)


@pytest.mark.spec("AR-210", "AR-041")
def test_a_volume_of_this_name_that_is_another_s_is_not_touched() -> None:
    known = artifact(spec=SIZED)
    name = claim_name("qwen", known["metadata"]["uid"])
    plan = plan_of(seen(known, claim(name, owners=[owner(artifact("other", uid="other"))])), ARTIFACTS)
    assert (plan.children, plan.deletes) == ((), ())
    assert conditions_of(plan)["CachePvcReady"] == ("False", "AlreadyExists")
    assert conditions_of(plan)["ConfigValid"][0] == "False"
    assert plan.status is not None
    (message,) = [one["message"] for one in plan.status["conditions"] if one["type"] == "CachePvcReady"]
    assert message == (
        f"PersistentVolumeClaim {TEAM}/{name} exists and does not belong to AIMArtifact {TEAM}/qwen; "
        "delete one of the two"
    )


@pytest.mark.spec("AR-P33", "AR-214")
def test_a_volume_that_goes_is_waited_for() -> None:
    known = artifact(spec=SIZED)
    name = claim_name("qwen", known["metadata"]["uid"])
    going = claim(name, owners=[owner(known)], deleting=NOW, finalizers=["kubernetes.io/pvc-protection"])
    plan = plan_of(seen(known, going), ARTIFACTS)
    assert not children_of(plan, ARTIFACT_CLAIMS)
    assert conditions_of(plan)["CachePvcReady"] == ("False", "ResourceNotReady")
    assert "is being deleted; it is created again once it is gone" in str(plan.status)


@pytest.mark.spec("AR-443", "AR-440")
def test_a_namespace_without_limit_still_has_that_of_the_cluster() -> None:
    quota = AIMClusterRuntimeConfig.model_validate(config(clusterLimit="9Gi", defaultNamespaceLimit="1Gi"))
    free = {"aim.eai.amd.com/artifact-storage-quota": "unlimited"}
    assert storage_limits(quota, Namespace.model_validate(namespace(annotations=free))) == StorageLimits(None, 9 * GI)


@pytest.mark.spec("AR-449", "FW-019", "AR-801")
@pytest.mark.parametrize(
    ("part", "configs"), [(CLUSTER_RUNTIME_CONFIGS, []), (ARTIFACT_CLAIMS, [config(clusterLimit="90Gi")])]
)
def test_while_limits_or_volumes_may_be_unknown_nobody_gets_one(part: Any, configs: list[JsonObject]) -> None:
    known = Cluster(artifact(spec=SIZED), namespace(), *configs)
    known.make_stale(part)
    plan = known.run(ARTIFACTS, "qwen")
    assert not children_of(plan, ARTIFACT_CLAIMS)
    assert plan.retry is not None


def refused(limits: StorageLimits, *volumes: Volume, others: tuple[Request, ...] = ()) -> Blocked:
    wanted = Request("2026-01-02", "a", "x", 10 * GI)
    found = admit(wanted, others, volumes, lambda _: limits, Evictables())
    assert found is not None
    return found


@pytest.mark.spec("AR-470", "AR-485", "SC-063")
def test_a_refusal_names_what_is_used_of_each_limit_and_what_is_kept() -> None:
    limits = StorageLimits(namespace=15 * GI, cluster=40 * GI)
    waiting = Request("2026-01-01", "b", "y", 4 * GI, claims=True)
    message = refused(limits, Volume("a", 8 * GI), Volume("b", 5 * GI), others=(waiting,)).message
    assert message == (
        "AIMArtifact a/x needs 10 GiB; namespace a uses 8 GiB of 15 GiB; the cluster uses 13 GiB of 40 GiB; "
        "delete unused artifacts or raise the limit"
    )
    kept = Request("2026-01-01", "b", "y", 31 * GI, claims=True)
    assert (
        "31 GiB are kept for artifacts that wait already"
        in refused(StorageLimits(cluster=40 * GI), Volume("a", 8 * GI), Volume("b", 5 * GI), others=(kept,)).message
    )
