"""The wall clock of a service is set forward and back by an hour; API server, broker and monotonic clock go on."""

from datetime import UTC, datetime

import pytest
from support.controlplane import RawApi, Reply
from support.runtime_fixtures import MODELS, model, seen
from support.services import Platform
from support.stepped_clock import SteppedClock

HOUR = 3600
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/aim-tiny"
ELECTED = {"LEADER_ELECT": "true", "NATS_HEARTBEAT": "1s"}


@pytest.mark.spec("FW-281", "FW-407")
@pytest.mark.parametrize("first", [HOUR, -HOUR])
async def test_a_step_of_the_clock_stops_no_decision_and_repeats_none(stage: Platform, api: RawApi, first: int) -> None:
    clock = SteppedClock(stage.folder)
    service = await clock.started(stage, "pod-0", **ELECTED)
    await service.leads()
    await api.created(MODELS, model("before", "before:1"))
    await seen(api, "before", "before:1")
    for number, step in enumerate((first, 0)):
        clock.set(step)
        await api.created(MODELS, model(f"m{number}", f"image:{number}"))
        await seen(api, f"m{number}", f"image:{number}")
        await service.leads()
    assert [stage.looked(image) for image in ("before:1", "image:0", "image:1")] == [1, 1, 1]
    assert await service.stop() == 0
    assert service.tracebacks == []


@pytest.mark.spec("FW-281")
@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_lease_of_another_time_is_taken_over_like_any(stage: Platform, api: RawApi, step: int) -> None:
    clock = SteppedClock(stage.folder)
    leader = await clock.started(stage, "pod-0", **ELECTED)
    await leader.leads()
    clock.set(step)
    await api.created(MODELS, model("one", "one:1"))
    await seen(api, "one", "one:1")

    def is_of_that_time(reply: Reply) -> bool:
        renewed = datetime.fromisoformat(reply.body["spec"]["renewTime"])
        return abs((renewed - datetime.now(UTC)).total_seconds() - step) < HOUR / 2

    await api.until(LEASE, is_of_that_time)
    follower = await stage.started("pod-1", **ELECTED)
    assert (await follower.ready())["leads"] is False
    await leader.kill()
    await follower.leads()
    await api.created(MODELS, model("two", "two:1"))
    await seen(api, "two", "two:1")
    assert (stage.looked("one:1"), stage.looked("two:1")) == (1, 1)
