"""Watches: initial events, resuming, bookmarks, selections, expiry."""

import asyncio
from contextlib import aclosing

import pytest
from support.controlplane import take, watching
from support.suite import Server, SuiteApi
from support.suite_widgets import GADGETS, gadget

from controller_runtime import JsonObject, KubeClient, Part, loads
from controller_runtime.kinds import CONFIG_MAP
from controller_runtime.kube.config import from_kubeconfig
from controller_runtime.log.publish.reflected import changes_since

CONFIG_MAPS = "/api/v1/namespaces/$ns/configmaps"


def _config_map(name: str, **labels: str) -> JsonObject:
    return {"metadata": {"name": name, "labels": labels}}


def _seen(events: list[JsonObject]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def _version(api: SuiteApi) -> str:
    return str((await api.get(CONFIG_MAPS)).body["metadata"]["resourceVersion"])


async def test_a_watch_without_version_starts_with_what_is_there(api: SuiteApi) -> None:
    await api.created(CONFIG_MAPS, _config_map("a"))
    async with watching(api, CONFIG_MAPS) as events:
        assert _seen(await take(events, 1)) == [("ADDED", "a")]
        await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}})
        await api.delete(f"{CONFIG_MAPS}/a")
        assert _seen(await take(events, 2)) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_resumes_without_loss(api: SuiteApi) -> None:
    version = await _version(api)
    for name in "abc":
        await api.created(CONFIG_MAPS, _config_map(name))
    async with watching(api, CONFIG_MAPS, resourceVersion=version) as events:
        seen = await take(events, 3)
    assert _seen(seen) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    async with watching(api, CONFIG_MAPS, resourceVersion=seen[0]["object"]["metadata"]["resourceVersion"]) as events:
        assert _seen(await take(events, 2)) == [("ADDED", "b"), ("ADDED", "c")]


@pytest.mark.spec("FW-896")
async def test_changes_since_a_version_are_those_that_a_watch_missed(server: Server, api: SuiteApi) -> None:
    part = Part("configmaps", CONFIG_MAP, label_selector=f"of={api.namespace}")
    await api.created(CONFIG_MAPS, _config_map("a", of=api.namespace))
    version = await _version(api)
    await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})
    await api.created(CONFIG_MAPS, _config_map("b", of=api.namespace))
    await api.created(CONFIG_MAPS, _config_map("c", of="another"))
    await api.delete(f"{CONFIG_MAPS}/b")
    await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "2"}})
    found = []
    async with (
        KubeClient(await from_kubeconfig(str(server.kubeconfig)), service="suite") as kube,
        aclosing(changes_since(kube, part, version)) as changes,
        asyncio.timeout(60),
    ):
        async for one in changes:
            found.append((one.key.name, "deleted" if one.deleted else (loads(one.body).get("data") or {}).get("x")))
            if len(found) == 4:
                break
    assert found == [("a", "1"), ("b", None), ("b", "deleted"), ("a", "2")]


async def test_a_deletion_carries_its_own_version(api: SuiteApi) -> None:
    made = await api.created(CONFIG_MAPS, _config_map("a"))
    version = made["metadata"]["resourceVersion"]
    async with watching(api, CONFIG_MAPS, resourceVersion=version) as events:
        await api.delete(f"{CONFIG_MAPS}/a")
        (deleted,) = await take(events, 1)
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_leaving_and_entering_a_selection(api: SuiteApi) -> None:
    await api.created(CONFIG_MAPS, _config_map("a", tier="web"))
    query = {"resourceVersion": await _version(api), "labelSelector": "tier=web"}
    async with watching(api, CONFIG_MAPS, **query) as events:
        await api.created(CONFIG_MAPS, _config_map("other", tier="db"))
        changed = (await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"tier": "db"}}})).body
        await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"tier": "web"}}})
        left, back = await take(events, 2)
    assert left["type"] == "DELETED"
    assert left["object"]["metadata"]["labels"] == {"tier": "web"}
    assert left["object"]["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
    assert back["type"] == "ADDED"


async def test_a_watch_sees_its_namespace_only(api: SuiteApi) -> None:
    async with watching(api, CONFIG_MAPS, resourceVersion=await _version(api)) as events:
        await api.created("/api/v1/namespaces/kube-system/configmaps", _config_map("elsewhere"))
        await api.created(CONFIG_MAPS, _config_map("here"))
        assert _seen(await take(events, 1)) == [("ADDED", "here")]


async def test_initial_events_end_with_a_marked_bookmark(api: SuiteApi) -> None:
    await api.created(CONFIG_MAPS, _config_map("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with watching(api, CONFIG_MAPS, **query) as events:
        first, mark = await take(events, 2)
        assert first["type"] == "ADDED"
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await api.created(CONFIG_MAPS, _config_map("b"))
        assert _seen(await take(events, 1)) == [("ADDED", "b")]
    alone = await api.get(CONFIG_MAPS, watch="1", sendInitialEvents="true")
    assert (alone.status, alone.reason) == (422, "Invalid")


async def test_a_watch_ends_after_its_time(api: SuiteApi) -> None:
    async with watching(api, CONFIG_MAPS, resourceVersion=await _version(api), timeoutSeconds="1") as events:
        assert [event async for event in events] == []


async def test_a_version_from_before_is_an_error_event(gadgets: SuiteApi) -> None:
    await gadgets.created(GADGETS, gadget("a"))
    async with watching(gadgets, GADGETS, resourceVersion="1") as events:
        (error,) = [event async for event in events]
    assert error["type"] == "ERROR"
    assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")
    assert error["object"]["message"].startswith("too old resource version: 1 (")


async def test_twenty_watchers_see_the_same(api: SuiteApi) -> None:
    version = await _version(api)

    async def follow() -> list[tuple[str, str]]:
        async with watching(api, CONFIG_MAPS, resourceVersion=version) as events:
            return _seen(await take(events, 10))

    async with asyncio.TaskGroup() as tasks:
        followers = [tasks.create_task(follow()) for _ in range(20)]
        for number in range(10):
            await api.created(CONFIG_MAPS, _config_map(f"c{number}"))
    assert {tuple(follower.result()) for follower in followers} == {tuple(("ADDED", f"c{n}") for n in range(10))}


async def test_the_last_finalizer_ends_in_one_event(api: SuiteApi) -> None:
    made = await api.created(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["x.io/hold"]}})
    async with watching(api, CONFIG_MAPS, resourceVersion=made["metadata"]["resourceVersion"]) as events:
        await api.delete(f"{CONFIG_MAPS}/a")
        await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}})
        assert _seen(await take(events, 2)) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_from_the_future_tells_nothing_of_the_present(api: SuiteApi) -> None:
    future = str(int(await _version(api)) + 100_000)
    async with watching(api, CONFIG_MAPS, resourceVersion=future, timeoutSeconds="2") as events:
        await api.created(CONFIG_MAPS, _config_map("a"))
        assert [event["type"] async for event in events if event["type"] != "BOOKMARK"] == []
