"""What only the embedded control plane has: its knobs, its counters, and what can be seen of its insides."""

import asyncio

from support.controlplane import RawApi, eventually, raw_api, take, watching

from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane, Limits

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def _config_map(name: str) -> JsonObject:
    return {"metadata": {"name": name}}


async def _version(api: RawApi) -> str:
    return str((await api.get(CONFIG_MAPS)).body["metadata"]["resourceVersion"])


async def test_idle_watches_get_bookmarks() -> None:
    async with (
        ControlPlane(bookmark_seconds=0.05) as plane,
        raw_api(plane.url) as api,
        watching(api, CONFIG_MAPS, resourceVersion=await _version(api), allowWatchBookmarks="true") as events,
    ):
        await api.created("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
        marks = await take(events, 3)
    assert {mark["type"] for mark in marks} == {"BOOKMARK"}
    assert int(marks[-1]["object"]["metadata"]["resourceVersion"]) == plane.store.revision


async def test_watchers_are_forgotten_when_clients_leave(api: RawApi, controlplane: ControlPlane) -> None:
    async with watching(api, CONFIG_MAPS) as events:
        await api.created(CONFIG_MAPS, _config_map("a"))
        await take(events, 1)
        assert len(controlplane.store.collection("configmaps").watchers) == 1
    await eventually(lambda: not controlplane.store.collection("configmaps").watchers)


async def test_bookmarks_come_although_others_are_busy() -> None:
    async with ControlPlane(bookmark_seconds=0.1) as plane, raw_api(plane.url) as api:
        query = {"resourceVersion": await _version(api), "allowWatchBookmarks": "true", "labelSelector": "never=there"}

        async def write() -> None:
            for number in range(100):
                await api.created(CONFIG_MAPS, _config_map(f"c{number}"))
                await asyncio.sleep(0.005)

        async with asyncio.TaskGroup() as tasks, watching(api, CONFIG_MAPS, **query) as events:
            writing = tasks.create_task(write())
            assert [event["type"] for event in await take(events, 2)] == ["BOOKMARK", "BOOKMARK"]
            assert not writing.done()


async def test_the_event_window_is_bounded() -> None:
    async with ControlPlane(limits=Limits(events=3)) as plane, raw_api(plane.url) as api:
        first = await api.created(CONFIG_MAPS, {"metadata": {"name": "a"}})
        for name in "bcde":
            await api.created(CONFIG_MAPS, {"metadata": {"name": name}})
        version = first["metadata"]["resourceVersion"]
        assert (await api.get(CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="Exact")).status == 410


async def test_requests_are_counted(api: RawApi) -> None:
    await api.delete("/debug/requests")
    await api.apply(f"{CONFIG_MAPS}/a", {"metadata": {"name": "a"}}, "counter")
    await api.get(CONFIG_MAPS)
    report = (await api.get("/debug/requests")).body
    counted = {(r["verb"], r["resource"], r["fieldManager"]): r["count"] for r in report["requests"]}
    assert counted == {("apply", "configmaps", "counter"): 1, ("list", "configmaps", ""): 1}


async def test_kube_system_names_the_life_of_the_server() -> None:
    uids = set()
    for _ in range(2):
        async with ControlPlane() as plane, raw_api(plane.url) as api:
            uids |= {(await api.get("/api/v1/namespaces/kube-system")).body["metadata"]["uid"] for _ in range(2)}
    assert len(uids) == 2
