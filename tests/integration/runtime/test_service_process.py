"""The life of a service process: start, probes, pages, stop."""

import asyncio
import json
import signal
import socket

import aiohttp
import pytest
from support.controlplane import RawApi
from support.nats import connected, eventually
from support.runtime_fixtures import MODELS, model, seen
from support.services import Platform
from support.tiny_service import SLOW

from aim_local.ports import free_port
from controller_runtime import Key
from controller_runtime.annotation_keys import PAUSED
from controller_runtime.log.broker.connection import PubAck
from controller_runtime.log.broker.reading import last_message
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT

QUICK = {"NATS_HEARTBEAT": "1s"}


@pytest.mark.spec("FW-289")
async def test_pages_for_people_are_made_once_for_all_who_ask_at_the_same_time(stage: Platform) -> None:
    service = await stage.started()
    await service.ready()
    paths = ("/debug/cache", "/debug/queue", "/debug/world", "/debug/why-woken?name=m", "/debug/other")
    answers = await asyncio.gather(*map(service.ask, paths))
    assert [status for status, _ in answers] == [200, 200, 200, 422, 404]
    cache, queue, former, unclear, _ = (json.loads(text) for _, text in answers)
    assert cache.keys() == former.keys() == {"facts", "tinymaps", "tinymodels"}
    assert {"publishers", "queues", "recorder"} <= queue.keys()
    assert [one["loc"] for one in unclear["detail"]] == [["query", "controller"]]


@pytest.mark.spec("FW-282", "FW-283", "FW-284", "FW-285", "FW-286")
async def test_a_service_does_its_work_and_tells_about_it(stage: Platform, api: RawApi) -> None:
    service = await stage.started()
    await service.ready()
    created = await api.created(MODELS, model("qwen", "qwen:1"))
    child = await seen(api, "qwen", "qwen:1")
    assert child["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
    assert await service.ask("/healthz") == (200, "ok")
    # Where connecting takes more than a second, the API server is asked at first.
    cache = await service.until("/debug/cache", lambda _, page: page["tinymodels"]["source"] == "bus")
    assert list(cache["tinymodels"]["keys"]) == ["default/qwen"]
    queue = await service.until("/debug/queue", lambda _, page: page["publishers"]["facts"]["published"] == 1)
    assert queue["queues"]["tiny"]["taken"] >= 2
    assert await service.metric('controller_runtime_reconcile_total{controller="tiny",result="success"}')
    for sample in (
        'controller_runtime_reconcile_errors_total{controller="tiny"}',
        'aim_failed_changes_total{part="tinymodels"}',
        'aim_failed_wakes_total{controller="tiny"}',
        'aim_untold_refusals_total{controller="tiny"}',
        'workqueue_depth{name="tiny"}',
        'aim_queue_oldest_seconds{name="tiny"}',
        'aim_publisher_lag_seconds{part="tinymodels"}',
        'workqueue_retries_total{name="tiny"}',
        'workqueue_unfinished_work_seconds{name="tiny"}',
    ):
        assert await service.metric(sample) == 0, sample
    for sample in (
        'controller_runtime_reconcile_time_seconds_count{controller="tiny"}',
        'controller_runtime_max_concurrent_reconciles{controller="tiny"}',
        'workqueue_adds_total{name="tiny"}',
        'workqueue_queue_duration_seconds_count{name="tiny"}',
        'leader_election_master_status{name="aim-tiny"}',
        "aim_projection_messages_total",
        'aim_api_requests_total{code="200",resource="aimmodels.aim.eai.amd.com",verb="list"}',
        'aim_publish_seconds_count{part="tinymodels"}',
        "aim_event_delivery_seconds_count",
        f'rest_client_request_duration_seconds_count{{host="{stage.plane.url[7:]}",verb="PATCH"}}',
        f'rest_client_requests_total{{code="200",host="{stage.plane.url[7:]}",method="GET"}}',
    ):
        assert await service.metric(sample), sample
    assert await service.metric("aim_projection_dropped_total") == 0
    assert await service.metric('aim_part_age_seconds{part="tinymodels",source="bus"}') is not None


@pytest.mark.spec("SV-270", "FW-002")
async def test_a_paused_object_is_shown_where_its_status_cannot_tell(stage: Platform, api: RawApi) -> None:
    service = await stage.started()
    await service.ready()
    paused = model("held", "held:1")
    paused["metadata"]["annotations"] = {PAUSED: "true"}
    await api.created(MODELS, paused)
    await api.created(MODELS, model("free", "free:1"))
    await seen(api, "free", "free:1")
    page = await service.until("/debug/queue", lambda _, now: now["paused"])
    assert page["paused"] == ["tinymodels default/held"]
    assert await service.metric('aim_paused_objects{part="tinymodels"}') == 1
    await api.merge(f"{MODELS}/held", {"metadata": {"annotations": {PAUSED: None}}})
    await seen(api, "held", "held:1")
    assert await service.metric('aim_paused_objects{part="tinymodels"}') == 0


@pytest.mark.spec("FW-287")
async def test_a_signal_ends_it_with_success_and_without_noise(stage: Platform) -> None:
    service = await stage.started(LEADER_ELECT="true")
    await service.leads()
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/aim-tiny"
    async with aiohttp.ClientSession(stage.plane.url) as session:
        async with session.get(lease) as held:
            assert (await held.json())["spec"]["holderIdentity"].startswith("pod-0_")
        assert await service.stop() == 0
        async with session.get(lease) as left:
            assert not (await left.json())["spec"].get("holderIdentity")
    assert service.tracebacks == []


@pytest.mark.spec("FW-287")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_running_effect_and_open_connections_do_not_hold_it_up(
    stage: Platform, api: RawApi, number: signal.Signals
) -> None:
    service = await stage.started()
    await service.ready()
    await api.created(MODELS, model("slow", SLOW))
    await stage.until_looked(SLOW)
    host, port = service.url.removeprefix("http://").split(":")
    _, idle = await asyncio.open_connection(host, int(port))
    _, half = await asyncio.open_connection(host, int(port))
    half.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n")
    await half.drain()
    service.signal(number)
    assert await service.ended() == 0
    assert service.tracebacks == []
    idle.close()
    half.close()


@pytest.mark.spec("FW-287", "FW-402")
async def test_it_stops_in_time_while_the_broker_is_away(stage: Platform) -> None:
    service = await stage.started(**QUICK)
    await service.ready()
    await stage.nats.kill()
    await service.until("/readyz", lambda _, page: page["broker"] == "disconnected")
    assert await service.stop() == 0
    assert service.tracebacks == []


@pytest.mark.spec("FW-450")
async def test_records_that_wait_at_the_signal_are_written_before_the_end(stage: Platform, api: RawApi) -> None:
    # With each heartbeat the service compares the streams with its own settings, and would repair this one.
    service = await stage.started(NATS_HEARTBEAT="60s")
    await service.ready()
    async with connected(stage.nats.url) as bus:
        await bus.wait_connected()
        stream = DEFAULT_LAYOUT.decisions_stream
        config = (await bus.api(f"STREAM.INFO.{stream}"))["config"]
        await bus.api(f"STREAM.UPDATE.{stream}", {**config, "discard": "new", "max_bytes": 100})
        for number in range(5):
            await api.created(MODELS, model(f"m{number}", f"image:{number}"))
            await seen(api, f"m{number}", f"image:{number}")
        # Two for each model, and the settings; a pass that something else enqueues meanwhile adds its own.
        await service.until("/debug/queue", lambda _, page: page["recorder"]["waiting"] >= 11)
        await bus.api(f"STREAM.UPDATE.{stream}", config)
        assert await service.stop() == 0
        # The settings once more, behind the last record.
        assert (await bus.api(f"STREAM.INFO.{stream}"))["state"]["messages"] >= 12
    assert not [line for line in service.lines if "lost" in line["message"]]


@pytest.mark.spec("FW-450")
async def test_versions_that_wait_at_the_signal_are_reported(stage: Platform, api: RawApi) -> None:
    service = await stage.started(**QUICK)
    await service.ready()
    await stage.nats.kill()
    await api.created(MODELS, model("qwen", "qwen:1"))
    await service.until("/debug/queue", lambda _, page: page["publishers"]["tinymodels"]["waiting"] == 1)
    assert await service.stop() == 0
    [reported] = [line for line in service.lines if "unpublished versions" in line["message"]]
    assert (reported["part"], reported["count"]) == ("tinymodels", 1)


@pytest.mark.spec("FW-483")
async def test_what_somebody_puts_in_the_place_of_its_message_is_repaired(stage: Platform, api: RawApi) -> None:
    service = await stage.started(**QUICK)
    await service.ready()
    await api.created(MODELS, model("qwen", "qwen:1"))
    await seen(api, "qwen", "qwen:1")
    async with connected(stage.nats.url) as bus:
        await bus.wait_connected()
        subject = DEFAULT_LAYOUT.state("tinymodels", Key("default", "qwen"))
        stream = DEFAULT_LAYOUT.state_stream
        assert isinstance(await bus.publish(subject, b"garbage", {}), PubAck)

        async def repaired() -> bool:
            message = await last_message(bus, stream, subject)
            return message is not None and message.data != b"garbage"

        await eventually(repaired, "published again")


async def test_a_collector_that_does_not_answer_does_not_hold_it_up(stage: Platform, api: RawApi) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        service = await stage.started(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
        await service.ready()
        await api.created(MODELS, model("qwen", "qwen:1"))
        await seen(api, "qwen", "qwen:1")
        assert await service.stop() == 0


async def test_a_taken_port_is_reported_in_one_line(stage: Platform) -> None:
    port = free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        service = await stage.started(HEALTH_PROBE_BIND_ADDRESS=f"127.0.0.1:{port}", METRICS_BIND_ADDRESS="0")
        assert await service.ended() == 1
    (line,) = [line for line in service.lines if line["level"] == "error"]
    assert f"127.0.0.1:{port}" in line["error"]
    assert "--health-probe-bind-address" in line["error"]
    assert service.tracebacks == []


@pytest.mark.spec("FW-400", "FW-401")
async def test_a_stream_of_another_nature_is_reported_and_does_not_stop_the_service(stage: Platform) -> None:
    async with connected(stage.nats.url) as bus:
        await bus.wait_connected()
        await bus.api(
            "STREAM.CREATE.AIM_STATE",
            {"name": "AIM_STATE", "subjects": ["aim.state.>"], "storage": "memory", "retention": "limits"},
        )
    service = await stage.started()
    await service.until("/readyz", lambda _status, page: "AIM_STATE" in str(page.get("publishing")))
    assert service.tracebacks == []
    assert await service.stop() == 0


async def test_without_a_description_of_the_api_server_it_says_so(stage: Platform) -> None:
    service = stage.service()
    (stage.folder / "kubeconfig").unlink()
    await service.start()
    assert await service.ended() == 1
    (line,) = [line for line in service.lines if line["level"] == "error"]
    assert "KUBECONFIG" in line["error"]
    assert service.tracebacks == []


@pytest.mark.spec("FW-287")
async def test_it_stops_in_time_while_the_api_server_is_away(stage: Platform) -> None:
    service = await stage.started(LEADER_ELECT="true", **QUICK)
    await service.leads()
    await stage.plane.__aexit__(None, None, None)
    assert await service.stop() == 0
    assert service.tracebacks == []
    await stage.plane.__aenter__()


@pytest.mark.spec("FW-287")
async def test_it_stops_in_time_while_the_api_server_takes_requests_and_says_nothing(stage: Platform) -> None:
    service = stage.service(LEADER_ELECT="true")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        config = stage.folder / "kubeconfig"
        port = silent.getsockname()[1]
        config.write_text(config.read_text().replace(stage.plane.url, f"http://127.0.0.1:{port}"))
        await service.start()
        page = await service.until("/readyz", lambda status, _: status == 503)
        assert any("API server" in reason for reason in page["reasons"])
        assert await service.stop() == 0
    assert service.tracebacks == []
