"""Each alert that one service can bring about: quiet while all is well, then a planted fault, and it fires."""

import asyncio
import signal

import pytest
from support.controlplane import RawApi, definitions
from support.nats import connected
from support.prometheus import watching
from support.runtime_fixtures import MAPS, MODELS, model, seen
from support.services import Platform, ServiceUnderTest
from support.tiny_service import BROKEN

from aim_domain.services import SERVICES
from controller_runtime import Key
from controller_runtime.log.broker.connection import PubAck
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT
from embedded_apiserver import ControlPlane
from embedded_apiserver.faults import FaultRule, Latency, Refusal

APPLY = frozenset({"apply"})
CONFIG_MAPS = frozenset({"configmaps"})


async def led(stage: Platform, pod: str = "pod-0", **variables: str) -> ServiceUnderTest:
    """A service that leads; it tries again soon."""
    service = await stage.started(pod, NATS_HEARTBEAT="1s", BACKOFF_MAX="500ms", **variables)
    await service.ready()
    return service


@pytest.mark.spec("FW-563")
async def test_a_pod_that_is_gone(stage: Platform) -> None:
    service = await led(stage)
    async with watching(stage.folder / "p", {"pod-0": service.url}, {"AIMEngineDown": 0}) as prometheus:
        await prometheus.is_calm(1, "AIMEngineDown")
        await service.kill()
        await prometheus.fires("AIMEngineDown", pod="pod-0", severity="critical")


@pytest.mark.spec("FW-563", "FW-711")
async def test_a_service_whose_targets_are_gone(stage: Platform) -> None:
    service = await led(stage)
    targets = dict.fromkeys(SERVICES, service.url)
    alerts = {"AIMEngineAbsent": 0.0, "AIMEngineDown": 0.0}
    async with watching(stage.folder / "p", targets, alerts) as prometheus:
        await prometheus.is_calm(len(targets), *alerts)
        await prometheus.scrape({name: url for name, url in targets.items() if name != "serving"})
        await prometheus.fires("AIMEngineAbsent", service="serving", severity="critical")
        assert [one["service"] for one in await prometheus.firing("AIMEngineAbsent")] == ["serving"]
        assert await prometheus.firing("AIMEngineDown") == [], "nothing is left that it could look at"


@pytest.mark.spec("FW-563")
async def test_a_leader_that_hangs_while_the_other_may_not_lead_yet(stage: Platform) -> None:
    first = await stage.started("pod-0", LEADER_ELECT="true")
    await first.leads()
    second = await stage.started("pod-1", LEADER_ELECT="true")
    await second.ready()
    targets = {"pod-0": first.url, "pod-1": second.url}
    async with watching(stage.folder / "p", targets, {"AIMEngineNoLeader": 0}) as prometheus:
        await prometheus.is_calm(2, "AIMEngineNoLeader")
        first.signal(signal.SIGSTOP)
        await prometheus.fires("AIMEngineNoLeader", name="aim-tiny")


@pytest.mark.spec("FW-563")
async def test_a_broker_that_is_gone_and_changes_that_cannot_be_published(stage: Platform, api: RawApi) -> None:
    service = await led(stage, DIRECT_WATCH="false")
    thresholds = {"AIMEngineStale": 3.0, "AIMEnginePublisherLag": 1.0}
    async with watching(stage.folder / "p", {"pod-0": service.url}, thresholds) as prometheus:
        await prometheus.is_calm(1, *thresholds)
        await stage.nats.kill()
        await api.created(MODELS, model("qwen", "qwen:1"))
        await prometheus.fires("AIMEnginePublisherLag", part="tinymodels")
        await prometheus.fires("AIMEngineStale", part="tinymodels")


@pytest.mark.spec("FW-563")
async def test_two_clusters_under_one_root(stage: Platform) -> None:
    service = await led(stage)
    alert = {"AIMEngineForeignCluster": 0.0}
    async with watching(stage.folder / "p", {"pod-0": service.url}, alert) as prometheus:
        await prometheus.is_calm(1, "AIMEngineForeignCluster")
    async with ControlPlane() as elsewhere:
        elsewhere.install_crds(definitions())
        folder = stage.folder / "elsewhere"
        folder.mkdir()
        other = Platform(elsewhere, stage.nats, folder)
        try:
            # Whoever comes second leaves the root to the first, and says so.
            newcomer = await other.started("pod-1", NATS_HEARTBEAT="1s")
            async with watching(stage.folder / "q", {"pod-1": newcomer.url}, alert) as prometheus:
                await prometheus.fires("AIMEngineForeignCluster", part="tinymodels")
        finally:
            await other.close()


@pytest.mark.spec("FW-563")
async def test_passes_that_fail(stage: Platform, api: RawApi) -> None:
    service = await led(stage)
    async with watching(stage.folder / "p", {"pod-0": service.url}, {"AIMEngineReconcileErrors": 0.1}) as prometheus:
        await prometheus.is_calm(1, "AIMEngineReconcileErrors")
        await api.created(MODELS, model("bad", BROKEN))
        await prometheus.fires("AIMEngineReconcileErrors", controller="tiny")


@pytest.mark.spec("FW-563")
async def test_an_api_server_that_holds_every_write(stage: Platform, api: RawApi) -> None:
    service = await led(stage)
    thresholds = {"AIMEngineQueueGrows": 2.0, "AIMEngineQueueOld": 1.0, "AIMEnginePassHangs": 1.0}
    async with watching(stage.folder / "p", {"pod-0": service.url}, thresholds) as prometheus:
        await prometheus.is_calm(1, *thresholds)
        stage.plane.faults.add(FaultRule(verbs=APPLY, resources=CONFIG_MAPS, fault=Latency(seconds=50)))
        for number in range(14):
            await api.created(MODELS, model(f"m{number}", f"image:{number}"))
        for name in thresholds:
            await prometheus.fires(name, name="tiny")


@pytest.mark.spec("FW-563")
async def test_an_api_server_that_fails_and_one_that_forbids(stage: Platform, api: RawApi) -> None:
    service = await led(stage)
    thresholds = {"AIMEngineApiErrors": 0.1, "AIMEngineForbidden": 0.0}
    async with watching(stage.folder / "p", {"pod-0": service.url}, thresholds) as prometheus:
        await prometheus.is_calm(1, *thresholds)
        failing = stage.plane.faults.add(FaultRule(verbs=APPLY, resources=CONFIG_MAPS, fault=Refusal(code=503)))
        await api.created(MODELS, model("qwen", "qwen:1"))
        await prometheus.fires("AIMEngineApiErrors", pod="pod-0")
        stage.plane.faults.remove(failing.id)
        stage.plane.faults.add(FaultRule(verbs=APPLY, resources=CONFIG_MAPS, fault=Refusal(code=403)))
        await api.created(MODELS, model("other", "other:1"))
        await prometheus.fires("AIMEngineForbidden", verb="apply", resource="configmaps")


@pytest.mark.spec("FW-563")
async def test_a_message_that_no_publisher_wrote(stage: Platform, api: RawApi) -> None:
    service = await led(stage)
    await api.created(MODELS, model("qwen", "qwen:1"))
    await seen(api, "qwen", "qwen:1")
    async with watching(stage.folder / "p", {"pod-0": service.url}, {"AIMEngineForeignMessages": 0}) as prometheus:
        await prometheus.is_calm(1, "AIMEngineForeignMessages")
        async with connected(stage.nats.url) as bus:
            await bus.wait_connected()
            subject = DEFAULT_LAYOUT.state("tinymodels", Key("default", "qwen"))
            assert isinstance(await bus.publish(subject, b"garbage", {}), PubAck)
        await prometheus.fires("AIMEngineForeignMessages", pod="pod-0")


@pytest.mark.spec("FW-563")
async def test_a_service_that_hears_late(stage: Platform, api: RawApi) -> None:
    leader = await stage.started("pod-0", LEADER_ELECT="true")
    await leader.leads()
    follower = await stage.started("pod-1", LEADER_ELECT="true")
    await follower.ready()
    async with watching(stage.folder / "p", {"pod-1": follower.url}, {"AIMEngineEventPathSlow": 0.5}) as prometheus:
        await prometheus.is_calm(1, "AIMEngineEventPathSlow")
        follower.signal(signal.SIGSTOP)
        for number in range(5):
            await api.created(MODELS, model(f"m{number}", f"image:{number}"))
            await api.until(f"{MAPS}/m{number}", lambda reply: reply.status == 200)
        assert await leader.metric('aim_publisher_published_total{part="tinymodels"}') == 5
        # Less than the silence after which it would take a snapshot instead.
        await asyncio.sleep(2)
        follower.signal(signal.SIGCONT)
        await prometheus.fires("AIMEngineEventPathSlow", pod="pod-1")
