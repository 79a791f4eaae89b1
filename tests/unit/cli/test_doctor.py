"""Each finding is right about what it looks at, and what is not well has a remedy. No cluster."""

from datetime import timedelta

import pytest
from support.builders import make

from aim_cli.cluster.refs import JsonObject
from aim_cli.errors import Exit
from aim_cli.installation import bus_state, doctor
from aim_cli.installation.bus_state import BusState, PartState, StreamState
from aim_cli.installation.doctor import Finding, Mark
from aim_domain.crd import definition
from aim_domain.kind_names import (
    AIM_SERVICE,
    DEPLOYMENT,
    HTTP_ROUTE,
    INFERENCE_SERVICE,
    NODE,
    OWN,
    STATEFUL_SET,
    KindName,
)
from aim_domain.kinds import OWN_KINDS
from controller_runtime.log.broker.retention import Contents
from controller_runtime.log.publish.checkpoint import Checkpoint
from controller_runtime.manager.causes import REMEDIES, Cause
from controller_runtime.testing import NOW

OURS = {kind.resource: definition(kind) for kind in OWN_KINDS}


def foreign(*kinds: KindName, version: str = "") -> dict[str, JsonObject]:
    return {
        kind.resource: {"spec": {"versions": [{"name": version or kind.version, "served": True}]}} for kind in kinds
    }


def marks(findings: object) -> list[Mark]:
    return [one.mark for one in findings]  # type: ignore[attr-defined]


@pytest.mark.spec("FW-612")
@pytest.mark.parametrize(("minor", "mark"), [("27+", Mark.BAD), ("28", Mark.OK), ("34+", Mark.OK)])
def test_versions(minor: str, mark: Mark) -> None:
    assert doctor.version({"major": "1", "minor": minor}).mark is mark


@pytest.mark.spec("FW-612")
def test_what_others_define() -> None:
    assert marks(doctor.foreign_definitions({})) == [Mark.BAD, Mark.BAD, Mark.NOTE]
    both = foreign(INFERENCE_SERVICE, HTTP_ROUTE)
    assert marks(doctor.foreign_definitions(both)) == [Mark.OK, Mark.OK, Mark.NOTE]
    old = {**both, **foreign(HTTP_ROUTE, version="v1alpha2")}
    assert marks(doctor.foreign_definitions(old))[1] is Mark.BAD
    with_keda = {**both, "scaledobjects.keda.sh": {}}
    assert marks(doctor.foreign_definitions(with_keda)) == [Mark.OK] * 3


@pytest.mark.spec("FW-612")
def test_leaders_and_since_when_a_service_has_none() -> None:
    def lease(service: str, holder: str, renewed: str) -> JsonObject:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, **({"renewTime": renewed} if renewed else {})}
        return {"metadata": {"name": f"aim-{service}"}, "spec": spec}

    former = (NOW - timedelta(minutes=1)).isoformat()
    leases = [lease("discovery", "me", NOW.isoformat()), lease("serving", "me", former), lease("routing", "", "")]
    found = list(doctor.leading(leases, NOW))
    assert [(one.mark, one.what) for one in found] == [
        (Mark.OK, "discovery is led by me"),
        (Mark.BAD, f"no process leads serving since {former}"),
        (Mark.BAD, "no process leads routing and its Lease is released"),
    ]
    assert all("component=" in one.remedy for one in found[1:])


@pytest.mark.spec("FW-612", "FW-890")
def test_each_shard_of_a_divided_service_has_a_leader() -> None:
    def lease(name: str, holder: str, shards: str) -> JsonObject:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": NOW.isoformat()}
        return {"metadata": {"name": name, "annotations": {"aim.eai.amd.com/shards": shards}}, "spec": spec}

    # What is left of a larger number belongs to no shard any more.
    leases = [lease("aim-serving", "a", "3"), lease("aim-serving-2", "b", "3"), lease("aim-serving-3", "", "4")]
    found = list(doctor.leading(leases, NOW))
    assert [(one.mark, one.what) for one in found] == [
        (Mark.OK, "shard 0 of serving is led by a"),
        (Mark.BAD, "no process leads shard 1 of serving and its Lease is released"),
        (Mark.OK, "shard 2 of serving is led by b"),
    ]


@pytest.mark.spec("FW-612", "FW-539")
def test_definitions_of_this_release_and_of_an_older_one() -> None:
    assert marks(doctor.own_definitions(OURS)) == [Mark.OK]
    missing = list(doctor.own_definitions({}))
    assert [(one.mark, one.remedy) for one in missing] == [(Mark.BAD, REMEDIES[Cause.DEFINITION_MISSING])] * len(OWN)
    schema = OURS[AIM_SERVICE.resource]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties = {key: value for key, value in schema["properties"]["spec"]["properties"].items() if key != "replicas"}
    spec = {**schema["properties"]["spec"], "properties": properties}
    older = {"openAPIV3Schema": {**schema, "properties": {**schema["properties"], "spec": spec}}}
    versions = [{**OURS[AIM_SERVICE.resource]["spec"]["versions"][0], "schema": older}]
    found = list(doctor.own_definitions({**OURS, AIM_SERVICE.resource: {"spec": {"versions": versions}}}))
    assert found[0].what == "AIMService is of an older release: no spec.replicas"
    assert found[0].remedy == REMEDIES[Cause.DEFINITION_OLD]


@pytest.mark.spec("CC-353")
def test_a_definition_that_stores_a_version_of_others_is_bad() -> None:
    def stored(*versions: str) -> dict[str, JsonObject]:
        return {AIM_SERVICE.resource: {**OURS[AIM_SERVICE.resource], "status": {"storedVersions": list(versions)}}}

    assert marks(doctor.stored_versions({})) == []
    assert marks(doctor.stored_versions(OURS)) == []
    assert marks(doctor.stored_versions(stored("v1alpha1", "v1alpha2"))) == []
    [found] = doctor.stored_versions(stored("v1alpha1", "v1beta1"))
    assert (found.mark, "AIMService is stored as v1beta1" in found.what) == (Mark.BAD, True)


@pytest.mark.spec("FW-612")
def test_storage_gpus_and_permissions() -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    classes = [{"metadata": {"name": "fast", "annotations": default}}]
    assert marks(doctor.storage(classes, known=True)) == [Mark.OK]
    assert marks(doctor.storage([{"metadata": {"name": "slow"}}], known=True)) == [Mark.NOTE]
    assert marks(doctor.storage([], known=False)) == [Mark.UNKNOWN]
    assert doctor.gpus([make(NODE, "n", status={"allocatable": {"amd.com/gpu": "8"}})], []).mark is Mark.OK
    assert doctor.gpus([make(NODE, "n", status={})], []).mark is Mark.NOTE
    what = ("list", "", "pods")
    for may, mark in ((True, Mark.OK), (False, Mark.BAD), (None, Mark.UNKNOWN)):
        assert marks(doctor.permissions({what: may})) == [mark]


@pytest.mark.spec("FW-612")
def test_what_is_deployed() -> None:
    def of(ready: int) -> JsonObject:
        return make(DEPLOYMENT, "aim-engine-serving", spec={"replicas": 2}, status={"readyReplicas": ready})

    assert marks(doctor.deployed([])) == [Mark.NOTE]
    assert marks(doctor.deployed([of(2), of(1)])) == [Mark.OK, Mark.BAD]


def broker(replicas: int, ready: int) -> JsonObject:
    spec, status = {"replicas": replicas}, {"readyReplicas": ready}
    return make(STATEFUL_SET, "aim-engine-nats", namespace="aim-system", spec=spec, status=status)


@pytest.mark.spec("FW-710")
def test_the_brokers_that_came_with_it() -> None:
    def of(ready: int) -> Finding:
        return list(doctor.deployed([], [broker(3, ready)]))[-1]

    assert (of(3).about, of(3).mark) == ("broker", Mark.OK)
    assert (of(2).mark, of(2).what) == (Mark.BAD, "aim-engine-nats: 2 of 3 replicas are ready")
    assert "statefulset aim-engine-nats" in of(2).remedy
    assert ("list", "apps", "statefulsets") in doctor.EXAMINER


def stream(name: str = "AIM_STATE", lag: int = 0) -> StreamState:
    return StreamState(name, Contents(5, 1024, 1, 5, NOW, NOW), -1, 1, lag)


def part(age: float = 1) -> PartState:
    epoch = "20260101T000000.000Z-00000a"
    return PartState("aimservices", Checkpoint("aim-serving-0", 1, epoch, epoch, "c", "7", "then", 5, 3), age)


def reported(
    *parts: PartState, streams: tuple[StreamState, ...] = (), brokers: int = 0, ahead: float = 0
) -> list[Finding]:
    sets = [broker(brokers, brokers)] if brokers else []
    return list(doctor.bus(BusState(parts, streams, NOW), NOW - timedelta(seconds=ahead), sets))


@pytest.mark.spec("FW-612", "FW-611")
def test_the_broker() -> None:
    def about(*parts: PartState, streams: tuple[StreamState, ...] = (stream(),), ahead: float = 0) -> dict[str, Mark]:
        return {one.about: one.mark for one in reported(*parts, streams=streams, ahead=ahead)}

    assert set(about(part()).values()) == {Mark.OK}
    assert about(part(), ahead=6)["clocks"] is Mark.BAD
    assert about(part(31))["freshness"] is Mark.BAD
    assert about(part(), streams=(stream(lag=1001),))["streams"] is Mark.BAD
    assert about(streams=(StreamState("AIM_STATE", None, 0, 0, 0),))["streams"] is Mark.BAD


@pytest.mark.spec("FW-710")
def test_a_broker_that_cannot_be_asked_is_bad_and_one_whose_address_nobody_said_is_not() -> None:
    assert doctor.unasked_broker().mark is Mark.UNKNOWN
    refused = doctor.unasked_broker("it refuses the credentials")
    assert (refused.mark, refused.what) == (Mark.BAD, "it refuses the credentials")


@pytest.mark.spec("FW-710")
def test_a_part_that_nobody_ever_published_is_bad_unless_it_need_not_be_known() -> None:
    unheard = PartState("httproutes", None, 0)
    (found,) = [one for one in reported(part(), unheard) if one.about == "freshness"]
    assert (found.mark, found.what) == (Mark.BAD, "no service has published httproutes")
    assert [one.what for one in reported(unheard, part(31)) if one.about == "freshness"] == [
        "the publishers of aimservices are silent",
        "no service has published httproutes",
    ]
    optional = PartState("kaiwoconfigs", None, 0, optional=True)
    assert [one.what for one in reported(part(), optional) if one.about == "freshness"] == ["all 1 parts are fresh"]


@pytest.mark.spec("FW-710")
def test_a_stream_that_fewer_brokers_keep_than_there_are() -> None:
    (found,) = [one for one in reported(streams=(stream(),), brokers=3) if one.about == "streams"]
    assert (found.mark, found.what) == (Mark.BAD, "AIM_STATE is kept by 1 of 3 brokers")
    assert marks(reported(streams=(stream(),), brokers=1)) == [Mark.OK, Mark.OK]
    several = list(doctor.bus(BusState((), (stream(),), NOW), NOW, [broker(3, 3), broker(1, 1)]))
    assert marks(several) == [Mark.OK, Mark.OK]


@pytest.mark.spec("FW-611")
def test_what_the_bus_holds_in_lines() -> None:
    shown = bus_state.answer(BusState((part(31),), (stream(),), NOW, (("aimservices", 2, 1),)))
    assert shown.code is Exit.FOUND
    assert shown.lines[1].split()[:4] == ["aimservices", "3", "late:", "31s"]
    assert shown.lines[-1] == "holes in aimservices: 2 in the histories of 1 objects"
    assert bus_state.answer(BusState((part(),), (stream(),), NOW)).code is Exit.WELL


@pytest.mark.spec("FW-612")
def test_what_is_bad_comes_first_with_what_to_do() -> None:
    shown = doctor.answer([Finding("a", Mark.OK, "fine"), Finding("b", Mark.BAD, "broken", "mend it")])
    assert shown.code is Exit.FOUND
    assert shown.lines == ("BAD   b       broken", "          do: mend it", "OK    a       fine")
    assert doctor.answer([Finding("a", Mark.NOTE, "so so", "x")]).code is Exit.WELL


@pytest.mark.spec("FW-612")
def test_what_is_not_well_has_a_remedy() -> None:
    found = [
        *doctor.foreign_definitions({}),
        *doctor.own_definitions({}),
        *doctor.storage([], known=False),
        *doctor.storage([], known=True),
        *doctor.permissions({("list", "", "pods"): False}),
        *doctor.deployed([]),
        *doctor.deployed([], [broker(3, 1)]),
        doctor.unasked_broker(),
        doctor.unasked_broker("x"),
        *reported(part(99), PartState("nodes", None, 0), streams=(stream(lag=9999),), ahead=3600),
        *reported(streams=(stream(),), brokers=3),
        doctor.version({}),
        doctor.gpus([], []),
    ]
    assert all(one.remedy for one in found if one.mark is not Mark.OK)


@pytest.mark.spec("FW-612")
def test_what_the_services_may_do() -> None:
    spec = {"template": {"spec": {"serviceAccountName": "aim-engine-routing"}}}
    name = {"app.kubernetes.io/component": "routing"}
    broker = make(DEPLOYMENT, "nats", namespace="aim-system", spec={}, labels={"app.kubernetes.io/component": "nats"})
    deployed = [make(DEPLOYMENT, "aim-engine-routing", namespace="aim-system", spec=spec, labels=name), broker]
    (account,) = doctor.accounts(deployed)
    assert (account.service, account.namespace, account.name) == ("routing", "aim-system", "aim-engine-routing")

    needs = doctor.needs_of("routing")
    asked = {(one.verb, one.resource) for one in needs}
    assert {("patch", "httproutes"), ("watch", "httproutes"), ("patch", "aimservices/status")} <= asked
    assert ("create", "leases", doctor.OWN_NAMESPACE) in {(one.verb, one.resource, one.namespace) for one in needs}

    assert doctor.permission_finding(account, dict.fromkeys(needs, True)).mark is Mark.OK
    assert doctor.permission_finding(account, dict.fromkeys(needs)).mark is Mark.UNKNOWN
    refused = doctor.permission_finding(account, {**dict.fromkeys(needs, True), needs[0]: False})
    assert refused.mark is Mark.BAD
    assert refused.what == f"aim-engine-routing may not {needs[0]}"
    assert refused.remedy


@pytest.mark.spec("FW-612", "FW-507")
def test_an_allow_list_of_secrets_is_no_fault() -> None:
    account = doctor.Account("discovery", "aim-system", "aim-engine-discovery")
    needs = doctor.needs_of("discovery")
    [secrets] = [one for one in needs if one.resource == "secrets"]
    listed = {**dict.fromkeys(needs, True), secrets: False}
    found = doctor.permission_finding(account, listed)
    assert found.mark is Mark.NOTE
    assert "secrets.allowed" in found.remedy
    assert doctor.permission_finding(account, {**listed, needs[0]: None}).mark is Mark.UNKNOWN
    assert (
        doctor.permission_finding(account, {**listed, needs[0]: False}).what
        == f"aim-engine-discovery may not {needs[0]}"
    )
