"""Passes of a whole service: nothing twice, nothing in vain, and no object at the cost of another."""

import pytest
from support.controlplane import RawApi
from support.runtime_fixtures import MAPS, MODELS, model, seen
from support.services import Platform
from support.tiny_service import BROKEN, BUG, UNREADABLE

QUICK = {"NATS_HEARTBEAT": "1s", "RESYNC_INTERVAL": "1s"}


@pytest.mark.spec("FW-013", "FW-017", "DI-366", "SV-256")
async def test_a_resync_that_finds_all_in_order_writes_nothing(stage: Platform, api: RawApi) -> None:
    service = await stage.started(**QUICK)
    await service.ready()
    for number in range(5):
        await api.created(MODELS, model(f"m{number}", f"image:{number}"))
    for number in range(5):
        await seen(api, f"m{number}", f"image:{number}")
    # One for each effect that was asked for, one for each ConfigMap, and the settings.
    page = await service.until("/debug/queue", lambda _, now: now["recorder"]["recorded"] == 11)
    start, writes = page["queues"]["tiny"]["taken"], stage.writes()
    page = await service.until("/debug/queue", lambda _, now: now["queues"]["tiny"]["taken"] >= start + 15)
    assert (page["recorder"]["recorded"], page["recorder"]["waiting"]) == (11, 0)
    assert stage.writes() == writes
    assert [stage.looked(f"image:{number}") for number in range(5)] == [1] * 5


@pytest.mark.spec("FW-004")
async def test_a_bug_and_an_unreadable_object_stop_nobody_else(stage: Platform, api: RawApi) -> None:
    for name, image in (("bug", BUG), ("unreadable", UNREADABLE), ("good", "good:1")):
        await api.created(MODELS, model(name, image))
    service = await stage.started(**QUICK)
    await seen(api, "good", "good:1")
    await api.created(MODELS, model("later", "later:1"))
    await seen(api, "later", "later:1")
    assert await service.metric('controller_runtime_reconcile_errors_total{controller="tiny"}')
    assert (await service.ask("/readyz"))[0] == 200
    assert any("nobody can read this" in line["message"] for line in service.lines)
    assert any("a bug of this very object" in str(line.get("exception")) for line in service.lines)


async def test_facts_survive_a_restart_and_go_with_their_owner(stage: Platform, api: RawApi) -> None:
    first = await stage.started(**QUICK)
    await first.ready()
    for name in ("stays", "goes", "vanishes"):
        await api.created(MODELS, model(name, f"{name}:1"))
    for name in ("stays", "goes", "vanishes"):
        await seen(api, name, f"{name}:1")
    await first.until("/debug/queue", lambda _, page: page["publishers"]["facts"]["published"] == 3)
    await api.delete(f"{MODELS}/goes")
    await first.until("/debug/cache", lambda _, page: page["facts"]["objects"] == 2)
    await first.kill()
    # Nobody sees this one go.
    await api.delete(f"{MODELS}/vanishes")
    await api.delete(f"{MAPS}/stays")
    second = await stage.started("pod-1", **QUICK)
    await second.until("/debug/cache", lambda status, page: status == 200 and page["facts"]["objects"] == 1)
    await seen(api, "stays", "stays:1")
    assert [stage.looked(f"{name}:1") for name in ("stays", "goes", "vanishes")] == [1, 1, 1]


async def test_a_fact_that_nothing_refers_to_any_more_goes(stage: Platform, api: RawApi) -> None:
    service = await stage.started(**QUICK)
    await service.ready()
    await api.created(MODELS, model("qwen", "qwen:1"))
    await seen(api, "qwen", "qwen:1")
    await api.merge(f"{MODELS}/qwen", {"spec": {"image": "qwen:2"}})
    await seen(api, "qwen", "qwen:2")
    await service.until("/debug/cache", lambda _, page: page["facts"]["objects"] == 1)
    start = (await service.page("/debug/queue"))["queues"]["tiny"]["taken"]
    await service.until("/debug/queue", lambda _, page: page["queues"]["tiny"]["taken"] >= start + 4)
    assert (await service.page("/debug/cache"))["facts"]["objects"] == 1
    assert (stage.looked("qwen:1"), stage.looked("qwen:2")) == (1, 1)


@pytest.mark.spec("FW-484")
async def test_what_failed_is_tried_again_when_what_it_needs_may_be_seen_again(stage: Platform, api: RawApi) -> None:
    await api.created(MODELS, model("broken", BROKEN))
    service = await stage.started(NATS_HEARTBEAT="1s", BACKOFF_INITIAL="900s", DIRECT_WATCH="false")
    before = await service.until("/debug/queue", lambda _, page: page["queues"].get("tiny", {}).get("retries"))
    await stage.nats.stop()
    await service.until("/debug/cache", lambda _, page: any(not part["fresh"] for part in page.values()))
    await stage.nats.start()
    tried = before["queues"]["tiny"]["retries"]
    await service.until("/debug/queue", lambda _, page: page["queues"]["tiny"]["retries"] > tried)
