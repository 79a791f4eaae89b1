"""Messages that somebody else put in the place of a publisher's."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from support.bus_source import Source
from support.cache_objects import widgets
from support.nats import eventually
from support.proofs import PART, PATIENT, filled, following, running
from support.publishing import settles

from controller_runtime import JsonObject, Key, Part, Resource, dumps, loads
from controller_runtime.log.broker.connection import BusConnection, PubAck
from controller_runtime.log.broker.reading import last_message
from controller_runtime.log.wire.subjects import Layout

FORGED = {"spec": {"forged": True}}
NO_HEADERS = None


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


async def replace_message(
    bus: BusConnection, layout: Layout, name: str, body: JsonObject, headers: Mapping[str, str] | None
) -> None:
    """Put another message in the place of an object's, with some other headers, or none at all."""
    subject = layout.state(PART, Key("ns", name))
    message = await last_message(bus, layout.state_stream, subject)
    assert message is not None
    # Without the broker's own headers, which fence and name it.
    kept = {name: value for name, value in message.headers.items() if not name.startswith("Nats-")}
    forged = {} if headers is None else {**kept, **headers}
    # There are as many messages as before, so that the publisher does not see it by itself.
    assert isinstance(await bus.publish(subject, dumps({**loads(message.data), **body}), forged), PubAck)


@pytest.mark.spec("FW-406", "FW-483", "FW-486")
@pytest.mark.parametrize(
    ("body", "headers", "answers"),
    [
        ({}, {}, True),
        ({}, NO_HEADERS, True),
        (FORGED, {}, True),
        (FORGED, NO_HEADERS, False),
        (FORGED, {}, False),
        (FORGED, {"Aim-Uid": "other"}, True),
        (FORGED | {"metadata": {"namespace": "ns", "name": "w3", "uid": "other"}}, {"Aim-Uid": "other"}, True),
        (FORGED, {"Aim-Verb": "delete"}, True),
        (FORGED, {"Aim-Prev": "77777"}, True),
        (FORGED, {"Aim-Gap": "1"}, True),
        (FORGED, {"Aim-Repeats": "1"}, True),
        (FORGED, {"Aim-Epoch": "zzzz"}, True),
        (FORGED, {"Aim-Epoch": "99991231T235959.999Z-ffffff"}, True),
        (FORGED, {"Aim-Epoch": "89991231T235900.000Z-ffffff"}, True),
        (FORGED, {"Aim-Era": "zzzz"}, True),
        (FORGED, {"Aim-Rv": "9" * 5000}, True),
        (FORGED, {"ce-id": "x"}, True),
    ],
)
async def test_a_replaced_message_is_found_by_the_consumer_and_repaired_by_the_publisher(
    bus: BusConnection,
    layout: Layout,
    part: Part[Resource],
    body: JsonObject,
    headers: Mapping[str, str] | None,
    *,
    answers: bool,
) -> None:
    cluster = filled()
    async with running(bus, layout, cluster, answers=answers) as publisher, following(bus, layout, part) as fed:
        await settles(bus, layout, PART, cluster, publisher)
        await eventually(lambda: fed.cache.is_fresh(part), "fresh")
        with fed.feed.listening(lambda _: publisher.reread()):
            sessions = publisher.statistics.sessions
            await replace_message(bus, layout, "w3", body, headers)
            await eventually(lambda: publisher.statistics.sessions > sessions, "compared")
            await settles(bus, layout, PART, cluster, publisher)
            await eventually(lambda: fed.cache.is_fresh(part) and fed.content(part) == cluster.objects, "agreed again")


@pytest.mark.spec("FW-483")
async def test_a_version_that_no_list_ever_had_is_repaired_once_the_store_says_so(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    """Nothing else tells it from a cluster that went back to an older copy of its store."""
    cluster = filled()
    async with running(bus, layout, cluster) as publisher, following(bus, layout, part) as fed:
        await settles(bus, layout, PART, cluster, publisher)
        await eventually(lambda: fed.cache.is_fresh(part), "fresh")
        with fed.feed.listening(lambda _: publisher.reread()):
            await replace_message(bus, layout, "w3", FORGED, {"Aim-Rv": "999999"})
            await eventually(lambda: fed.cache.is_fresh(part) and fed.content(part) == cluster.objects, "agreed again")
            await settles(bus, layout, PART, cluster, publisher)


@pytest.mark.spec("FW-483")
async def test_a_consumer_that_goes_on_disagreeing_has_the_stream_read_again_once_per_snapshot(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    source, reported = Source(bus, layout), list[Part[Any]]()
    source.change("never-published")
    source.sequences[Key("ns", "never-published")] = 77
    async with following(bus, layout, part, cluster="c", settings=replace(PATIENT, restage=600)) as fed:
        with fed.feed.listening(reported.append):
            async with asyncio.TaskGroup() as group:
                marking = group.create_task(source.keep_marking())
                await eventually(lambda: fed.statistics.projection.disagreed >= 5, "disagrees with every marker")
                marking.cancel()
            assert (reported, fed.statistics.projection.restaged) == ([part], 1)


@pytest.mark.spec("FW-483")
async def test_what_a_publisher_did_not_write_is_compared_by_content_whatever_ended_the_session(
    bus: BusConnection, layout: Layout
) -> None:
    cluster = filled()
    async with running(bus, layout, cluster) as publisher:
        await settles(bus, layout, PART, cluster, publisher)
        await replace_message(bus, layout, "w3", FORGED, {})
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
