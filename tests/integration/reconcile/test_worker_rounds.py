"""A round: every object had a pass, however busy the queue is."""

import asyncio

from support.nats import eventually
from support.reconcile_bench import SERVICES, Bench, service

from aim_domain import AIMService
from controller_runtime import Key, Plan, View
from controller_runtime.reconcile.plan import NOTHING


async def test_a_round_is_over_once_every_object_had_its_pass(bench: Bench) -> None:
    await bench.create(SERVICES, service("other"))
    bench.worker.begin_round()
    assert not bench.worker.round_over
    begun = 0

    def never_idle(obj: AIMService, _view: View) -> Plan:
        nonlocal begun
        begun += 1
        if obj.metadata.name == "other":
            return NOTHING
        return Plan(requeue_after=0)

    bench.decision = never_idle
    async with asyncio.TaskGroup() as group:
        group.create_task(bench.worker.run(1))
        await eventually(lambda: bench.worker.round_over, "every object had a pass", interval=0.001)
        assert not bench.idle, "one object asks for a pass all the time"
        bench.queue.close()
    assert begun >= 2


async def test_an_object_that_is_gone_does_not_hold_a_round_up(bench: Bench) -> None:
    bench.worker.begin_round()
    live = bench.target().raw
    bench.access.absorb(SERVICES, live, gone=True)
    assert bench.cache.get(SERVICES, Key("default", "chat")) is None
    async with asyncio.TaskGroup() as group:
        group.create_task(bench.worker.run(1))
        await eventually(lambda: bench.worker.round_over, "every object had a pass", interval=0.001)
        bench.queue.close()
