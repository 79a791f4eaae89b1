"""Faults on demand, over HTTP as others use them."""

import asyncio
import time

import aiohttp
import pytest
from support.controlplane import RawApi, raw_api, take, watching

from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def _config_map(name: str) -> JsonObject:
    return {"metadata": {"name": name}}


async def _fault(api: RawApi, fault: JsonObject, **rule: object) -> int:
    reply = await api.post("/debug/faults", rule | {"fault": fault})
    assert reply.status == 201, reply.body
    return int(reply.body["id"])


async def test_no_fault_is_armed_at_the_start(api: RawApi) -> None:
    async with api.session.get("/debug/faults") as response:
        assert await response.json() == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (409, "Conflict"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ],
)
async def test_requests_are_refused(api: RawApi, code: int, reason: str) -> None:
    await _fault(api, {"kind": "error", "code": code, "retryAfterSeconds": 2}, verbs=["create"], times=1)
    refused = await api.post(CONFIG_MAPS, _config_map("a"))
    assert (refused.status, refused.reason, refused.headers["Retry-After"]) == (code, reason, "2")
    assert (await api.post(CONFIG_MAPS, _config_map("a"))).status == 201


async def test_an_answer_may_be_lost_after_the_write(api: RawApi) -> None:
    await _fault(api, {"kind": "error", "code": 504, "phase": "after"}, verbs=["write"], times=1)
    assert (await api.post(CONFIG_MAPS, _config_map("a"))).status == 504
    await _fault(api, {"kind": "reset", "phase": "after"}, verbs=["create"], times=1)
    with pytest.raises(aiohttp.ClientError):
        await api.post(CONFIG_MAPS, _config_map("b"))
    assert [item["metadata"]["name"] for item in (await api.get(CONFIG_MAPS)).body["items"]] == ["a", "b"]


async def test_a_broken_connection_leaves_nothing_behind(api: RawApi) -> None:
    await _fault(api, {"kind": "reset"}, verbs=["create"], resources=["configmaps"], times=1)
    with pytest.raises(aiohttp.ClientError):
        await api.post(CONFIG_MAPS, _config_map("a"))
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 404


async def test_requests_wait(api: RawApi) -> None:
    await _fault(api, {"kind": "latency", "seconds": 0.3}, verbs=["get"])
    begun = time.monotonic()
    await api.get("/api/v1/namespaces/default")
    assert time.monotonic() - begun >= 0.3


async def test_a_watch_falls_silent_and_stays_open(api: RawApi) -> None:
    await _fault(api, {"kind": "silence", "chunks": 1}, verbs=["watch"], times=1)
    version = (await api.get(CONFIG_MAPS)).body["metadata"]["resourceVersion"]
    async with watching(api, CONFIG_MAPS, resourceVersion=version) as events:
        await api.created(CONFIG_MAPS, _config_map("a"))
        assert len(await take(events, 1)) == 1
        await api.created(CONFIG_MAPS, _config_map("b"))
        with pytest.raises(TimeoutError):
            await take(events, 1, seconds=0.3)
    async with watching(api, CONFIG_MAPS, resourceVersion=version) as events:
        assert len(await take(events, 2)) == 2


async def test_a_watch_breaks(api: RawApi) -> None:
    await _fault(api, {"kind": "reset", "chunks": 1}, verbs=["watch"])
    version = (await api.get(CONFIG_MAPS)).body["metadata"]["resourceVersion"]
    async with watching(api, CONFIG_MAPS, resourceVersion=version) as events:
        await api.created(CONFIG_MAPS, _config_map("a"))
        with pytest.raises(aiohttp.ClientError):
            await take(events, 2)


async def test_reads_show_the_past(api: RawApi) -> None:
    await api.created(CONFIG_MAPS, _config_map("a"))
    rule = await _fault(api, {"kind": "stale"}, verbs=["get", "list"], userAgent="suite")
    made = await api.created(CONFIG_MAPS, _config_map("b"))
    await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}})
    stale = (await api.get(CONFIG_MAPS)).body
    assert [item["metadata"]["name"] for item in stale["items"]] == ["a"]
    assert int(stale["metadata"]["resourceVersion"]) < int(made["metadata"]["resourceVersion"])
    assert "data" not in (await api.get(f"{CONFIG_MAPS}/a")).body
    assert (await api.get(f"{CONFIG_MAPS}/b")).status == 404
    # Who has seen more is not fooled.
    seen = made["metadata"]["resourceVersion"]
    assert (await api.get(CONFIG_MAPS, resourceVersion=seen, resourceVersionMatch="NotOlderThan")).status == 504
    async with api.session.delete("/debug/faults", params={"id": str(rule)}) as response:
        assert await response.json() == []
    assert len((await api.get(CONFIG_MAPS)).body["items"]) == 2


async def _back(api: RawApi) -> JsonObject:
    """What the server knows once it answers again."""
    async with asyncio.timeout(60):
        while True:
            try:
                return (await api.get(CONFIG_MAPS)).body
            except aiohttp.ClientError:
                await asyncio.sleep(0.02)


async def test_the_server_crashes_after_the_third_write_and_keeps_its_objects(api: RawApi) -> None:
    version = (await api.get(CONFIG_MAPS)).body["metadata"]["resourceVersion"]
    await _fault(api, {"kind": "crash", "downSeconds": 0.1}, verbs=["write"], skip=2, times=1)
    async with watching(api, CONFIG_MAPS, resourceVersion=version) as events:
        for name in "ab":
            await api.created(CONFIG_MAPS, _config_map(name))
        with pytest.raises(aiohttp.ClientError):
            await api.post(CONFIG_MAPS, _config_map("c"))
        with pytest.raises(aiohttp.ClientError):
            await take(events, 4)
    after = await _back(api)
    assert [item["metadata"]["name"] for item in after["items"]] == ["a", "b", "c"]
    async with watching(api, CONFIG_MAPS, resourceVersion=version) as events:
        (error,) = await take(events, 1)
    assert error["object"]["code"] == 410


async def test_the_server_crashes_and_forgets(api: RawApi, controlplane: ControlPlane) -> None:
    system = "/api/v1/namespaces/kube-system"
    before = (await api.get(system)).body["metadata"]["uid"]
    await api.created(CONFIG_MAPS, _config_map("a"))
    await _fault(api, {"kind": "crash", "keepStore": False, "phase": "before"}, verbs=["create"], times=1)
    with pytest.raises(aiohttp.ClientError):
        await api.post(CONFIG_MAPS, _config_map("b"))
    assert (await _back(api))["items"] == []
    assert (await api.get(system)).body["metadata"]["uid"] != before
    # What the server was started with is there again.
    assert (await api.get("/apis/aim.eai.amd.com/v1alpha1")).status == 200
    await api.created("/api/v1/namespaces", {"metadata": {"name": "team"}})
    await api.delete("/api/v1/namespaces/team")
    await api.until_gone("/api/v1/namespaces/team")


async def test_a_rule_that_makes_no_sense_is_refused(api: RawApi) -> None:
    refused = await api.post("/debug/faults", {"fault": {"kind": "error", "code": 200}})
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert "code" in refused.message


async def test_a_silent_watch_does_not_keep_the_server_up() -> None:
    async with ControlPlane() as plane, raw_api(plane.url) as api:
        await _fault(api, {"kind": "silence"}, verbs=["watch"])
        async with asyncio.timeout(20), watching(api, CONFIG_MAPS):
            pass
