"""Passes over objects that are being deleted."""

import asyncio

import pytest
from support.passes import CHAT, deletion
from support.reconcile_bench import CONFIG_MAPS, SERVICES, Bench, config_map

from aim_domain.kinds import AIM_SERVICE
from controller_runtime import ApiError, Key, Plan, View


@pytest.mark.spec("FW-182", "FW-184", "FW-188")
async def test_a_clean_up_and_then_the_finalizer(bench: Bench) -> None:
    cache = await bench.create(CONFIG_MAPS, config_map("cache"))
    bench.finalizing("aim.eai.amd.com/x", lambda _: None if gone(bench) else Plan(deletes=(deletion(cache),)))
    await bench.worker.process(CHAT)
    live = await bench.get(AIM_SERVICE, "chat")
    assert live["metadata"]["finalizers"] == ["aim.eai.amd.com/x"]
    await bench.kube.delete(AIM_SERVICE, "chat", "default", uid=live["metadata"]["uid"])
    await bench.see(SERVICES, "chat")
    await bench.worker.process(CHAT)
    await bench.worker.process(CHAT)
    with pytest.raises(ApiError) as error:
        await bench.get(AIM_SERVICE, "chat")
    assert error.value.is_not_found


@pytest.mark.spec("FW-500")
async def test_what_a_clean_up_reads_is_noted_and_wakes_it(bench: Bench) -> None:
    def clean_up(view: View) -> Plan:
        view.get(CONFIG_MAPS, "default", "blocks")
        return Plan(requeue_after=60)

    bench.finalizing("aim.eai.amd.com/x", clean_up)
    await bench.worker.process(CHAT)
    live = await bench.see(SERVICES, "chat")
    await bench.kube.delete(AIM_SERVICE, "chat", "default", uid=live["metadata"]["uid"])
    await bench.see(SERVICES, "chat")
    await bench.worker.process(CHAT)
    assert (CONFIG_MAPS.name, Key("default", "blocks")) in bench.saw[-1].objects
    while bench.queue.statistics.depth:
        bench.queue.done((await bench.queue.get()).key)
    await bench.create(CONFIG_MAPS, config_map("blocks"))
    assert (await asyncio.wait_for(bench.queue.get(), 60)).key == CHAT


@pytest.mark.spec("FW-184")
async def test_a_forbidden_clean_up_lets_the_object_go(bench: Bench) -> None:
    cache = await bench.create(CONFIG_MAPS, config_map("cache"))
    bench.finalizing("aim.eai.amd.com/x", lambda _: Plan(deletes=(deletion(cache),)))
    bench.faults.fail("DELETE", "configmaps/cache", 403, reason="Forbidden", message="no")
    await bench.worker.process(CHAT)
    live = await bench.see(SERVICES, "chat")
    await bench.kube.delete(AIM_SERVICE, "chat", "default", uid=live["metadata"]["uid"])
    await bench.see(SERVICES, "chat")
    await bench.worker.process(CHAT)
    with pytest.raises(ApiError):
        await bench.get(AIM_SERVICE, "chat")


@pytest.mark.spec("AT-136", "SV-237", "FW-184")
async def test_one_deletion_that_fails_holds_up_neither_the_others_nor_the_next_try(bench: Bench) -> None:
    caches = [await bench.create(CONFIG_MAPS, config_map(name)) for name in ("first", "second")]

    def left(_: View) -> Plan | None:
        there = {entry.key.name for entry in bench.cache.all(CONFIG_MAPS)}
        remaining = [deletion(one) for one in caches if one["metadata"]["name"] in there]
        return Plan(deletes=tuple(remaining)) if remaining else None

    bench.finalizing("aim.eai.amd.com/x", left)
    await bench.worker.process(CHAT)
    live = await bench.see(SERVICES, "chat")
    await bench.kube.delete(AIM_SERVICE, "chat", "default", uid=live["metadata"]["uid"])
    await bench.see(SERVICES, "chat")
    bench.faults.fail("DELETE", "configmaps/first", 500)
    await bench.worker.process(CHAT)
    assert (await bench.get(AIM_SERVICE, "chat"))["metadata"]["finalizers"] == ["aim.eai.amd.com/x"]
    assert [entry.key.name for entry in bench.cache.all(CONFIG_MAPS)] == ["first"]
    bench.faults.rules.clear()
    assert (await asyncio.wait_for(bench.queue.get(), 60)).key == CHAT, "it is tried again"
    await bench.worker.process(CHAT)
    await bench.worker.process(CHAT)
    with pytest.raises(ApiError):
        await bench.get(AIM_SERVICE, "chat")


def gone(bench: Bench) -> bool:
    return bench.cache.get(CONFIG_MAPS, Key("default", "cache")) is None


@pytest.mark.spec("FW-861", "FW-182")
async def test_a_clean_up_waits_for_no_stale_kind(bench: Bench) -> None:
    def clean_up(view: View) -> Plan | None:
        view.get(CONFIG_MAPS, "default", "used")
        return None

    bench.finalizing("aim.eai.amd.com/x", clean_up)
    await bench.worker.process(CHAT)
    live = await bench.see(SERVICES, "chat")
    await bench.kube.delete(AIM_SERVICE, "chat", "default", uid=live["metadata"]["uid"])
    await bench.see(SERVICES, "chat")
    bench.cache.mark(CONFIG_MAPS, fresh=False)
    await bench.worker.process(CHAT)
    with pytest.raises(ApiError) as error:
        await bench.get(AIM_SERVICE, "chat")
    assert error.value.is_not_found
