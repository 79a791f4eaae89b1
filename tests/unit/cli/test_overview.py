"""The installation at a glance, its caches and its queues. No cluster."""

import time
from datetime import timedelta

import pytest
from support.asked import Objects
from support.builders import condition, make

from aim_cli.cluster.refs import JsonObject, Ref
from aim_cli.cluster.targets import Where
from aim_cli.errors import Exit, UnreachableError
from aim_cli.installation.attention import likeness
from aim_cli.installation.overview import gpus_of, leaders_of, overview
from aim_cli.installation.queues import Page, answer
from aim_cli.objects.caches import caches, limits_of, quotas_of
from aim_cli.why.holders import Holder, holders
from aim_domain import kinds, labels
from aim_domain.kind_names import (
    AIM_ARTIFACT,
    AIM_CLUSTER_RUNTIME_CONFIG,
    AIM_MODEL,
    AIM_SERVICE,
    AIM_SERVICE_TEMPLATE,
    LEASE,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    KindName,
)
from aim_domain.storage_limits import storage_limits as limits_that_hold
from controller_runtime import timestamp
from controller_runtime.testing import NOW

TEAM = "team"
LONG_AGO = NOW - timedelta(hours=2)


def untrue(kind: KindName, name: str, status: str, since: object = LONG_AGO) -> tuple[KindName, JsonObject]:
    reported = condition("ModelReady", False, "Because", f"{name} is sad as {status}", since)  # type: ignore[arg-type]
    return kind, make(kind, name, namespace=TEAM, spec={}, status={"status": status, "conditions": [reported]})


def lease(service: str, ago: float, holder: str = "me") -> JsonObject:
    renewed = timestamp(NOW - timedelta(seconds=ago))
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return make(LEASE, f"aim-{service}", namespace="aim-system", spec=spec)


@pytest.mark.spec("FW-608")
def test_what_needs_somebody_first_comes_first() -> None:
    known = Objects(
        untrue(AIM_MODEL, "hurt", "Degraded"),
        untrue(AIM_MODEL, "broken-model", "Failed"),
        untrue(AIM_SERVICE, "broken", "Failed"),
        untrue(AIM_SERVICE, "slow", "Starting"),
        untrue(AIM_SERVICE, "new", "Starting", NOW - timedelta(seconds=10)),
        untrue(AIM_SERVICE_TEMPLATE, "unfit", "NotAvailable"),
    )
    reported = overview(known, "", NOW)
    assert reported.code is Exit.FOUND
    assert [line.split()[1] for line in reported.lines[:4]] == [
        f"{TEAM}/broken",
        f"{TEAM}/broken-model",
        f"{TEAM}/hurt",
        f"{TEAM}/slow",
    ]
    assert reported.lines[0] == f"AIMService {TEAM}/broken is Failed for 2h: Because: broken is sad as Failed"
    assert reported.lines[4].startswith("KIND")
    assert "AIMService           3         2 Starting, 1 Failed" in reported.lines


@pytest.mark.spec("FW-868")
def test_objects_with_the_same_cause_are_one_line() -> None:
    names = ("chat", "chat-eu", "vision")
    hurt = untrue(AIM_SERVICE, "hurt", "Degraded")
    # The same cause, which has hurt this one less.
    hurt[1]["status"]["conditions"][0]["message"] = "hurt is sad as Failed"
    known = Objects(*(untrue(AIM_SERVICE, name, "Failed") for name in names), hurt)
    reported = overview(known, "", NOW)
    assert reported.lines[0] == f"AIMService {TEAM}/chat and 2 more are Failed for 2h: Because: chat is sad as Failed"
    assert reported.lines[1].startswith(f"AIMService {TEAM}/hurt is Degraded")
    assert isinstance(reported.data, dict)
    assert len(reported.data["attention"]) == 4, "programs get each"


@pytest.mark.spec("FW-868")
@pytest.mark.parametrize(
    ("why", "common"),
    [
        ("BackOff: pod team/chat-predictor-7d9-x is waiting", "BackOff: pod …/… is waiting"),
        ("Progressing: 41 % of 61Gi", "Progressing: … of 61Gi"),
        ("ImageNotFound: org/chatty:1 in team-b", "ImageNotFound: org/chatty:1 in team-b"),
    ],
)
def test_a_cause_is_told_from_another_by_all_but_the_own_names_and_the_progress(why: str, common: str) -> None:
    assert likeness(Ref(AIM_SERVICE, TEAM, "chat"), why) == common


@pytest.mark.spec("FW-868")
@pytest.mark.parametrize("part", ["9", "9.", "a-", "é", "x.é", "chat-", "% 1"])
def test_a_message_that_quotes_a_log_takes_no_longer_to_compare(part: str) -> None:
    begun = time.process_time()
    for _ in range(20):
        likeness(Ref(AIM_SERVICE, TEAM, "chat"), part * 20_000)
    assert time.process_time() - begun < 1, "one digit after the other took seconds for each"


@pytest.mark.spec("FW-608")
def test_when_all_is_well_it_says_so_and_what_is_under_way_is_no_failure() -> None:
    assert overview(Objects(), "", NOW).lines == ("nothing needs attention",)
    assert overview(Objects(untrue(AIM_SERVICE, "slow", "Starting")), "", NOW).code is Exit.WELL


@pytest.mark.spec("FW-608")
def test_a_service_whose_lease_ran_out_has_no_leader() -> None:
    leases = [lease("serving", 16), lease("routing", 14), lease("artifacts", 1, ""), make(LEASE, "other", spec={})]
    late = {one.service: one.late for one in leaders_of(leases, NOW)}
    assert late == {"artifacts": True, "serving": True, "routing": False}
    reported = overview(Objects(*((LEASE, one) for one in leases)), "", NOW)
    assert reported.code is Exit.FOUND
    assert reported.lines[:2] == ("no leader of artifacts: no holder", "no leader of serving: me")


@pytest.mark.spec("FW-608")
def test_gpus_are_counted_by_what_pods_that_have_not_ended_ask_for() -> None:
    node = make(NODE, "n", status={"allocatable": {"amd.com/gpu": "8"}})
    asks = {"containers": [{"resources": {"requests": {"amd.com/gpu": "2"}}}, {}]}
    pods = [make(POD, phase, spec=asks, status={"phase": phase}) for phase in ("Running", "Pending", "Succeeded")]
    assert gpus_of([node, make(NODE, "plain", status={})], pods) == (4, 8, 1)


@pytest.mark.spec("FW-609")
def test_caches_tell_volume_progress_and_limits() -> None:
    of = {"kind": "AIMArtifact", "name": "a", "uid": "aimartifact-a-uid", "apiVersion": "v"}
    storage = {"resources": {"requests": {"storage": "3Gi"}}}
    status = {"status": "Progressing", "progress": {"displayPercentage": "45 %"}, "lastUsed": timestamp(LONG_AGO)}
    known = Objects(
        (AIM_ARTIFACT, make(AIM_ARTIFACT, "a", namespace=TEAM, spec={"retentionPriority": 1}, status=status)),
        (
            PERSISTENT_VOLUME_CLAIM,
            make(
                PERSISTENT_VOLUME_CLAIM, "v", namespace=TEAM, owners=[of], labels={labels.CACHE_NAME: "a"}, spec=storage
            ),
        ),
        (NAMESPACE, make(NAMESPACE, TEAM, annotations={labels.ANNOTATION_STORAGE_QUOTA: "4Gi"})),
    )
    reported = caches(known, Where(everywhere=True), NOW)
    row, limit = reported.lines[1].split(), reported.lines[3].split()
    assert row == [TEAM, "a", "Progressing", "45", "%", "3Gi", "2h", "nothing;", "it", "may", "be", "evicted"]
    assert limit == [TEAM, "3Gi", "4Gi"]
    assert isinstance(reported.data, dict)
    (artifact,) = reported.data["artifacts"]
    assert (artifact["lastUsed"], artifact["volume"]["bytes"]) == (timestamp(LONG_AGO), 3 * 1024**3)
    assert caches(Objects(), Where(namespace="team"), NOW).lines == (
        "there is no AIMArtifact in team; -A looks in all namespaces",
    )


@pytest.mark.spec("FW-609")
def test_a_limit_for_all_namespaces_is_reported_with_what_they_use_together() -> None:
    config = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"artifactStorageQuota": {"clusterLimit": "9Gi"}})
    held = [Holder(name, "v", "a", 2 * 1024**3, (), "") for name in ("a", "b")]
    known = Objects((AIM_CLUSTER_RUNTIME_CONFIG, config), *((NAMESPACE, make(NAMESPACE, name)) for name in ("a", "b")))
    assert quotas_of(known, held, "")[-1] == ("all namespaces", 4 * 1024**3, 9 * 1024**3)
    assert [name for name, *_ in quotas_of(known, held[:1], "a")] == ["a"]


@pytest.mark.spec("FW-609")
@pytest.mark.parametrize(
    ("priority", "protected", "used", "kept"),
    [
        (1, False, False, ""),
        (None, False, False, "not in use; it has no retention priority of its own"),
        (1, True, False, "protected by its annotation"),
        (1, True, True, "in use by pod p"),
    ],
)
def test_why_a_volume_is_kept(priority: int | None, *, protected: bool, used: bool, kept: str) -> None:
    annotations = {labels.ANNOTATION_EVICTION_PROTECTED: labels.TRUE} if protected else {}
    spec = {} if priority is None else {"retentionPriority": priority}
    artifact = make(AIM_ARTIFACT, "a", namespace=TEAM, annotations=annotations, spec=spec)
    of = {"kind": "AIMArtifact", "name": "a", "uid": artifact["metadata"]["uid"], "apiVersion": "v"}
    claim = make(PERSISTENT_VOLUME_CLAIM, "v", namespace=TEAM, owners=[of], spec={})
    pod = make(POD, "p", namespace=TEAM, spec={"volumes": [{"persistentVolumeClaim": {"claimName": "v"}}]})
    (held,) = holders([claim], [artifact], [pod] if used else [])
    assert held.kept == kept


@pytest.mark.spec("FW-609", "AR-442", "AR-444")
@pytest.mark.parametrize("own", [None, "0", "-1Gi", "nonsense", "1Ki"])
@pytest.mark.parametrize("quota", [None, "0", "-1Gi", "nonsense", "2Ki"])
def test_the_limit_reported_is_the_one_that_holds(own: str | None, quota: str | None) -> None:
    spec = {} if quota is None else {"artifactStorageQuota": {"defaultNamespaceLimit": quota, "clusterLimit": quota}}
    annotations = {} if own is None else {labels.ANNOTATION_STORAGE_QUOTA: own}
    config = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec=spec)
    namespace = make(NAMESPACE, TEAM, annotations=annotations)
    held = limits_that_hold(kinds.AIM_CLUSTER_RUNTIME_CONFIG.decode(config), kinds.NAMESPACE.decode(namespace))
    reported = limits_of([config], [namespace])
    assert (reported[TEAM], reported.get("")) == (held.namespace, held.cluster)


@pytest.mark.spec("FW-609")
def test_the_limit_of_a_namespace_is_its_own_or_the_default() -> None:
    quota = {"artifactStorageQuota": {"defaultNamespaceLimit": "1Ki", "clusterLimit": "9Ki"}}
    config = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec=quota)
    own = labels.ANNOTATION_STORAGE_QUOTA
    namespaces = [
        make(NAMESPACE, name, annotations={} if text is None else {own: text})
        for name, text in (("a", None), ("b", "2Ki"), ("c", " Unlimited"), ("d", "nonsense"))
    ]
    assert limits_of([config], namespaces) == {"a": 1024, "b": 2048, "c": None, "d": 1024, "": 9216}
    assert limits_of([], namespaces[:1]) == {"a": None}


@pytest.mark.spec("FW-610")
def test_queues_of_processes_that_tell_them_and_of_those_that_do_not() -> None:
    queue = {"depth": 3, "processing": 1, "delayed": 2, "retries": 4, "longest_running_seconds": 1.25}
    page = {"leads": True, "queues": {"service": queue}, "paused": ["aimservices team/chat"]}
    reported = answer([Page("serving", page), Page("routing", {}, "forbidden")])
    assert reported.lines[1].split() == ["serving", "service", "yes", "3", "1", "2", "4", "1.2s"]
    assert reported.lines[2] == "paused: aimservices team/chat"
    assert reported.remarks == ("not known: the queues of routing: forbidden",)
    assert (reported.code, answer([Page("routing", {}, "forbidden")]).code) == (Exit.WELL, Exit.UNREADABLE)
    with pytest.raises(UnreachableError):
        answer([])
