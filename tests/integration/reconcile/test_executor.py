"""The executor against the embedded control plane."""

import pytest
from structlog.testing import capture_logs
from support.builders import owner
from support.reconcile_bench import CLAIMS, CONFIG_MAPS, LABELLED, SERVICES, Bench, config_map, service

from aim_domain import labels
from aim_domain.kinds import AIM_SERVICE
from controller_runtime import (
    Category,
    Child,
    Delete,
    Event,
    EventType,
    JsonObject,
    Key,
    Patch,
    Plan,
    StatusOwnership,
    Subject,
    WriteMode,
)
from controller_runtime.core import ConfigMap
from controller_runtime.kinds import CONFIG_MAP, EVENT, PERSISTENT_VOLUME_CLAIM
from controller_runtime.log.wire.version import Entry
from controller_runtime.reconcile.plan import Drop, WriteResult
from controller_runtime.reconcile.status_writer import Due, StatusWriter
from embedded_apiserver.http import Request

STATUS: JsonObject = {
    "status": "Running",
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AllComponentsReady",
            "message": "",
            "lastTransitionTime": "2026-11-21T12:00:00Z",
            "observedGeneration": 1,
        }
    ],
}


def claim(name: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }


@pytest.mark.spec("FW-200", "FW-203", "FW-210", "FW-205", "FW-409", "FW-013", "FW-S42")
async def test_a_child_is_applied_once_and_then_left_alone(bench: Bench) -> None:
    plan = Plan(children=(Child(CONFIG_MAPS, config_map("c", a="1")),))
    first = await bench.executor.execute(bench.target(), plan)
    assert [write.result for write in first.writes] == [WriteResult.DONE]
    live = await bench.get(CONFIG_MAP, "c")
    [owner] = live["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("AIMService", "chat", True)
    assert live["metadata"]["annotations"][labels.ANNOTATION_TRACEPARENT].startswith("00-1111")
    assert live["metadata"]["managedFields"][0]["manager"] == "aim-serving"
    second = await bench.executor.execute(bench.target(), plan)
    assert not second.changed
    assert bench.writes == [("PATCH", "configmaps/c")]


@pytest.mark.spec("FW-202", "FW-409", "FW-S43", "FW-P04", "FW-224")
async def test_manual_edits_and_removals_converge(bench: Bench) -> None:
    await bench.executor.execute(bench.target(), Plan(children=(Child(CONFIG_MAPS, config_map("c", a="1", b="2")),)))
    edited = await bench.get(CONFIG_MAP, "c")
    await bench.kube.apply(CONFIG_MAP, config_map("c", a="edited"), "kubectl")
    await bench.see(CONFIG_MAPS, "c")
    await bench.executor.execute(bench.target(), Plan(children=(Child(CONFIG_MAPS, config_map("c", a="1")),)))
    live = await bench.get(CONFIG_MAP, "c")
    assert live["data"] == {"a": "1"}
    trace = labels.ANNOTATION_TRACEPARENT
    assert live["metadata"]["annotations"][trace] == edited["metadata"]["annotations"][trace]


@pytest.mark.spec("FW-409")
async def test_a_deleted_child_is_not_made_again_by_an_update(bench: Bench) -> None:
    await bench.executor.execute(bench.target(), Plan(children=(Child(CONFIG_MAPS, config_map("c", a="1")),)))
    live = await bench.get(CONFIG_MAP, "c")
    await bench.kube.delete(CONFIG_MAP, "c", "default", uid=live["metadata"]["uid"])
    await bench.kube.create(CONFIG_MAP, config_map("c"), "user")
    done = await bench.executor.execute(bench.target(), Plan(children=(Child(CONFIG_MAPS, config_map("c", a="2")),)))
    assert done.failure is not None
    assert (done.failure.category, done.failure.reason) == (Category.INFRASTRUCTURE, "Conflict")
    assert (await bench.get(CONFIG_MAP, "c")).get("data") in ({}, None)


@pytest.mark.spec("FW-206", "FW-410")
async def test_create_only_children_are_never_updated(bench: Bench) -> None:
    plan = Plan(children=(Child(CLAIMS, claim("p"), mode=WriteMode.CREATE),))
    await bench.executor.execute(bench.target(), plan)
    changed = claim("p") | {"spec": {"accessModes": ["ReadWriteOnce"]}}
    again = await bench.executor.execute(
        bench.target(), Plan(children=(Child(CLAIMS, changed, mode=WriteMode.CREATE),))
    )
    assert not again.changed
    live = await bench.get(PERSISTENT_VOLUME_CLAIM, "p")
    assert live["spec"]["accessModes"] == ["ReadWriteMany"]
    assert labels.ANNOTATION_APPLIED_HASH not in live["metadata"]["annotations"]
    assert bench.writes == [("POST", "default/persistentvolumeclaims")]


@pytest.mark.spec("FW-207")
async def test_a_create_that_finds_its_own_child_goes_on(bench: Bench) -> None:
    plan = Plan(children=(Child(CLAIMS, claim("p"), mode=WriteMode.CREATE),), status=STATUS)
    await bench.executor.execute(bench.target(), plan)
    entry = bench.cache.get(CLAIMS, Key("default", "p"))
    assert entry is not None
    bench.cache.absorb_deleted(CLAIMS, entry.key, entry.version.uid, 0.0)
    again = await bench.executor.execute(bench.target(), plan)
    assert again.failure is None
    assert [write.result for write in again.writes] == [WriteResult.EXISTS]


@pytest.mark.spec("FW-207")
@pytest.mark.parametrize("mode", list(WriteMode))
async def test_a_child_of_another_object_is_not_taken_over(bench: Bench, mode: WriteMode) -> None:
    foreign = config_map("c", x="theirs")
    other = await bench.create(SERVICES, service("other"))
    foreign["metadata"]["ownerReferences"] = [owner(other)]
    await bench.kube.create(CONFIG_MAP, foreign, "user")
    mine = config_map("c", labels={"ours": "true"}, x="mine")
    done = await bench.executor.execute(bench.target(), Plan(children=(Child(LABELLED, mine, mode=mode),)))
    assert done.failure is not None
    assert (done.failure.category, done.failure.reason) == (Category.INVALID_SPEC, "AlreadyExists")
    assert "AIMService other" in done.failure.message
    assert (await bench.get(CONFIG_MAP, "c"))["data"] == {"x": "theirs"}


@pytest.mark.spec("FW-007", "FW-016", "FW-044")
async def test_deletes_come_first_and_hit_only_their_uid(bench: Bench) -> None:
    old = await bench.create(CONFIG_MAPS, config_map("old"))
    namesake = await bench.create(CONFIG_MAPS, config_map("namesake"))
    plan = Plan(
        deletes=(
            Delete(CONFIG_MAPS, "default", "old", old["metadata"]["uid"], "unused"),
            Delete(CONFIG_MAPS, "default", "namesake", "another-uid", "unused"),
            Delete(CONFIG_MAPS, "default", "absent", "x", "unused"),
        ),
        children=(Child(CONFIG_MAPS, config_map("new")),),
    )
    bench.faults.seen.clear()
    done = await bench.executor.execute(bench.target(), plan)
    assert [write.result for write in done.writes] == [
        WriteResult.DONE,
        WriteResult.GONE,
        WriteResult.GONE,
        WriteResult.DONE,
    ]
    assert bench.writes[-1] == ("PATCH", "configmaps/new")
    assert (await bench.get(CONFIG_MAP, "namesake"))["metadata"]["uid"] == namesake["metadata"]["uid"]


async def deleted(bench: Bench, finalizers: list[str]) -> Entry[ConfigMap] | None:
    """What the cache knows of an object right after the executor deleted it."""
    body = config_map("old")
    body["metadata"]["finalizers"] = finalizers
    old = await bench.create(CONFIG_MAPS, body)
    plan = Plan(deletes=(Delete(CONFIG_MAPS, "default", "old", old["metadata"]["uid"], "unused"),))
    await bench.executor.execute(bench.target(), plan)
    return bench.cache.get(CONFIG_MAPS, Key("default", "old"))


@pytest.mark.spec("FW-007")
async def test_a_deleted_object_is_gone_from_the_cache_at_once(bench: Bench) -> None:
    bench.woken_by = lambda change: [Key("default", "woken")] if change.after is None else []
    waiting = bench.queue.statistics.depth
    assert await deleted(bench, []) is None
    assert bench.queue.statistics.depth == waiting + 1


@pytest.mark.spec("FW-007")
async def test_a_deleted_object_that_lingers_is_known_to_be_going_away(bench: Bench) -> None:
    entry = await deleted(bench, ["example.com/held"])
    assert entry is not None
    assert entry.raw["metadata"]["deletionTimestamp"]


@pytest.mark.spec("FW-007", "FW-184", "FW-010", "FW-S15")
async def test_a_failed_delete_stops_the_applies_but_not_the_other_deletes(bench: Bench) -> None:
    a = await bench.create(CONFIG_MAPS, config_map("a"))
    b = await bench.create(CONFIG_MAPS, config_map("b"))
    bench.faults.fail("DELETE", "configmaps/a", 503, reason="ServiceUnavailable", message="down")
    bench.faults.seen.clear()
    plan = Plan(
        deletes=tuple(
            Delete(CONFIG_MAPS, "default", obj["metadata"]["name"], obj["metadata"]["uid"], "x") for obj in (a, b)
        ),
        children=(Child(CONFIG_MAPS, config_map("new")),),
        status=STATUS,
    )
    done = await bench.executor.execute(bench.target(), plan)
    assert done.failure is not None
    assert done.failure.reason == "ServiceUnavailable"
    assert "delete of ConfigMap default/a failed" in done.failure.message
    assert {tail for _, tail in bench.writes} == {"configmaps/a", "configmaps/b"}


@pytest.mark.spec("FW-008", "FW-204")
async def test_a_failed_child_stops_the_unowned_ones_only(bench: Bench) -> None:
    bench.faults.fail("PATCH", "configmaps/a", 422, reason="Invalid", message="no", details={"name": "a"})
    bench.faults.seen.clear()
    plan = Plan(
        children=(
            Child(CONFIG_MAPS, config_map("unowned"), owned=False),
            Child(CONFIG_MAPS, config_map("b")),
            Child(CONFIG_MAPS, config_map("a")),
        )
    )
    done = await bench.executor.execute(bench.target(), plan)
    assert done.failure is not None
    assert done.failure.category is Category.INVALID_SPEC
    assert bench.writes == [("PATCH", "configmaps/a"), ("PATCH", "configmaps/b")]


@pytest.mark.spec("FW-019")
async def test_nothing_is_deleted_on_a_stale_view(bench: Bench) -> None:
    old = await bench.create(CONFIG_MAPS, config_map("old"))
    bench.faults.seen.clear()
    plan = Plan(
        deletes=(Delete(CONFIG_MAPS, "default", "old", old["metadata"]["uid"], "x"),),
        children=(Child(CONFIG_MAPS, config_map("new")),),
        status=STATUS,
    )
    done = await bench.executor.execute(bench.target(), plan, stale=True)
    assert (done.drop, done.requeue_after) == (Drop.STALE, 2.0)
    assert bench.writes == [("PATCH", "chat/status")]


@pytest.mark.spec("FW-407")
async def test_who_no_longer_leads_writes_nothing(bench: Bench) -> None:
    bench.leads = False
    event = Event(EventType.NORMAL, "R", "m")
    plan = Plan(children=(Child(CONFIG_MAPS, config_map("c")),), status=STATUS, events=(event,))
    done = await bench.executor.execute(bench.target(), plan)
    assert done.drop is Drop.NOT_LEADER
    execution = await bench.executor.report(bench.target(), plan)
    assert execution.drop is Drop.NOT_LEADER
    reported = await bench.executor.report(bench.target(), Plan(events=(event,)))
    assert reported.drop is Drop.NOT_LEADER
    assert bench.faults.seen == []
    bench.leads = True
    await bench.executor.report(bench.target(), Plan(events=(event,)))
    assert [method for method, _ in bench.faults.seen] == ["POST"], "an Event that was not written is not held back"


@pytest.mark.spec("FW-407")
async def test_a_lease_lost_between_two_events_leaves_the_second_for_the_next_pass(bench: Bench) -> None:
    def lost(_: Request) -> bool:
        bench.leads = False
        return False

    bench.faults.rules.append((lost, 0, {}))
    events = (Event(EventType.NORMAL, "First", "m"), Event(EventType.NORMAL, "Second", "m"))
    reported = await bench.executor.report(bench.target(), Plan(events=events))
    assert reported.drop is Drop.NOT_LEADER
    assert [method for method, _ in bench.faults.seen] == ["POST"]


@pytest.mark.spec("FW-044")
async def test_a_terminating_namespace_ends_the_pass_quietly(bench: Bench) -> None:
    cause = {"causes": [{"reason": "NamespaceTerminating", "message": "", "field": ""}]}
    bench.faults.fail("POST", "persistentvolumeclaims", 403, reason="Forbidden", message="x", details=cause)
    plan = Plan(children=(Child(CLAIMS, claim("p"), mode=WriteMode.CREATE),), status=STATUS)
    done = await bench.executor.execute(bench.target(), plan)
    assert (done.failure, done.drop) == (None, Drop.TERMINATING)
    assert ("PATCH", "chat/status") not in bench.writes


@pytest.mark.spec("FW-411", "FW-181", "FW-190")
async def test_a_guarded_patch_meets_a_newer_version(bench: Bench) -> None:
    stale = bench.target()
    version = stale.raw["metadata"]["resourceVersion"]
    body: JsonObject = {"metadata": {"finalizers": ["aim.eai.amd.com/x"]}}
    patch = Patch(SERVICES, "default", "chat", version, body, "finalizer")
    done = await bench.executor.execute(stale, Plan(patches=(patch,)))
    assert [write.result for write in done.writes] == [WriteResult.DONE]
    entry = bench.cache.get(SERVICES, Key("default", "chat"))
    assert entry is not None
    assert entry.raw["metadata"]["finalizers"] == ["aim.eai.amd.com/x"]
    again = await bench.executor.execute(stale, Plan(patches=(patch,), status=STATUS))
    assert (again.failure, again.drop) == (None, Drop.CONFLICT)


@pytest.mark.spec("FW-011", "FW-013", "FW-106")
async def test_the_status_is_written_when_it_differs(bench: Bench) -> None:
    await bench.executor.execute(bench.target(), Plan(status=STATUS))
    live = await bench.get(AIM_SERVICE, "chat")
    assert live["status"]["status"] == "Running"
    [entry] = [entry for entry in live["metadata"]["managedFields"] if entry["manager"] == "aim-serving"]
    assert (entry["operation"], entry["subresource"]) == ("Apply", "status")
    again = await bench.executor.execute(bench.target(), Plan(status=STATUS))
    assert not again.changed
    without = {key: value for key, value in STATUS.items() if key != "conditions"}
    await bench.executor.execute(bench.target(), Plan(status=without))
    assert not (await bench.get(AIM_SERVICE, "chat"))["status"].get("conditions")


@pytest.mark.spec("FW-012", "FW-014", "FW-S17")
async def test_a_status_conflict_or_a_vanished_object_is_no_error(bench: Bench) -> None:
    target = bench.target()
    await bench.kube.delete(AIM_SERVICE, "chat", "default", uid=target.uid)
    done = await bench.executor.execute(target, Plan(status=STATUS))
    assert (done.failure, done.status_failure, done.drop) == (None, None, Drop.CONFLICT)
    assert [write.result for write in done.writes] == [WriteResult.CONFLICT]


@pytest.mark.spec("FW-012")
async def test_a_status_never_goes_to_a_namesake(bench: Bench) -> None:
    target = bench.target()
    await bench.kube.delete(AIM_SERVICE, "chat", "default", uid=target.uid)
    namesake = await bench.kube.create(AIM_SERVICE, service(), "user")
    done = await bench.executor.execute(target, Plan(status=STATUS))
    assert (done.failure, done.status_failure, done.drop) == (None, None, Drop.CONFLICT)
    assert [write.result for write in done.writes] == [WriteResult.CONFLICT]
    live = await bench.get(AIM_SERVICE, "chat")
    assert (live["metadata"]["uid"], live.get("status")) == (namesake["metadata"]["uid"], None)


@pytest.mark.spec("CC-322", "CC-P03", "FW-018")
async def test_a_refused_status_is_reported_once_and_not_sent_again(bench: Bench) -> None:
    refused = {**STATUS, "status": "NotAvailable"}
    first = await bench.executor.execute(bench.target(), Plan(status=refused))
    assert (first.failure, first.status_failure) == (None, None)
    again = await bench.executor.execute(bench.target(), Plan(status=refused))
    assert not again.changed
    events = await bench.kube.list(EVENT, "default")
    [rejected] = [event for event in events.items if event["reason"] == "StatusRejected"]
    assert rejected["type"] == "Warning"
    assert "status" in rejected["message"]
    fine = await bench.executor.execute(bench.target(), Plan(status=STATUS))
    assert [write.result for write in fine.writes] == [WriteResult.DONE]


@pytest.mark.spec("FW-018", "FW-122")
async def test_a_transition_is_reported_when_it_is_stored(bench: Bench) -> None:
    event = Event(EventType.NORMAL, "Resolved", "m", condition="ModelReady")
    refused = {**STATUS, "status": "NotAvailable"}
    for _ in range(2):
        await bench.executor.execute(bench.target(), Plan(status=refused, events=(event,)))
    assert {stored["reason"] for stored in (await bench.kube.list(EVENT, "default")).items} == {"StatusRejected"}
    await bench.executor.execute(bench.target(), Plan(status=STATUS, events=(event,)))
    assert "Resolved" in {stored["reason"] for stored in (await bench.kube.list(EVENT, "default")).items}


@pytest.mark.spec("FW-371", "FW-372", "FW-106", "FW-S54")
async def test_two_writers_share_a_status(bench: Bench) -> None:
    ownership = StatusOwnership(only_fields=frozenset({"routing"}), only_conditions=frozenset({"HTTPRouteReady"}))
    routing = StatusWriter(bench.kube, "aim-routing", ownership, bench.access)
    await bench.executor.execute(bench.target(), Plan(status=STATUS))
    ready = {**STATUS["conditions"][0], "type": "HTTPRouteReady"}
    theirs: JsonObject = {"routing": {"path": "/ml/chat"}, "conditions": [ready]}
    assert routing.due(bench.target(), theirs) is Due.WRITE
    assert (await routing.write(bench.target(), theirs)).stored
    assert routing.due(bench.target(), theirs) is Due.SETTLED
    both = (await bench.get(AIM_SERVICE, "chat"))["status"]
    assert {condition["type"] for condition in both["conditions"]} == {"Ready", "HTTPRouteReady"}
    assert routing.due(bench.target(), {}) is Due.WRITE
    assert (await routing.write(bench.target(), {})).stored
    left = (await bench.get(AIM_SERVICE, "chat"))["status"]
    assert "routing" not in left
    assert [condition["type"] for condition in left["conditions"]] == ["Ready"]
    assert routing.due(bench.target(), {}) is Due.SETTLED


@pytest.mark.spec("FW-120", "FW-125", "FW-413", "FW-126")
async def test_events_count_repetitions_on_one_object(bench: Bench) -> None:
    event = Event(EventType.WARNING, "CacheFailed", "disk gone", condition="CacheReady")
    for _ in range(3):
        await bench.executor.execute(bench.target(), Plan(events=(event,)))
    [stored] = (await bench.kube.list(EVENT, "default")).items
    assert (stored["count"], stored["reason"], stored["message"]) == (3, "CacheFailed", "disk gone")
    assert stored["source"]["component"] == "aim-service-controller"
    assert stored["involvedObject"]["uid"] == bench.target().uid
    bench.faults.fail("PATCH", stored["metadata"]["name"], 500, message="broken")
    assert (await bench.executor.execute(bench.target(), Plan(events=(event,)))).failure is None


@pytest.mark.spec("FW-120", "FW-125")
async def test_an_event_may_be_about_what_was_deleted_and_only_then(bench: Bench) -> None:
    """Two objects with the same words have an Event each, with their own repetitions."""
    for name in ("one", "other"):
        await bench.create(CONFIG_MAPS, config_map(name))
    live = [await bench.get(CONFIG_MAPS.kind, name) for name in ("one", "other")]
    subjects = [Subject(CONFIG_MAPS, "default", obj["metadata"]["name"], obj["metadata"]["uid"]) for obj in live]
    deletes = tuple(Delete(one.part, one.namespace, one.name, one.uid, "no room") for one in subjects)
    reported = tuple(Event(EventType.WARNING, "Evicted", "no room", about=one, of_deletes=True) for one in subjects)
    plan = Plan(deletes=deletes, events=reported)
    with capture_logs() as logs:
        await bench.executor.execute(bench.target(), plan, stale=True)
        assert not (await bench.kube.list(EVENT, "default")).items, "nothing was deleted"
        for _ in range(2):
            await bench.executor.execute(bench.target(), plan)
    events = (await bench.kube.list(EVENT, "default")).items
    involved = sorted((event["involvedObject"]["kind"], event["involvedObject"]["name"]) for event in events)
    assert involved == [("ConfigMap", "one"), ("ConfigMap", "other")]
    assert {event["involvedObject"]["uid"] for event in events} == {one.uid for one in subjects}
    assert [event["count"] for event in events] == [2, 2]
    assert all(event["source"]["component"] == "aim-service-controller" for event in events)
    assert {line["about"] for line in logs if line.get("reason") == "Evicted"} == {"default/one", "default/other"}


@pytest.mark.spec("FW-121")
async def test_normal_transitions_of_one_pass_are_one_event(bench: Bench) -> None:
    changes = tuple(
        Event(EventType.NORMAL, reason, "m" * 1000, condition=condition, status="True")
        for condition, reason in (("Ready", "AllComponentsReady"), ("CacheReady", "CacheReady"))
    )
    with capture_logs() as logs:
        await bench.executor.execute(bench.target(), Plan(events=changes))
    [stored] = (await bench.kube.list(EVENT, "default")).items
    assert (stored["type"], stored["reason"], len(stored["message"])) == ("Normal", "AllComponentsReady", 1018)
    assert stored["message"].endswith("m (CacheReady=True)")
    assert [line["condition"] for line in logs if "condition" in line] == ["Ready", "CacheReady"]


@pytest.mark.spec("FW-412")
async def test_a_condition_that_nobody_can_drop_is_removed(bench: Bench) -> None:
    await bench.executor.execute(bench.target(), Plan(status=STATUS))
    shared = {"type": "Ready", "message": "theirs"}
    body = service()
    other: JsonObject = {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": {"name": "chat", "namespace": "default"},
        "status": {"conditions": [shared]},
    }
    await bench.kube.apply(AIM_SERVICE, other, "manager", subresource="status")
    await bench.see(SERVICES, "chat")
    without = {key: value for key, value in STATUS.items() if key != "conditions"}
    done = await bench.executor.execute(bench.target(), Plan(status=without))
    assert [write.result for write in done.writes] == [WriteResult.DONE]
    assert not (await bench.get(AIM_SERVICE, "chat"))["status"].get("conditions")
