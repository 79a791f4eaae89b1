"""Storage limits: what fits, what is refused, and how it is shown."""

from datetime import timedelta
from typing import Any

import pytest
from support.artifacts import (
    ARTIFACT,
    SERVICE,
    TEAM,
    Cluster,
    artifact,
    children_of,
    conditions_of,
    namespace,
    plan_of,
    seen,
    value_of,
)
from support.builders import make
from support.deciding import decide
from support.woken import woken as all_woken

from aim_artifacts.limits.admission import movable
from aim_artifacts.limits.eviction import Evictables
from aim_artifacts.limits.quota import Refusal, Request, Volume, admit, on_their_way
from aim_artifacts.metrics import StorageReadings
from aim_domain import AIMClusterRuntimeConfig, labels
from aim_domain.kinds import AIM_ARTIFACT, AIM_CLUSTER_RUNTIME_CONFIG, PERSISTENT_VOLUME_CLAIM
from aim_domain.parts import ARTIFACT_CLAIMS, ARTIFACTS, CLUSTER_RUNTIME_CONFIGS
from aim_domain.storage_limits import StorageLimits, storage_limits, storage_request
from controller_runtime import JsonObject, Key
from controller_runtime.core import Namespace, PersistentVolumeClaim
from controller_runtime.testing import NOW

GI = 1 << 30


def config(**quota: Any) -> JsonObject:
    return make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"artifactStorageQuota": quota})


def request(size: int, name: str = "x", space: str = "a", created: str = "2026-01-02") -> Request:
    return Request(created, space, name, size * GI)


def reason(
    wanted: Request, *volumes: Volume, limits: StorageLimits, others: tuple[Request, ...] = ()
) -> Refusal | None:
    blocked = admit(wanted, others, volumes, lambda _: limits, Evictables())
    return None if blocked is None else blocked.reason


@pytest.mark.spec("AR-441", "AR-442", "AR-444", "SC-061", "AR-440")
@pytest.mark.parametrize(
    ("annotation", "limit"),
    [("200Gi", 200), ("unlimited", None), ("Unlimited", None), (None, 50), ("oops", 50), ("-1", 50), ("0", 0)],
)
def test_limit_of_a_namespace(annotation: str | None, limit: int | None) -> None:
    annotations = {} if annotation is None else {"aim.eai.amd.com/artifact-storage-quota": annotation}
    cluster = AIMClusterRuntimeConfig.model_validate(config(defaultNamespaceLimit="50Gi"))
    found = storage_limits(cluster, Namespace.model_validate(namespace(annotations=annotations)))
    assert found.namespace == (None if limit is None else limit * GI)
    assert found.cluster is None
    assert (found.bad_annotation is not None) is (annotation in {"oops", "-1"})


@pytest.mark.spec("AR-445", "AR-446", "AR-470", "SC-060")
def test_reaching_the_limit_exactly_is_allowed() -> None:
    limits = StorageLimits(cluster=100 * GI)
    assert reason(request(40), Volume("b", 60 * GI), limits=limits) is None
    assert reason(request(41), Volume("b", 60 * GI), limits=limits) is Refusal.CLUSTER


@pytest.mark.spec("AR-470", "SC-062", "SC-068", "AR-448")
def test_reasons() -> None:
    limits = StorageLimits(namespace=10 * GI, cluster=100 * GI)
    assert reason(request(11), limits=limits) is Refusal.TOO_LARGE
    assert reason(request(5), Volume("a", 6 * GI), limits=limits) is Refusal.NAMESPACE
    assert reason(request(5), Volume("b", 96 * GI), limits=limits) is Refusal.CLUSTER
    assert reason(request(5), Volume("a", 6 * GI, leaving=True), limits=limits) is Refusal.WAITING


@pytest.mark.spec("AR-470", "AR-485")
def test_who_waits_for_room_is_reported_how_much_and_who_does_not_what_to_do() -> None:
    limits = StorageLimits(namespace=10 * GI)
    messages = []
    for leaving in (True, False):
        blocked = admit(request(5), (), [Volume("a", 6 * GI, leaving=leaving)], lambda _: limits, Evictables())
        assert blocked is not None
        messages.append(blocked.message)
    reported = "AIMArtifact a/x needs 5 GiB; namespace a uses 6 GiB of 10 GiB; "
    assert messages == [f"{reported}1 GiB must be freed", f"{reported}delete unused artifacts or raise the limit"]


@pytest.mark.spec("AR-449", "AR-471", "SC-073")
def test_of_two_that_compete_the_older_wins_and_the_smaller_is_not_held_up() -> None:
    limits = StorageLimits(cluster=40 * GI)
    older, younger = request(30, "older", created="2026-01-01"), request(30, "younger")
    assert reason(older, limits=limits, others=(younger,)) is None
    assert reason(younger, limits=limits, others=(older,)) is Refusal.CLUSTER
    huge = request(40, "huge", created="2026-01-01")
    assert reason(request(5), Volume("b", 10 * GI), limits=limits, others=(huge,)) is None


@pytest.mark.spec("AR-449", "AR-471")
@pytest.mark.parametrize(("first", "second"), [(("a", "a"), ("a", "b")), (("a", "b"), ("b", "a"))])
def test_of_two_of_one_moment_namespace_and_then_name_decide(first: tuple[str, str], second: tuple[str, str]) -> None:
    limits = StorageLimits(cluster=40 * GI)
    one, other = (request(30, name, space) for space, name in (first, second))
    assert reason(one, limits=limits, others=(other, one)) is None
    assert reason(other, limits=limits, others=(one, other)) is Refusal.CLUSTER
    assert on_their_way((other, one), (), lambda _: limits, Evictables()) == [one]


@pytest.mark.spec("AR-449", "AR-471")
def test_artifacts_of_one_moment_get_their_volumes_by_name() -> None:
    twins = [artifact(name, uid=f"uid-{name}", spec={"size": "10Gi"}) for name in ("b", "a")]
    known = seen(*twins, namespace(), config(clusterLimit="15Gi"))
    assert [key.name for key in movable(known.view(), TEAM)] == ["a"]
    assert not children_of(plan_of(known, ARTIFACTS, "b"), ARTIFACT_CLAIMS)
    assert children_of(plan_of(known, ARTIFACTS, "a"), ARTIFACT_CLAIMS)


@pytest.mark.spec("AR-449", "AR-471")
@pytest.mark.parametrize(
    "older",
    [
        {"spec": {}},
        {"spec": {"size": "10Gi"}, "deleting": NOW},
        {"spec": {"size": "10Gi"}, "annotations": {labels.ANNOTATION_PAUSED: "true"}},
        {"spec": {"size": "10Gi", "runtimeConfigName": "absent"}},
    ],
    ids=["without a size", "being deleted", "paused", "without its config"],
)
def test_who_could_not_make_a_volume_holds_up_nobody(older: JsonObject) -> None:
    first = artifact("first", uid="uid-1", created=NOW - timedelta(hours=1), **older)
    second = artifact("second", uid="uid-2", spec={"size": "10Gi"})
    known = seen(first, second, namespace(), config(clusterLimit="15Gi"))
    assert children_of(plan_of(known, ARTIFACTS, "second"), ARTIFACT_CLAIMS)


@pytest.mark.spec("AR-444")
def test_a_bad_annotation_is_reported_whether_or_not_the_volume_is_there() -> None:
    bad = namespace(annotations={"aim.eai.amd.com/artifact-storage-quota": "oops"})
    known = Cluster(artifact(spec={"size": "10Gi"}), bad, config(defaultNamespaceLimit="50Gi"))
    without = plan_of(known, ARTIFACTS)
    known.run(ARTIFACTS, "qwen")
    known.put(ARTIFACTS, artifact(spec={"size": "10Gi"}, status={}))
    with_volume = plan_of(known, ARTIFACTS)
    for plan in (without, with_volume):
        (reported,) = [event for event in plan.events if event.reason == "InvalidQuotaAnnotation"]
        assert "'oops', which is not a quantity" in reported.message


@pytest.mark.spec("AR-485", "AR-486", "AR-472", "AR-099", "SC-062")
def test_a_blocked_artifact_waits_until_the_limit_is_raised() -> None:
    known = Cluster(artifact(spec={"size": "10Gi"}), namespace(), config(clusterLimit="10Gi"))
    plan = known.run(ARTIFACTS, "qwen")
    assert not children_of(plan, ARTIFACT_CLAIMS)
    assert value_of(plan) == "Pending"
    conditions = conditions_of(plan)
    assert conditions["StorageQuotaReady"] == conditions["Ready"] == ("False", "ExceedsQuotaLimit")
    assert "CachePvcReady" not in conditions
    assert plan.status is not None
    assert plan.status["displaySize"] == "10 GiB"
    assert "allocatedSize" not in plan.status
    assert plan.requeue_after == 60
    known.put(CLUSTER_RUNTIME_CONFIGS, config(clusterLimit="20Gi"))
    plan = known.run(ARTIFACTS, "qwen")
    assert children_of(plan, ARTIFACT_CLAIMS)
    assert conditions_of(plan)["StorageQuotaReady"] == ("True", "QuotaAvailable")
    assert conditions_of(known.settle(ARTIFACTS, "qwen"))["StorageQuotaReady"] == ("True", "QuotaAvailable")


@pytest.mark.spec("AR-446", "AR-471", "SC-072", "AR-P33")
def test_volumes_count_until_they_are_gone() -> None:
    first = artifact("first", uid="uid-1", spec={"size": "10Gi"})
    known = Cluster(
        first, artifact("second", uid="uid-2", spec={"size": "10Gi"}), namespace(), config(clusterLimit="15Gi")
    )
    assert not children_of(known.run(ARTIFACTS, "second"), ARTIFACT_CLAIMS)
    known.settle(ARTIFACTS, "first")
    plan = known.run(ARTIFACTS, "second")
    assert conditions_of(plan)["StorageQuotaReady"] == ("False", "ClusterQuotaExceeded")
    claim = known.only(ARTIFACT_CLAIMS)["metadata"]["name"]
    known.change(ARTIFACT_CLAIMS, claim, metadata={"deletionTimestamp": "2026-11-21T12:00:00Z"})
    plan = known.run(ARTIFACTS, "second")
    assert conditions_of(plan)["StorageQuotaReady"] == ("False", "WaitingForEviction")
    assert known.raw(ARTIFACT_CLAIMS, claim)["metadata"]["namespace"] == TEAM


@pytest.mark.spec("AR-470")
def test_without_limits_nothing_is_said() -> None:
    plan = plan_of(seen(artifact(spec={"size": "10Gi"}), namespace()), ARTIFACTS)
    assert "StorageQuotaReady" not in conditions_of(plan)
    assert children_of(plan, ARTIFACT_CLAIMS)


def crowd(*objects: JsonObject) -> list[JsonObject]:
    """Twenty artifacts of 10Gi each, the first one the oldest, and whatever else there is."""
    waiting = [
        artifact(f"a{number:02}", uid=f"uid-{number}", spec={"size": "10Gi"}, created=NOW + timedelta(seconds=number))
        for number in range(20)
    ]
    return [*waiting, namespace(), *objects]


@pytest.mark.spec("AR-470")
@pytest.mark.parametrize("limits", [[], [config(clusterLimit="9Gi")], [config(defaultNamespaceLimit="9Gi")]])
def test_a_pass_looks_at_others_only_when_they_can_matter(limits: list[JsonObject]) -> None:
    known = seen(*crowd(*limits))
    view = known.view()
    plan = decide(ARTIFACT, known.object(ARTIFACTS, TEAM, "a19"), view, known.now)
    assert bool(children_of(plan, ARTIFACT_CLAIMS)) is not bool(limits)
    assert not [read for read in view.reads.indexes.values() if read.index == "waiting"]
    assert {read.key.name for read in view.reads.objects.values() if read.part == ARTIFACTS.name} == set()
    claims = {read for read in view.reads.indexes.values() if read.part == ARTIFACT_CLAIMS.name}
    assert len(claims) == len(limits)


@pytest.mark.spec("AR-471", "AR-472")
@pytest.mark.parametrize(
    ("limits", "woken"),
    [
        ([], []),
        ([config(clusterLimit="23Gi")], ["a00", "a01"]),
        ([config(defaultNamespaceLimit="34Gi")], ["a00", "a01", "a02"]),
        ([config(clusterLimit="9Gi")], []),
    ],
)
def test_a_volume_that_goes_wakes_the_oldest_that_fit(limits: list[JsonObject], woken: list[str]) -> None:
    known = seen(*crowd(*limits))
    assert [key.name for key in movable(known.view(), TEAM)] == woken


@pytest.mark.spec("AR-472")
def test_a_namespace_is_not_woken_for_the_volumes_of_another() -> None:
    known = seen(*crowd(config(defaultNamespaceLimit="34Gi")))
    assert list(movable(known.view(), "elsewhere")) == []


@pytest.mark.spec("AR-472", "FW-502")
@pytest.mark.parametrize("after", ["gone", "being deleted", "paused", "larger"])
def test_who_gives_up_its_place_wakes_those_that_now_fit(after: str) -> None:
    known = seen(*crowd(config(clusterLimit="23Gi")))
    before = known.stored[ARTIFACTS, Key(TEAM, "a00")]
    changes: dict[str, JsonObject | None] = {
        "gone": None,
        "being deleted": with_metadata(before, deletionTimestamp="2026-11-21T12:00:00Z"),
        "paused": with_metadata(before, annotations={labels.ANNOTATION_PAUSED: "true"}),
        "larger": {**before, "spec": {**before["spec"], "size": "11Gi"}},
    }
    found = all_woken(SERVICE, known, ARTIFACTS, before, changes[after]) - {f"artifact:{TEAM}/a00"}
    assert found == (set() if after == "larger" else {f"artifact:{TEAM}/a01", f"artifact:{TEAM}/a02"})


@pytest.mark.spec("AR-472")
def test_who_has_no_place_in_the_line_wakes_nobody_by_leaving() -> None:
    known = Cluster(*crowd(config(clusterLimit="23Gi")))
    known.settle(ARTIFACTS, "a00")
    before = known.raw(ARTIFACTS, "a00")
    leaving = with_metadata(before, deletionTimestamp="2026-11-21T12:00:00Z")
    assert all_woken(SERVICE, known, ARTIFACTS, leaving, None) <= {f"artifact:{TEAM}/a00"}


def with_metadata(obj: JsonObject, **members: Any) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], **members}}


@pytest.mark.spec("FW-286")
def test_metrics_tell_what_is_allocated_in_each_namespace() -> None:
    def claim(name: str, space: str, size: str | None) -> JsonObject:
        requests = {} if size is None else {"storage": size}
        ours = {"aim.eai.amd.com/cache.name": name}
        spec = {"resources": {"requests": requests}}
        return make(PERSISTENT_VOLUME_CLAIM, name, namespace=space, labels=ours, spec=spec)

    cache = seen(claim("x", "a", "2Gi"), claim("y", "a", "512Mi"), claim("z", "b", "1Gi"), claim("odd", "b", None))
    assert SERVICE.readings(cache.cache) == {
        "aim_artifact_allocated_bytes": [({"namespace": "a"}, 2.5 * GI), ({"namespace": "b"}, 1.0 * GI)],
        "aim_artifact_limit_bytes": [],
        "aim_artifact_cluster_limit_bytes": [],
        "aim_artifact_downloads": [],
        "aim_artifact_download_missing_bytes": [],
    }


@pytest.mark.spec("FW-560")
def test_metrics_tell_limits_and_downloads_that_run() -> None:
    def artifact(name: str, status: str, **progress: int) -> JsonObject:
        return make(AIM_ARTIFACT, name, namespace="a", status={"status": status, "progress": progress})

    volume = make(
        PERSISTENT_VOLUME_CLAIM,
        "x",
        namespace="a",
        labels={"aim.eai.amd.com/cache.name": "x"},
        spec={"resources": {"requests": {"storage": "1Gi"}}},
    )
    cache = seen(
        config(clusterLimit="9Gi", defaultNamespaceLimit="4Gi"),
        volume,
        artifact("runs", "Progressing", totalBytes=100, downloadedBytes=30),
        artifact("begins", "Progressing", totalBytes=50),
        artifact("done", "Ready", totalBytes=70, downloadedBytes=70),
        make(AIM_ARTIFACT, "new", namespace="a"),
    )
    reported = SERVICE.readings(cache.cache)
    assert reported["aim_artifact_limit_bytes"] == [({"namespace": "a"}, 4.0 * GI)]
    assert reported["aim_artifact_cluster_limit_bytes"] == [({}, 9.0 * GI)]
    assert reported["aim_artifact_downloads"] == [({"namespace": "a"}, 2.0)]
    assert reported["aim_artifact_download_missing_bytes"] == [({"namespace": "a"}, 120.0)]


@pytest.mark.spec("FW-286", "FW-459")
def test_metrics_decode_a_claim_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, read = {"x": "1Gi"}, list[str]()

    def claim(name: str) -> JsonObject:
        ours = {"aim.eai.amd.com/cache.name": name}
        spec = {"resources": {"requests": {"storage": sizes[name]}}}
        return make(PERSISTENT_VOLUME_CLAIM, name, namespace="a", labels=ours, spec=spec)

    def request(one: PersistentVolumeClaim) -> int | str | None:
        read.append(one.name)
        return storage_request(one)

    monkeypatch.setattr("aim_artifacts.metrics.storage_request", request)
    cache, readings = seen(claim("x")), StorageReadings()
    reported = [readings(cache.cache) for _ in range(3)]
    assert read == ["x"]
    sizes["x"] = "2Gi"
    cache.put(ARTIFACT_CLAIMS, claim("x"))
    reported.append(readings(cache.cache))
    assert read == ["x", "x"]
    assert [[size for _, size in one["aim_artifact_allocated_bytes"]] for one in reported] == [
        [GI],
        [GI],
        [GI],
        [2 * GI],
    ]
