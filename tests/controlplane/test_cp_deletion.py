"""Deletion: preconditions, finalizers, owners, propagation, namespaces, pods with a grace period."""

import asyncio

import pytest
from support.controlplane import take, watching
from support.suite import SuiteApi
from support.suite_widgets import gadget, widget

from controller_runtime import JsonObject

CONFIG_MAPS = "/api/v1/namespaces/$ns/configmaps"
SECRETS = "/api/v1/namespaces/$ns/secrets"
PODS = "/api/v1/namespaces/$ns/pods"


def _owned_by(owner: JsonObject, name: str, **more: object) -> JsonObject:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {"metadata": {"name": name, "ownerReferences": [reference | more]}}


async def test_a_deletion_answers_with_success(api: SuiteApi) -> None:
    made = await api.created(CONFIG_MAPS, {"metadata": {"name": "a"}})
    reply = await api.delete(f"{CONFIG_MAPS}/a")
    assert (reply.status, reply.body["status"]) == (200, "Success")
    assert reply.body["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert (await api.delete(f"{CONFIG_MAPS}/a")).status == 404


async def test_preconditions_guard_a_deletion(api: SuiteApi) -> None:
    made = await api.created(CONFIG_MAPS, {"metadata": {"name": "a"}})
    wrong = await api.delete(f"{CONFIG_MAPS}/a", {"preconditions": {"uid": "other"}})
    assert (wrong.status, wrong.reason) == (409, "Conflict")
    stale = await api.delete(f"{CONFIG_MAPS}/a", {"preconditions": {"resourceVersion": "1"}})
    assert stale.status == 409
    assert (await api.delete(f"{CONFIG_MAPS}/a", {"preconditions": {"uid": made["metadata"]["uid"]}})).status == 200


async def test_finalizers_hold_an_object(widgets: SuiteApi) -> None:
    path = "/apis/test.example.com/v1/namespaces/$ns/widgets"
    await widgets.created(path, widget("a") | {"metadata": {"name": "a", "finalizers": ["x.io/hold"]}})
    held = (await widgets.delete(f"{path}/a")).body
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["generation"] == 2
    late = await widgets.merge(f"{path}/a", {"metadata": {"finalizers": ["x.io/hold", "y.io/late"]}})
    assert (late.status, late.body["details"]["causes"][0]["field"]) == (422, "metadata.finalizers")
    assert (await widgets.merge(f"{path}/a/status", {"status": {"phase": "Leaving"}})).status == 200
    assert (await widgets.merge(f"{path}/a", {"metadata": {"finalizers": []}})).status == 200
    assert (await widgets.get(f"{path}/a")).status == 404


async def test_dependents_follow_their_owner(api: SuiteApi) -> None:
    owner = await api.created(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    child = await api.created(SECRETS, _owned_by(owner, "child"))
    await api.created(SECRETS, _owned_by(child, "grandchild"))
    await api.delete(f"{CONFIG_MAPS}/owner")
    await api.until_gone(f"{SECRETS}/child")
    await api.until_gone(f"{SECRETS}/grandchild")


async def test_a_dependent_of_a_recreated_owner_goes(api: SuiteApi) -> None:
    first = await api.created(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    await api.delete(f"{CONFIG_MAPS}/owner")
    await api.created(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    await api.created(SECRETS, _owned_by(first, "child"))
    await api.until_gone(f"{SECRETS}/child")


async def test_one_living_owner_is_enough(api: SuiteApi) -> None:
    one = await api.created(CONFIG_MAPS, {"metadata": {"name": "one"}})
    two = await api.created(CONFIG_MAPS, {"metadata": {"name": "two"}})
    child = _owned_by(one, "child")
    child["metadata"]["ownerReferences"] += _owned_by(two, "child")["metadata"]["ownerReferences"]
    await api.created(SECRETS, child)
    await api.delete(f"{CONFIG_MAPS}/one")
    kept = await api.until(f"{SECRETS}/child", lambda r: len(r.body["metadata"]["ownerReferences"]) == 1)
    assert kept.body["metadata"]["ownerReferences"][0]["name"] == "two"


async def test_orphans_stay(api: SuiteApi) -> None:
    owner = await api.created(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    await api.created(SECRETS, _owned_by(owner, "child"))
    await api.delete(f"{CONFIG_MAPS}/owner", propagationPolicy="Orphan")
    await api.until_gone(f"{CONFIG_MAPS}/owner")
    assert "ownerReferences" not in (await api.get(f"{SECRETS}/child")).body["metadata"]


async def test_jobs_orphan_their_pods_unless_asked_otherwise(api: SuiteApi) -> None:
    jobs = "/apis/batch/v1/namespaces/$ns/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    for name, query, survives in (("j", {}, True), ("k", {"propagationPolicy": "Background"}, False)):
        job = await api.created(jobs, {"metadata": {"name": name}, "spec": {"template": template}})
        await api.created(PODS, _owned_by(job, f"pod-{name}") | {"spec": template["spec"]})
        await api.delete(f"{jobs}/{name}", **query)
        await api.until_gone(f"{jobs}/{name}")
        if survives:
            assert (await api.get(f"{PODS}/pod-{name}")).status == 200
        else:
            await api.until_gone(f"{PODS}/pod-{name}")


async def test_foreground_deletion_waits_for_blocking_dependents(api: SuiteApi) -> None:
    owner = await api.created(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    child = _owned_by(owner, "child", blockOwnerDeletion=True)
    child["metadata"]["finalizers"] = ["x.io/hold"]
    await api.created(SECRETS, child)
    await api.delete(f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})
    await api.until(f"{SECRETS}/child", lambda reply: "deletionTimestamp" in reply.body["metadata"])
    waiting = (await api.get(f"{CONFIG_MAPS}/owner")).body
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    await api.merge(f"{SECRETS}/child", {"metadata": {"finalizers": None}})
    await api.until_gone(f"{CONFIG_MAPS}/owner")


async def test_an_owner_in_another_namespace_holds_nothing(api: SuiteApi) -> None:
    owner = await api.created("/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "owner"}})
    await api.created(SECRETS, _owned_by(owner, "child"))
    await api.until_gone(f"{SECRETS}/child")
    events = (await api.get("/api/v1/namespaces/$ns/events", fieldSelector="reason=OwnerRefInvalidNamespace")).body
    assert [event["involvedObject"]["name"] for event in events["items"]] == ["child"]


async def test_a_cluster_scoped_dependent_of_a_namespaced_owner_is_never_collected(api: SuiteApi) -> None:
    owner = await api.created(CONFIG_MAPS, {"metadata": {"name": "owner"}})
    await api.created("/apis/rbac.authorization.k8s.io/v1/clusterroles", _owned_by(owner, "$ns-role"))
    # An Event about an object without a namespace is in "default".
    reported = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D$ns-role"
    await api.until(reported, lambda reply: len(reply.body["items"]) > 0)
    await api.delete(f"{CONFIG_MAPS}/owner")
    assert (await api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/$ns-role")).status == 200


async def test_a_namespace_takes_its_objects_along(api: SuiteApi) -> None:
    await api.created("/api/v1/namespaces", {"metadata": {"name": "$ns-team"}})
    held = {"metadata": {"name": "a", "finalizers": ["x.io/hold"]}}
    await api.created("/api/v1/namespaces/$ns-team/configmaps", held)
    await api.created("/api/v1/namespaces/$ns-team/secrets", {"metadata": {"name": "b"}})
    leaving = (await api.delete("/api/v1/namespaces/$ns-team")).body
    assert leaving["status"]["phase"] == "Terminating"
    await api.until_gone("/api/v1/namespaces/$ns-team/secrets/b")
    refused = await api.post("/api/v1/namespaces/$ns-team/secrets", {"metadata": {"name": "c"}})
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    assert (await api.get("/api/v1/namespaces/$ns-team")).status == 200
    await api.merge("/api/v1/namespaces/$ns-team/configmaps/a", {"metadata": {"finalizers": None}})
    await api.until_gone("/api/v1/namespaces/$ns-team")


async def test_an_empty_namespace_goes_at_once_and_may_come_again(api: SuiteApi) -> None:
    for _ in range(2):
        await api.created("/api/v1/namespaces", {"metadata": {"name": "$ns-team"}})
        await api.delete("/api/v1/namespaces/$ns-team")
        await api.until_gone("/api/v1/namespaces/$ns-team")


@pytest.mark.parametrize(
    ("node", "phase", "waits"), [("n1", "Running", True), ("n1", "Succeeded", False), ("", "Pending", False)]
)
async def test_a_running_pod_waits_for_its_kubelet(api: SuiteApi, node: str, phase: str, waits: bool) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]} | ({"nodeName": node} if node else {})
    await api.created(PODS, {"metadata": {"name": "p"}, "spec": spec})
    await api.merge(f"{PODS}/p/status", {"status": {"phase": phase}})
    await api.delete(f"{PODS}/p")
    assert ((await api.get(f"{PODS}/p")).status == 200) == waits
    if waits:
        await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
        assert (await api.get(f"{PODS}/p")).status == 404


async def test_collections_are_deleted_by_selection(api: SuiteApi) -> None:
    for name, tier in {"a": "web", "b": "db"}.items():
        await api.created(CONFIG_MAPS, {"metadata": {"name": name, "labels": {"tier": tier}}})
    reply = await api.delete(CONFIG_MAPS, labelSelector="tier=web")
    assert reply.status == 200
    assert [item["metadata"]["name"] for item in (await api.get(CONFIG_MAPS)).body["items"]] == ["b"]


async def test_the_end_of_a_definition_ends_its_objects(gadgets: SuiteApi) -> None:
    path = "/apis/$ns.example.com/v1/namespaces/$ns/gadgets"
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.$ns.example.com"
    await gadgets.created(path, gadget("a"))
    version = (await gadgets.get(path)).body["metadata"]["resourceVersion"]
    async with watching(gadgets, path, resourceVersion=version) as events:
        await gadgets.delete(definition)
        assert [event["type"] for event in await take(events, 1)] == ["DELETED"]
        async with asyncio.timeout(60):
            assert [event async for event in events] == []
    await gadgets.until_gone(definition)
    assert (await gadgets.get(path)).status == 404


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_the_first_namespaces_stay(api: SuiteApi, name: str) -> None:
    refused = await api.delete(f"/api/v1/namespaces/{name}")
    assert (refused.status, refused.message) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )
