"""Start order does not matter: what is missing is named and waited for."""

from pathlib import Path

import pytest
from support.controlplane import RawApi, definitions, raw_api
from support.reconcile_bench import Faults
from support.runtime_fixtures import MAPS, MODELS, model, seen
from support.services import Platform, platform

from aim_local.nats import NatsServer
from aim_local.ports import free_port
from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane


@pytest.mark.spec("FW-282")
async def test_a_service_waits_for_the_api_server_and_says_so(tmp_path: Path) -> None:
    port = free_port()
    plane = ControlPlane(port)
    async with NatsServer() as nats:
        stage = Platform(plane, nats, tmp_path)
        try:
            service = await stage.started()
            waiting = await service.until(
                "/readyz", lambda status, page: status == 503 and any("refused" in one for one in page["reasons"])
            )
            assert any("tinymodels is not synced" in reason for reason in waiting["reasons"])
            assert (await service.ask("/healthz"))[0] == 200
            async with plane:
                plane.install_crds(definitions())
                await service.ready()
                async with raw_api(plane.url) as api:
                    await api.created(MODELS, model("qwen", "qwen:1"))
                    await seen(api, "qwen", "qwen:1")
                warned = [line for line in service.lines if line["message"] == "waiting for the API server"]
                assert len(warned) == 1
                assert await service.stop() == 0
            assert service.tracebacks == []
        finally:
            await stage.close()


@pytest.mark.spec("FW-403")
async def test_a_kind_that_can_not_be_watched_is_named(tmp_path: Path) -> None:
    async with ControlPlane() as plane, platform(tmp_path, plane) as stage:
        service = await stage.started()
        await service.until(
            "/readyz",
            lambda status, page: (
                status == 503 and any("tinymodels cannot be watched" in one for one in page["reasons"])
            ),
        )
        plane.install_crds(definitions())
        await service.ready()


@pytest.mark.spec("FW-485")
async def test_a_successor_that_cannot_vouch_for_a_kind_says_what_it_waits_for(tmp_path: Path) -> None:
    faults = Faults()
    async with ControlPlane(middleware=faults) as plane, platform(tmp_path, plane) as stage:
        plane.install_crds(definitions())
        former = await stage.started()
        await former.ready()
        await former.kill()
        faults.fail("GET", "/configmaps", 403, reason="Forbidden", message="somebody took the permission away")
        service = await stage.started("pod-1", DIRECT_WATCH="false")

        def unconfirmed(page: JsonObject) -> list[str]:
            return [one for one in page["reasons"] if "is not confirmed" in one]

        # At first that may be so of other parts as well.
        page = await service.until("/readyz", lambda _, page: len(unconfirmed(page)) == 1)
        (why,) = unconfirmed(page)
        assert why.startswith("tinymaps")
        assert "somebody took the permission away" in why
        reported = [line for line in service.lines if line["message"].startswith("reconciling waits until")]
        assert len(reported) == 1
        assert "tinymaps" in reported[0]["parts"]
        faults.rules.clear()
        await service.ready()


@pytest.mark.spec("FW-400", "FW-401", "FW-402")
async def test_without_a_broker_it_reads_kubernetes_and_hands_over_its_facts_later(
    stage: Platform, api: RawApi
) -> None:
    await stage.nats.stop()
    service = await stage.started(NATS_HEARTBEAT="1s")
    page = await service.ready()
    assert sorted(page["direct"]) == ["facts", "tinymaps", "tinymodels"]
    await api.created(MODELS, model("qwen", "qwen:1"))
    await seen(api, "qwen", "qwen:1")
    lost = await service.metric("aim_decisions_lost_total")
    assert lost is not None
    assert lost >= 1
    assert len([line for line in service.lines if "are not recorded" in line["message"]]) == 1
    before = stage.writes()
    await stage.nats.start()
    await service.until("/readyz", lambda status, now: status == 200 and now["direct"] == [])
    await service.until("/debug/queue", lambda _, now: now["publishers"]["facts"]["published"] == 1)
    cache = await service.page("/debug/cache")
    assert (await service.page("/debug/world")).keys() == cache.keys(), "its former name"
    for name in ("checkpoints", "markers"):
        assert await service.metric(f'aim_publisher_{name}_total{{part="facts"}}'), "by its name and the former one"
    assert cache["facts"]["objects"] == 1
    assert (stage.looked("qwen:1"), stage.writes()) == (1, before)
    assert await service.metric("aim_decisions_recorded_total") == 0


@pytest.mark.spec("FW-403")
async def test_without_broker_and_direct_watch_readiness_names_the_broker(stage: Platform) -> None:
    await stage.nats.stop()
    service = await stage.started(DIRECT_WATCH="false")
    page = await service.until("/readyz", lambda status, _: status == 503)
    assert any("tinymodels" in reason and "broker" in reason for reason in page["reasons"])


@pytest.mark.spec("FW-402")
async def test_an_outage_of_the_broker_stops_no_decision(stage: Platform, api: RawApi) -> None:
    service = await stage.started(NATS_HEARTBEAT="1s")
    await service.ready()
    await api.created(MODELS, model("one", "one:1"))
    await seen(api, "one", "one:1")
    await stage.nats.kill()
    await service.until("/readyz", lambda status, page: status == 200 and len(page["direct"]) == 3)
    before = stage.writes()
    await api.created(MODELS, model("two", "two:1"))
    await seen(api, "two", "two:1")
    assert stage.writes() == before + 1
    await stage.nats.start()
    await service.until("/readyz", lambda status, page: status == 200 and not page["direct"])
    assert stage.writes() == before + 1
    assert (stage.looked("one:1"), stage.looked("two:1")) == (1, 1)
    (await api.delete(f"{MAPS}/one"))
    await seen(api, "one", "one:1")


@pytest.mark.spec("FW-282")
async def test_a_silent_api_server_makes_it_unready_until_it_answers(stage: Platform, api: RawApi) -> None:
    service = await stage.started(LEADER_ELECT="true")
    await service.leads()
    await stage.plane.__aexit__(None, None, None)
    await service.until(
        "/readyz", lambda status, page: status == 503 and any("API server" in one for one in page["reasons"])
    )
    await stage.plane.__aenter__()
    await service.leads()
    await api.created(MODELS, model("qwen", "qwen:1"))
    await seen(api, "qwen", "qwen:1")
