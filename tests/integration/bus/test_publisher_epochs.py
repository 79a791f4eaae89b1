"""When a publisher begins a new epoch, and when it goes on in the old one."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from support.cache_feed import feeding
from support.cache_objects import widgets
from support.nats import eventually
from support.publishing import (
    QUICK,
    Cluster,
    agrees,
    history,
    publishing,
    settles,
    skipped,
)

from controller_runtime.kube.reflector_state import ListFrom
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.consumer import read_present
from controller_runtime.log.freshness import boot_seconds
from controller_runtime.log.publish.epoch import Reason, Scoping
from controller_runtime.log.publish.judgement import Scope
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.state import PublisherSettings, PublisherSetup
from controller_runtime.log.publish.writer import Writer
from controller_runtime.log.wire.subjects import Layout

PART = "widgets"


async def test_a_restart_without_changes_continues_the_epoch(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        publisher.take(cluster.put("a", changed=True))
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch == epoch
        assert publisher.statistics.repaired == 0
    assert len(await history(bus, layout, PART)) == 2


async def test_what_somebody_writes_while_the_stream_is_read_is_no_fall_of_its_end(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, reasons, written = Cluster(), list[Reason](), list[bool]()
    begin = Scoping.begin

    def note(scoping: Scoping, reason: Reason) -> None:
        reasons.append(reason)
        begin(scoping, reason)

    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
        scope = Scope(publisher.epoch, publisher.epoch)

        async def read_late(*args: Any, **options: Any) -> Any:
            if not written:
                late = cluster.put("late")
                publisher.take(late)
                former = Writer(PublisherSetup(bus, "former", layout=layout), widgets(), "former")
                written.append(await former.write(late.obj, scope))
            return await read_present(*args, **options)

        monkeypatch.setattr("controller_runtime.log.publish.session.read_present", read_late)
        monkeypatch.setattr(Scoping, "begin", note)
        publisher.reread()
        await eventually(lambda: written == [True], "read again")
        await settles(bus, layout, PART, cluster, publisher)
    assert reasons == []


async def test_an_older_list_is_waited_for_before_it_counts_as_a_restored_cluster(
    bus: BusConnection, layout: Layout
) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
    stale = cluster.listing()
    change = cluster.put("a", newer=True)
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
    async with publishing(
        bus, widgets(), layout, source="third", settings=PublisherSettings(checkpoint_interval=0.1)
    ) as publisher:
        publisher.take(stale)
        await eventually(lambda: publisher.statistics.phase == "loading", "loading")
        publisher.take(change)
        await settles(bus, layout, PART, cluster, publisher)
        versions = await history(bus, layout, PART)
        assert [v.state.resource_version for v in versions] == sorted(v.state.resource_version for v in versions)
    assert epoch


async def test_a_restored_cluster_begins_an_epoch_in_which_older_versions_count(
    bus: BusConnection, layout: Layout
) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a", number=1))
        for number in range(5):
            publisher.take(cluster.put("a", number=number))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
        restored = Cluster(version=50)
        restored.put("a", restored=True)
        publisher.take(restored.listing(rewound=True))
        await settles(bus, layout, PART, restored, publisher)
        assert publisher.epoch > epoch
        publisher.take(restored.put("a", restored=2))
        await settles(bus, layout, PART, restored, publisher)


async def test_another_cluster_behind_the_same_broker_begins_an_epoch(bus: BusConnection, layout: Layout) -> None:
    cluster, other = Cluster(), Cluster(version=10)
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
    other.put("b")
    publisher = Publisher(PublisherSetup(bus, "second", "cluster-2", layout, settings=QUICK), widgets())
    publisher.take(other.listing())
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(publisher.run())
        await settles(bus, layout, PART, other, publisher)
        assert publisher.epoch > epoch
        runner.cancel()


@pytest.mark.spec("FW-406", "FW-408")
async def test_a_change_amid_a_comparison_begins_no_epoch_and_undoes_no_own_write(
    bus: BusConnection, layout: Layout
) -> None:
    cluster = Cluster()
    cluster.put("a", number=1)
    async with publishing(bus, widgets(), layout) as publisher, feeding(bus, layout, [widgets()]) as fed:
        part = fed.cache.parts[0]
        publisher.take(cluster.listing())
        await eventually(lambda: fed.cache.is_fresh(part), "fresh")
        epoch, generations = publisher.epoch, fed.statistics.projection.generations
        for number in range(2, 5):
            publisher.take(cluster.listing())
            await asyncio.sleep(0.002)
            user, own = cluster.put("a", number=number), cluster.put("a", own=number)
            fed.cache.absorb(part, cluster.objects[own.obj.key], boot_seconds())
            fed.changes.clear()
            publisher.take(user)
            publisher.take(own)
            await settles(bus, layout, PART, cluster, publisher)
            assert fed.changes == []
        assert publisher.statistics.sessions >= 4
        assert publisher.epoch == epoch
        assert fed.statistics.projection.generations == generations
    assert skipped(await history(bus, layout, PART), cluster) == []


@pytest.mark.spec("FW-408")
async def test_versions_compare_across_an_epoch_before_its_checkpoint_is_seen(
    bus: BusConnection, layout: Layout
) -> None:
    """A cache that knows an own write does not go back over it when a new epoch brings what came before."""
    cluster = Cluster()
    cluster.put("a", number=1)
    async with publishing(bus, widgets(), layout) as publisher, feeding(bus, layout, [widgets()]) as fed:
        part = fed.cache.parts[0]
        publisher.take(cluster.listing())
        await eventually(lambda: fed.cache.is_fresh(part), "fresh")
        epoch = publisher.epoch
        cluster.put("a", number=2)
        publisher.take(cluster.listing())
        own = cluster.put("a", number=3)
        fed.cache.absorb(part, cluster.objects[own.obj.key], boot_seconds())
        fed.changes.clear()
        await eventually(lambda: publisher.epoch > epoch, "a version was missed")
        publisher.take(own)
        await settles(bus, layout, PART, cluster, publisher)
        assert fed.changes == []


@pytest.mark.spec("FW-408")
async def test_a_lagging_cache_is_no_restored_store(bus: BusConnection, layout: Layout) -> None:
    """Only a list from the store itself tells that the cluster went back; until then no publisher confirms the part."""
    cluster, asked = Cluster(), list[ListFrom]()
    cluster.put("a", number=1)
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
        stale = cluster.listing()
        publisher.take(cluster.put("a", number=2))
        publisher.take(cluster.put("b"))
        await settles(bus, layout, PART, cluster, publisher)
    async with publishing(bus, widgets(), layout, source="second", relist=asked.append) as publisher:
        publisher.take(stale)
        await eventually(lambda: bool(asked), "the store is asked")
        publisher.take(stale)
        await asyncio.sleep(2 * QUICK.list_grace)
        assert publisher.statistics.checkpoints == 0
        assert await agrees(bus, layout, PART, cluster)
        publisher.take(replace(cluster.listing(), from_store=True))
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch == epoch
        assert set(asked) == {ListFrom.STORE}
        asked.clear()
        restored = Cluster(version=10)
        restored.put("a", restored=True)
    async with publishing(bus, widgets(), layout, source="third", relist=asked.append) as publisher:
        publisher.take(restored.listing())
        await eventually(lambda: bool(asked), "the store is asked")
        publisher.take(replace(restored.listing(), from_store=True))
        await settles(bus, layout, PART, restored, publisher)
        assert publisher.epoch > epoch
