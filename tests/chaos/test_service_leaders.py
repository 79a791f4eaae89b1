"""Two replicas of one service: one writer at any time, and another one soon after it is gone."""

import signal
import time
from datetime import datetime
from itertools import pairwise

import pytest
from support.controlplane import RawApi
from support.nats import connected, eventually
from support.runtime_fixtures import MAPS, MODELS, api, controlplane, model, seen, stage
from support.services import Platform, ServiceUnderTest
from support.tiny_service import SLOW

from controller_runtime import Key
from controller_runtime.log import History

__all__ = ["api", "controlplane", "stage"]

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/aim-tiny"
LEASE_SECONDS = 15
PAUSE = 2.0
"""Seconds that one who was superseded leaves the other alone."""
ELECTED = {"LEADER_ELECT": "true", "NATS_HEARTBEAT": "1s", "RESYNC_INTERVAL": "2s"}


async def pair(stage: Platform) -> tuple[ServiceUnderTest, ServiceUnderTest]:
    """A leader and a follower, both ready."""
    leader = await stage.started("pod-0", **ELECTED)
    await leader.leads()
    follower = await stage.started("pod-1", **ELECTED)
    page = await follower.ready()
    assert page["leads"] is False
    return leader, follower


async def looker(stage: Platform, image: str) -> int:
    """Process id of whoever looked at an image."""
    lines = stage.looks.read_text(encoding="utf-8").splitlines()
    (found,) = [int(line.split()[0]) for line in lines if line.split()[1] == image]
    return found


@pytest.mark.spec("FW-281")
async def test_only_the_leader_works_and_the_follower_knows_as_much(stage: Platform, api: RawApi) -> None:
    leader, follower = await pair(stage)
    for number in range(5):
        await api.created(MODELS, model(f"m{number}", f"image:{number}"))
    for number in range(5):
        await seen(api, f"m{number}", f"image:{number}")
        assert await looker(stage, f"image:{number}") == leader.pid
    cache = await follower.until("/debug/cache", lambda _, page: page["facts"]["objects"] == 5)
    assert len(cache["tinymodels"]["keys"]) == 5
    queue = await follower.page("/debug/queue")
    assert (queue["leads"], queue["publishers"], queue["queues"]) == (False, {}, {})
    assert await follower.metric('leader_election_master_status{name="aim-tiny"}') == 0
    assert await follower.metric('workqueue_depth{name="tiny"}') == 0
    assert (await leader.stop(), await follower.stop()) == (0, 0)


@pytest.mark.spec("FW-281")
async def test_a_successor_takes_over_at_once_when_the_leader_stops(stage: Platform, api: RawApi) -> None:
    leader, follower = await pair(stage)
    await api.created(MODELS, model("slow", SLOW))
    await stage.until_looked(SLOW)
    assert await leader.stop() == 0
    holder = (await api.get(LEASE)).body["spec"].get("holderIdentity") or ""
    assert not holder.startswith("pod-0"), "the Lease was given back"
    await follower.leads()
    # What the first one had begun is begun again.
    await stage.until_looked(SLOW, times=2)


@pytest.mark.spec("FW-281")
async def test_a_successor_takes_over_when_the_leader_dies(stage: Platform, api: RawApi) -> None:
    leader, follower = await pair(stage)
    await api.created(MODELS, model("before", "before:1"))
    await seen(api, "before", "before:1")
    await follower.until("/debug/cache", lambda _, page: page["facts"]["objects"] == 1)
    await leader.kill()
    await api.created(MODELS, model("after", "after:1"))
    await seen(api, "after", "after:1")
    assert await looker(stage, "after:1") == follower.pid
    assert stage.looked("before:1") == 1


@pytest.mark.spec("FW-896")
async def test_a_successor_publishes_what_came_while_none_led(stage: Platform, api: RawApi) -> None:
    leader, follower = await pair(stage)
    numbers = [(await api.created(MODELS, model("m", "m:1")))["metadata"]["resourceVersion"]]
    await seen(api, "m", "m:1")
    await leader.until("/debug/queue", lambda _, page: not page["publishers"]["tinymodels"]["waiting"])
    await leader.kill()
    for number in (2, 3, 4):
        changed = await api.merge(f"{MODELS}/m", {"spec": {"image": f"m:{number}"}})
        numbers.append(changed.body["metadata"]["resourceVersion"])
    await seen(api, "m", "m:4")
    async with connected(stage.nats.url) as bus:
        await bus.wait_connected()
        versions = await History(bus).versions("tinymodels", Key("default", "m"))
    found = [one.state.resource_version for one in versions]
    assert found[: len(numbers)] == numbers
    assert len({one.state.epoch for one in versions}) == 1, "nothing is missing, so the epoch goes on"
    assert await follower.stop() == 0


@pytest.mark.spec("FW-485")
async def test_a_successor_decides_about_nothing_that_its_predecessor_reported_too_early(
    stage: Platform, api: RawApi
) -> None:
    leader = await stage.started("pod-0", LEADER_ELECT="true")
    await leader.leads()
    follower = await stage.started("pod-1", LEADER_ELECT="true")
    await follower.ready()
    await api.created(MODELS, model("qwen", "before:1"))
    await seen(api, "qwen", "before:1")
    await follower.until("/debug/cache", lambda _, page: page["tinymaps"]["objects"] == 1)
    await leader.kill()
    # No process publishes this; what the leader confirmed last is still fresh when the other one takes over.
    await api.merge(f"{MODELS}/qwen", {"spec": {"image": "after:1"}})
    await seen(api, "qwen", "after:1")
    passes = [line["image"] for line in follower.lines if line["message"] == "looking"]
    assert set(passes) == {"after:1"}


@pytest.mark.spec("FW-428")
async def test_a_restarted_pod_needs_not_wait_for_its_own_lease(stage: Platform, api: RawApi) -> None:
    first = await stage.started("pod-0", **ELECTED)
    await first.leads()
    await first.kill()
    again = await stage.started("pod-0", **ELECTED)
    await again.ready()
    began = time.monotonic()
    await again.leads()
    # Any other identity would wait for the Lease from its own first look on, however long the start took.
    assert time.monotonic() - began < LEASE_SECONDS
    await api.created(MODELS, model("qwen", "qwen:1"))
    await seen(api, "qwen", "qwen:1")


@pytest.mark.spec("FW-428")
async def test_two_processes_of_one_name_never_both_lead(stage: Platform, api: RawApi) -> None:
    first = await stage.started("pod-0", **ELECTED, POD_UID="")
    await first.leads()
    second = await stage.started("pod-0", **ELECTED, POD_UID="")
    page = await second.ready()
    assert page["leads"] is False
    for number in range(30):
        await api.created(MODELS, model(f"m{number}", f"image:{number}"))
        pages = [await one.page("/readyz") for one in (first, second)]
        assert [one["leads"] for one in pages] == [True, False]
    for number in range(30):
        await seen(api, f"m{number}", f"image:{number}")
        assert await looker(stage, f"image:{number}") == first.pid


@pytest.mark.spec("FW-407", "FW-281")
async def test_a_leader_that_slept_does_not_write_when_it_wakes(stage: Platform, api: RawApi) -> None:
    sleeper, follower = await pair(stage)
    for number in range(20):
        await api.created(MODELS, model(f"m{number}", f"image:{number}"))
    for number in range(20):
        await seen(api, f"m{number}", f"image:{number}")
    await api.created(MODELS, model("slow", SLOW))
    await stage.until_looked(SLOW)
    sleeper.signal(signal.SIGSTOP)
    # What it is about to do when it enqueues: repair all of these, as the follower will have done meanwhile.
    for number in range(20):
        await api.delete(f"{MAPS}/m{number}")
    await follower.leads()
    for number in range(20):
        await seen(api, f"m{number}", f"image:{number}")
    stage.plane.requests.reset()
    for number in range(20):
        await api.delete(f"{MAPS}/m{number}")
    sleeper.signal(signal.SIGCONT)
    page = await sleeper.until("/readyz", lambda _, page: page["leads"] is False)
    assert page["leads"] is False
    for number in range(20):
        await seen(api, f"m{number}", f"image:{number}")
    await sleeper.ready()
    # Its term ends a moment after it knows that it no longer leads.
    await sleeper.until("/debug/queue", lambda _, page: not page["publishers"] and not page["queues"])
    assert await sleeper.metric("aim_effects_running") is None
    assert stage.writes() == 20, "each ConfigMap is restored once, by the one that leads"
    assert [stage.looked(f"image:{number}") for number in range(20)] == [1] * 20
    lease = (await api.get(LEASE)).body
    assert lease["spec"]["holderIdentity"].startswith("pod-1_")
    await follower.kill()
    await sleeper.leads()
    assert sleeper.tracebacks == []


@pytest.mark.spec("FW-407")
async def test_two_that_both_believe_to_lead_neither_fight_fast_nor_die(stage: Platform, api: RawApi) -> None:
    # Without elections nothing keeps the second from publishing; the checkpoints' fence has to.
    one = await stage.started("pod-0", NATS_HEARTBEAT="1s")
    await one.ready()
    two = await stage.started("pod-1", NATS_HEARTBEAT="1s")
    await two.ready()

    def reported(service: ServiceUnderTest) -> list[datetime]:
        lines = [line for line in service.lines if "another process publishes" in line["message"]]
        return [datetime.fromisoformat(line["timestamp"]) for line in lines]

    await eventually(lambda: len(reported(one) + reported(two)) >= 4, "they supersede each other again and again")
    for moments in (reported(one), reported(two)):
        pauses = [(after - before).total_seconds() for before, after in pairwise(moments)]
        # By clocks of two kinds: the pause is a timer's, the moments are those of the log.
        assert all(pause > PAUSE - 0.1 for pause in pauses), pauses
    assert await one.stop() == 0
    await api.created(MODELS, model("qwen", "qwen:1"))
    await seen(api, "qwen", "qwen:1")
    assert await two.stop() == 0
    assert one.tracebacks + two.tracebacks == []
