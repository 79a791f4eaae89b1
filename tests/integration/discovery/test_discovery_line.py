"""The line for discovery Jobs: it moves when somebody may come up, and costs nothing while it stands."""

import random
from collections import Counter

import pytest
from support.builders import make
from support.discovery_bench import DiscoveryBench, discovery_bench
from support.discovery_cache import cluster_template, template

from aim_discovery.templates.slots import joined
from aim_domain.labels import ANNOTATION_PAUSED
from aim_domain.parts import CLUSTER_TEMPLATES, DISCOVERY_JOBS, NAMESPACES, TEMPLATES
from controller_runtime import Key, timestamp
from controller_runtime.kinds import NAMESPACE as NAMESPACE_KIND
from controller_runtime.testing import NOW

PAUSE = {"metadata": {"annotations": {ANNOTATION_PAUSED: "true"}}}


async def arrive(bench: DiscoveryBench, count: int, prefix: str = "t") -> None:
    """So many templates, each a second younger than the one before, every third of them cluster-scoped."""
    for number in range(count):
        name = f"{prefix}{number:02}"
        if number % 3 == 2:
            await bench.create(CLUSTER_TEMPLATES, cluster_template(name, profileId=name))
        else:
            await bench.create(TEMPLATES, template(name, profileId=name))
        bench.clock.advance(1.0)
    await bench.settle()


@pytest.mark.spec("DI-317", "DI-318")
async def test_waiting_costs_nothing_and_a_slot_costs_the_passes_of_those_who_move() -> None:
    async with discovery_bench(limit=2) as bench:
        await arrive(bench, 40)
        assert bench.owners() == ["t00", "t01"]
        # Their first statuses wait a moment (FW-518), and the Events of Jobs without pods are read (DI-391).
        await bench.pass_time(30)
        bench.passes.clear()
        await bench.pass_time(3600)
        assert bench.passes == {}, "nobody looks at the clock"

        for number in range(2, 12):
            bench.passes.clear()
            await bench.delete(DISCOVERY_JOBS, bench.running()[0])
            await bench.settle()
            assert bench.owners()[-1] == f"t{number:02}", "first come, first served"
            others = set(bench.passes) - {f"t{number - 2:02}", f"t{number:02}"}
            assert others == set(), "who does not move is not looked at"


@pytest.mark.spec("DI-311", "DI-317")
async def test_slots_that_become_free_together_go_to_as_many() -> None:
    async with discovery_bench(limit=4) as bench:
        await arrive(bench, 30)
        bench.passes.clear()
        for job in bench.running():
            await bench.delete(DISCOVERY_JOBS, job)
        await bench.settle()
        assert bench.owners() == ["t04", "t05", "t06", "t07"]
        assert set(bench.passes) == {f"t{number:02}" for number in range(8)}


@pytest.mark.spec("DI-317", "DI-318")
@pytest.mark.parametrize("how", ["paused", "deleted", "namespace"])
async def test_who_leaves_the_line_lets_the_next_one_come_up(how: str) -> None:
    """Nothing else tells those behind: a slot is free, but it was kept for the one who left."""
    async with discovery_bench(limit=1) as bench:
        await bench.create(NAMESPACES, make(NAMESPACE_KIND, "other"))
        first = template("a-first", profileId="1")
        await bench.create(TEMPLATES, {**first, "metadata": {**first["metadata"], "namespace": "other"}})
        bench.clock.advance(1.0)
        await bench.create(TEMPLATES, template("b-second", profileId="2"))
        key = Key("other", "a-first")
        # The first one is in line, but has had no pass when the second one looks.
        taken = await bench.queues["service-template"].get()
        assert taken.key == key
        bench.queues["service-template"].done(key)
        await bench.settle()
        assert bench.owners() == []
        if how == "paused":
            await bench.change(TEMPLATES, key, PAUSE)
        elif how == "deleted":
            await bench.delete(TEMPLATES, key)
        else:
            known = bench.access.live(NAMESPACES, Key("", "other"))
            assert known is not None
            going = {"deletionTimestamp": timestamp(NOW), "resourceVersion": "1000000"}
            bench.absorb(NAMESPACES, {**known, "metadata": {**known["metadata"], **going}})
        await bench.settle()
        assert bench.owners() == ["b-second"]


@pytest.mark.spec("DI-311", "DI-317", "DI-318")
@pytest.mark.parametrize("seed", range(3))
async def test_whatever_happens_no_slot_is_left_to_nobody(seed: int) -> None:
    """Templates come, go and pause, Jobs fail or vanish, backoffs end: a free slot never meets somebody who waits."""
    chance = random.Random(seed)
    async with discovery_bench(limit=3) as bench:
        await arrive(bench, 8)
        born = 8
        done: Counter[str] = Counter()
        for _ in range(30):
            event = chance.choice(["arrive", "end", "end", "vanish", "pause", "go on", "delete", "wait"])
            local = [entry.key for entry in bench.cache.all(TEMPLATES)]
            if event == "arrive":
                await bench.create(TEMPLATES, template(f"n{born}", profileId=str(born)))
                born += 1
            elif event in ("end", "vanish") and bench.running():
                job = chance.choice(bench.running())
                await (bench.end(job) if event == "end" else bench.delete(DISCOVERY_JOBS, job))
            elif event in ("pause", "go on") and local:
                annotations = PAUSE if event == "pause" else {"metadata": {"annotations": {ANNOTATION_PAUSED: None}}}
                await bench.change(TEMPLATES, chance.choice(local), annotations)
            elif event == "delete" and local:
                await bench.delete(TEMPLATES, chance.choice(local))
            done[event] += 1
            if chance.random() < 0.7:
                await bench.settle()
                check(bench)
            await bench.pass_time(chance.choice([1, 30, 90]))
            check(bench)
        assert len(done) == 7, "the seed tries everything"


def check(bench: DiscoveryBench) -> None:
    """What must hold whenever nothing is under way."""
    active = bench.owners()
    assert len(active) <= bench.limit
    now = bench.workers["service-template"]._now()
    local = (entry.object for entry in bench.cache.all(TEMPLATES))
    shared = (entry.object for entry in bench.cache.all(CLUSTER_TEMPLATES))
    objects = [obj for obj in (*local, *shared) if obj is not None]
    waiting = [obj.name for obj in objects if (since := joined(obj)) is not None and since <= now]
    assert len(active) == bench.limit or set(waiting) <= set(active), "a free slot, and somebody waits for one"
