"""A publisher on a broker that works: order, history, checkpoints."""

import asyncio
import weakref
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from support.cache_objects import widget, widgets
from support.nats import connected, eventually
from support.publishing import (
    QUICK,
    Cluster,
    agrees,
    all_states,
    history,
    of,
    publishing,
    settles,
    unnamed_holes,
)

from controller_runtime import Key
from controller_runtime.kube.reflector_state import Event, Restarted, Upsert
from controller_runtime.log.broker.connection import BusConnection, Message
from controller_runtime.log.broker.reading import last_message, stream_state
from controller_runtime.log.publish.checkpoint import decode_checkpoint
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.source import SourceVersion, published
from controller_runtime.log.publish.state import PublisherSettings, PublisherSetup
from controller_runtime.log.wire.messages import Verb
from controller_runtime.log.wire.subjects import Layout

PART = "widgets"


class _Listed(list[SourceVersion]):
    """Objects of a list, of which can be told whether somebody still holds them."""


async def test_every_version_is_kept_in_order_and_the_last_one_is_present(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for number in range(20):
            publisher.take(cluster.put("a", number=number))
            publisher.take(cluster.put("b", number=number))
        await settles(bus, layout, PART, cluster, publisher)
    versions = await history(bus, layout, PART)
    for name in "ab":
        assert [version.state.json()["spec"]["number"] for version in of(versions, name)] == list(range(20))  # type: ignore[index]  # no tombstone
    assert unnamed_holes(versions) == []
    assert len({version.state.epoch for version in versions}) == 1


async def test_a_deletion_is_a_tombstone_and_a_recreation_a_new_object(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        publisher.take(cluster.delete("a"))
        publisher.take(cluster.put("a"))
        publisher.take(cluster.put("b"))
        publisher.take(cluster.delete("b"))
        await settles(bus, layout, PART, cluster, publisher)
    versions = await history(bus, layout, PART)
    assert [version.state.verb for version in of(versions, "a")] == [Verb.UPSERT, Verb.DELETE, Verb.UPSERT]
    assert len({version.state.uid for version in of(versions, "a")}) == 2
    states = await all_states(bus, layout, PART)
    assert states[Key("ns", "b")].deleted
    assert unnamed_holes(versions) == []


async def test_noise_is_dropped(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        cluster.put("a")
        clean = cluster.objects[Key("ns", "a")]
        annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
        noise = {"managedFields": [{"manager": "kubectl"}], "annotations": annotations}
        noisy = {**clean, "metadata": {**clean["metadata"], **noise}}
        publisher.take(Upsert(published(cluster.part)(noisy), str(cluster.version)))
        await eventually(lambda: publisher.statistics.published == 1, "published")
    states = await all_states(bus, layout, PART)
    assert states[Key("ns", "a")].json() == clean


async def test_the_first_list_is_compared_with_what_the_stream_holds(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for name in ("kept", "changed", "gone"):
            publisher.take(cluster.put(name))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
    cluster.put("changed", now=True)
    cluster.delete("gone")
    cluster.put("new")
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.statistics.repaired == 3
        assert publisher.epoch > epoch, "versions may be missing in between, so the history must say so"
    versions = await history(bus, layout, PART)
    assert len(of(versions, "kept")) == 1
    assert unnamed_holes(versions) == []


async def test_a_checkpoint_comes_only_after_the_comparison(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    for number in range(50):
        cluster.put(f"w{number}")
    async with publishing(bus, widgets(), layout) as publisher:
        await eventually(lambda: publisher.statistics.phase == "loading", "loading")
        assert await last_message(bus, layout.state_stream, layout.sync(PART)) is None
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.checkpoints > 0, "marker")
        assert await agrees(bus, layout, PART, cluster)
        found = await last_message(bus, layout.state_stream, layout.sync(PART))
        assert found is not None
        assert decode_checkpoint(found.data).resource_version == str(cluster.version)


async def test_a_checkpoint_vouches_only_for_what_lies_before_it(
    bus: BusConnection, nats_server: str, layout: Layout
) -> None:
    """What the cluster had at the checkpoint's version was sent before the checkpoint, amid concurrent writes."""
    cluster, sent, broken = Cluster(), dict[str, int](), list[str]()

    async def look(message: Message) -> None:
        if message.subject == layout.sync(PART):
            version = int(decode_checkpoint(message.data).resource_version)
            for name, past in cluster.past.items():
                due = max((int(rv) for rv in past if int(rv) <= version), default=0)
                if sent.get(name, 0) < due:
                    broken.append(f"{name} at {sent.get(name, 0)} instead of {due}")
        else:
            sent[layout.parse_state(message.subject)[1].name] = int(message.headers["Aim-Rv"])

    async with connected(nats_server, "observer") as observer:
        await observer.wait_connected()
        await observer.subscribe(f"{layout.root}.state.>", look)
        await observer.subscribe(layout.sync(PART), look)
        # An answer on the same connection means that the broker knows of the subscriptions.
        await stream_state(observer, layout.state_stream)
        settings = PublisherSettings(checkpoint_interval=0.005, concurrency=4)
        async with publishing(bus, widgets(), layout, settings=settings) as publisher:
            publisher.take(cluster.listing())
            for number in range(600):
                publisher.take(cluster.put(f"w{number % 60}", number=number))
                if number % 30 == 0:
                    await asyncio.sleep(0.01)
            await settles(bus, layout, PART, cluster, publisher)
            assert publisher.statistics.checkpoints >= 2
    assert broken == []
    assert len(await history(bus, layout, PART)) == 600


async def test_comparing_asks_the_reflector_for_a_list(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    asked = asyncio.Event()
    settings = PublisherSettings(checkpoint_interval=0.1, compare_interval=0.3)
    async with publishing(bus, widgets(), layout, settings=settings, relist=lambda _: asked.set()) as publisher:
        publisher.take(cluster.listing())
        await eventually(asked.is_set, "asked")
        cluster.put("a")
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)


@pytest.mark.spec("FW-019")
async def test_the_checkpoint_waits_for_a_list_when_the_watch_falls_silent(bus: BusConnection, layout: Layout) -> None:
    cluster, asked = Cluster(), asyncio.Event()
    settings = replace(QUICK, checkpoint_interval=0.05, watch_silence=3.0)
    async with publishing(bus, widgets(), layout, settings=settings, relist=lambda _: asked.set()) as publisher:
        publisher.take(cluster.listing())
        bookmarks = 0

        async def vouched_for() -> bool:
            nonlocal bookmarks
            publisher.take(cluster.bookmark())
            bookmarks += 1
            return bookmarks > 40 and publisher.statistics.checkpoints > 3

        await eventually(vouched_for, "bookmarks are signs of life", interval=0.1)
        assert not asked.is_set()
        await asyncio.wait_for(asked.wait(), 60)
        checkpoints = publisher.statistics.checkpoints
        await asyncio.sleep(0.3)
        assert publisher.statistics.checkpoints == checkpoints
        assert "silent" in (publisher.statistics.interrupted_by or "")
        publisher.take(cluster.listing())
        await eventually(
            lambda: publisher.statistics.checkpoints > checkpoints, "the list proves that the server answers"
        )
        assert publisher.statistics.interrupted_by is None


@pytest.mark.spec("FW-459")
async def test_a_list_is_let_go_when_it_was_taken(bus: BusConnection, layout: Layout) -> None:
    """The next event may be a minute away."""
    taken, listed = asyncio.Event(), _Listed([published(widgets())(widget("a"))])
    held = weakref.ref(listed)

    async def events(given: list[Event[SourceVersion]]) -> AsyncIterator[Event[SourceVersion]]:
        while given:
            yield given.pop()
        taken.set()
        await asyncio.Event().wait()

    given: list[Event[SourceVersion]] = [Restarted(listed, "1")]
    del listed
    consuming = asyncio.create_task(
        Publisher(PublisherSetup(bus, "s", layout=layout), widgets()).consume(events(given))
    )
    await taken.wait()
    assert held() is None
    consuming.cancel()
